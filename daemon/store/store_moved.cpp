// SPDX-License-Identifier: Apache-2.0
// Another directory has the name of the store: a file system was mounted there, or taken away. Or none has it any more,
// and it is made again.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <mutex>
#include <system_error>
#include <utility>

#include "daemon/log/log.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/file_calls.hpp"

namespace flight::daemon {
namespace {

constexpr mode_t kRemadeMode = 0770;  // as take_state_folder() makes it

// In a STATE that flightd holds already.
Result<void> remake(const std::string& folder) {
  if (::mkdir(folder.c_str(), kRemadeMode) != 0) return sys_error(errno, "create directory {}", folder);
  const UniqueFd made(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made) return sys_error(errno, "open directory {}", folder);
  // mkdir(2) applies the umask; the broker needs g+w.
  if (auto set = mode_now(made.get(), kRemadeMode); !set) return wrap(set.error(), "directory {}", folder);
  return {};
}

// A read-only file system is used: what is in it can be read.
Result<void> check_usable(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return sys_error(errno, "stat directory {}", folder);
  if (const std::string why = sticky_trouble(info, ::geteuid()); !why.empty())
    return fail(std::errc::operation_not_permitted, "{}", why);
  if (::faccessat(AT_FDCWD, folder.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) == 0 || errno == EROFS) return {};
  return sys_error(errno, "flightd may not write to it");
}

tl::unexpected<Error> cannot_be_used(const std::string& folder, bool gone, const Error& why) {
  return propagate({.code = std::error_code(ESTALE, std::generic_category()),
                    .what = fmt::format(
                        "{} {}: {}; `systemd-tmpfiles --create flightd.conf` makes and gives its directories", folder,
                        gone ? "does not exist any more (a file system was mounted above it, or it was moved or "
                               "removed), and cannot be made again"
                             : "is another directory than before (a file system was mounted there, or taken away), "
                               "and cannot be used",
                        why.what)});
}

std::string moved_text(const std::string& folder, std::uint64_t last) {
  return fmt::format(
      "{} is another directory than before: a file system was mounted there, or taken away. Snapshots up to number {} "
      "are in the other one",
      folder, last);
}

}  // namespace

std::string StoreService::moved_warning() const {
  const std::lock_guard lock(mutex_);
  return moved_warning_;
}

// STATE may be another one, too: then it is taken as at start.
Result<void> StoreService::take_another(bool gone) {
  if (take_ && !leads_to(fmt::format("{}/{}", trigger_state_.folder(), kLockName), lock_)) {
    auto taken = take_();
    if (!taken) return propagate(taken.error());
    lock_ = std::move(taken->lock);
    for (const std::string& warning : taken->warnings) log::warn("{}", warning);
    const std::lock_guard lock(mutex_);
    state_warnings_ = std::move(taken->warnings);
  } else if (gone) {
    if (auto made = remake(folder()); !made) return made;
  }
  return check_usable(folder());
}

// The numbers go on above those of all directories before. Returns the next one.
std::uint64_t StoreService::continue_numbers(const Result<std::uint64_t>& before) {
  const auto raise = [this](std::uint64_t least) {
    if (auto raised = catalogue_.raise_seq(least); !raised) log::warn("{}", raised.error().what);
    if (const auto& damage = catalogue_.damaged_seq()) log::warn("{}", damage->what);
  };
  if (!before)
    log::warn("the numbers of the directory before {} are lost: {}", folder(), before.error().what);
  else if (*before > kMaxForeignSeq)
    raise(*before);
  else
    highest_seq_ = std::max(highest_seq_, *before);
  raise(highest_seq_);
  return std::max(highest_seq_, catalogue_.last_seq().value_or(0)) + 1;
}

// Takes over a directory that has replaced the store. Otherwise snapshots would go into a directory that is not locked,
// and their numbers would begin again.
Result<void> StoreService::follow_folder() {
  if (!held_.holds()) held_.hold(folder());
  const HeldStore::Name name = held_.look(folder());
  if (name == HeldStore::Name::same) return {};
  const auto before = held_.last_seq();
  const bool gone = name == HeldStore::Name::gone;
  if (auto taken = take_another(gone); !taken) return cannot_be_used(folder(), gone, taken.error());
  held_.hold(folder());
  const std::uint64_t next = continue_numbers(before);
  log::warn(
      "{} is another directory than before: a file system was mounted there, or taken away{}. Snapshots go to it "
      "from now on, with numbers from {} on; those before are in the other one",
      folder(), gone ? ", or the directory was moved or removed, and flightd has made it again" : "", next);
  {
    const std::lock_guard lock(mutex_);
    moved_warning_ = held_.is_first() ? "" : moved_text(folder(), next - 1);
  }
  boost::asio::post(loop_, [this] {
    refresh_use();
    moved_();
  });
  return {};
}

}  // namespace flight::daemon
