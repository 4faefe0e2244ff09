// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/partial_file.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "libcore/base/directory.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::broker {
namespace {

constexpr std::string_view kPrefix = ".flightd-";
constexpr std::string_view kSuffix = ".partial";
constexpr std::size_t kNumberDigits = 16;
constexpr mode_t kMode = 0640, kSpareMode = 0660;
constexpr std::size_t kMaxFolderEntries = 1'000'000;

// The directory belongs to flightd, its parent does not: the last path component must not be a link.
Result<Directory> open_folder(const std::string& state_dir) {
  const std::string path = state_dir + "/snapshots";
  auto state = open_file(state_dir, O_RDONLY | O_DIRECTORY);
  if (!state) return wrap(state.error(), "the state directory");
  return Directory::open_at(state->get(), "snapshots", path);
}

// As random_name() makes it. flightd gives those of a recording other names: it has up to twelve, and those of parts
// that it could not finish stay until there is space on the disk.
bool has_first_name(std::string_view file) {
  if (file.size() != kPrefix.size() + kNumberDigits + kSuffix.size()) return false;
  if (!file.starts_with(kPrefix) || !file.ends_with(kSuffix)) return false;
  return file.substr(kPrefix.size(), kNumberDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<std::size_t> count_partial_files(Directory& folder) {
  std::size_t entries = 0;
  std::size_t found = 0;
  auto read = folder.each([&](const Directory::Entry& entry) {
    if (has_first_name(entry.name)) ++found;
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
  return fmt::format("{}{:016x}{}", kPrefix, number, kSuffix);
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

}  // namespace

Result<NewFile> create_partial_file(const std::string& state_dir, std::optional<gid_t> group, FileKind kind) {
  auto folder = open_folder(state_dir);
  if (!folder) return propagate(folder.error());
  const auto found = count_partial_files(*folder);
  if (!found) return propagate(found.error());
  if (*found >= kMaxPartialFiles)
    return fail(
        std::errc::no_space_on_device,
        "{}/snapshots has {} unfinished files ({}*{}) already: remove them, or restart flightd, which removes them",
        state_dir, *found, kPrefix, kSuffix);
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
    ::unlinkat(folder->fd(), name->c_str(), 0);
    return wrap(given.error(), "give a file in {}/snapshots to root", state_dir);
  }
  return NewFile{.fd = std::move(fd), .name = std::move(*name)};
}

}  // namespace flight::broker
