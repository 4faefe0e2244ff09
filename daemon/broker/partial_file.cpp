// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/partial_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <string_view>

#include "libcore/base/directory.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/partial_name.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::broker {
namespace {

constexpr mode_t kMode = 0640, kSpareMode = 0660;
constexpr std::size_t kMaxFolderEntries = 1'000'000;

// The directory belongs to flightd, its parent does not: the last path component must not be a link.
Result<Directory> open_folder(const std::string& state_dir) {
  const std::string path = state_dir + "/snapshots";
  auto state = open_file(state_dir, O_RDONLY | O_DIRECTORY);
  if (!state) return wrap(state.error(), "the state directory");
  return Directory::open_at(state->get(), "snapshots", path);
}

// Files that this broker made, did not send, and could not remove. The threads that make files use it.
struct Unremoved {
  std::mutex mutex;
  std::set<std::string> names;  // as many as kMaxPartialFiles allows
  std::optional<Error> why;     // for one of them
};

Unremoved& unremoved() {
  static Unremoved all;
  return all;
}

void remove_or_remember(const Directory& folder, const std::string& path, const std::string& name) {
  Unremoved& all = unremoved();
  const bool removed = ::unlinkat(folder.fd(), name.c_str(), 0) == 0 || errno == ENOENT;
  const int error_number = removed ? 0 : errno;
  const std::lock_guard lock(all.mutex);
  if (removed) {
    all.names.erase(name);
  } else {
    all.names.insert(name);
    all.why = sys_error(error_number, "flightd-broker could not remove {}/{}", path, name).value();
  }
}

// Tries again. Returns why one of them cannot be removed.
std::optional<Error> remove_unremoved(const Directory& folder, const std::string& path) {
  std::set<std::string> names;
  {
    const std::lock_guard lock(unremoved().mutex);
    names = unremoved().names;
  }
  for (const std::string& name : names) remove_or_remember(folder, path, name);
  const std::lock_guard lock(unremoved().mutex);
  return unremoved().names.empty() ? std::nullopt : unremoved().why;
}

// Not those of a recording, to which flightd gives other names: it has up to twelve, and those of parts that it could
// not finish stay until there is space on the disk.
Result<std::size_t> count_partial_files(Directory& folder) {
  std::size_t entries = 0;
  std::size_t found = 0;
  auto read = folder.each([&](const Directory::Entry& entry) {
    if (is_partial_name(entry.name)) ++found;
    return ++entries <= kMaxFolderEntries;
  });
  if (!read) return propagate(read.error());
  if (entries > kMaxFolderEntries)
    return fail(std::errc::file_too_large, "the snapshots' directory has more than {} files", kMaxFolderEntries);
  return found;
}

Result<std::string> random_name() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number))
    return sys_error(errno, "getrandom");
  return partial_name(number);
}

// A file system that does not let root own it is no reason to lose a snapshot: its sidecar then says that perf needs
// `-f` (libcore/snapshot/commit.hpp). At least its group shall be flightd's, which reads it.
Result<void> give_to_root(int file, mode_t mode, std::optional<gid_t> group) {
  constexpr auto kSameGroup = static_cast<gid_t>(-1);
  // Set the mode first: a broker with its own uid cannot change it after the file belongs to root.
  if (auto set = mode_now(file, mode); !set) return propagate(set.error());
  auto given = own_now(file, 0, group.value_or(kSameGroup));
  if (given && !*given && group) given = own_now(file, static_cast<uid_t>(-1), *group);
  if (!given) return propagate(given.error());
  return {};
}

// EBUSY, not ENOSPC: others must not be deleted for it.
Result<void> check_number(Directory& folder, const std::string& path) {
  auto found = count_partial_files(folder);
  if (!found) return propagate(found.error());
  if (*found < kMaxPartialFiles) return {};
  const auto stuck = remove_unremoved(folder, path);
  found = count_partial_files(folder);
  if (!found) return propagate(found.error());
  if (*found < kMaxPartialFiles) return {};
  return fail(
      std::errc::device_or_resource_busy,
      "{} has {} unfinished files ({}*{}) of failed snapshots already: flightd removes its own as soon as it can, "
      "and all at its start{}{}",
      path, *found, kPartialPrefix, kPartialEnd, stuck ? "; " : "", stuck ? stuck->what : std::string());
}

}  // namespace

void remove_partial_file(const std::string& state_dir, const std::string& name) {
  if (const auto folder = open_folder(state_dir)) remove_or_remember(*folder, state_dir + "/snapshots", name);
}

Result<NewFile> create_partial_file(const std::string& state_dir, std::optional<gid_t> group, FileKind kind) {
  auto folder = open_folder(state_dir);
  if (!folder) return propagate(folder.error());
  if (auto few = check_number(*folder, state_dir + "/snapshots"); !few) return propagate(few.error());
  auto name = random_name();
  if (!name) return propagate(name.error());
  const mode_t mode = kind == FileKind::spare ? kSpareMode : kMode;
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd = with_spare([&] { return ::openat(folder->fd(), name->c_str(), kFlags, mode); });
  if (!fd) {
    const int error_number = errno;
    // The text has no random name, because a caller that tries again reports a text only if it is new.
    auto refused = sys_error(error_number, "create a file in {}/snapshots", state_dir);
    if (error_number == EACCES && group)
      refused.value().what += fmt::format(": the directory must belong to the group {} and be writable for it", *group);
    return refused;
  }
  if (auto given = give_to_root(fd.get(), mode, group); !given) {
    remove_or_remember(*folder, state_dir + "/snapshots", *name);
    return wrap(given.error(), "give a file in {}/snapshots to root", state_dir);
  }
  return NewFile{.fd = std::move(fd), .name = std::move(*name)};
}

}  // namespace flight::broker
