// SPDX-License-Identifier: Apache-2.0
#include "daemon/folders.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string_view>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr mode_t kSnapshotsMode = 0770;
constexpr mode_t kFolderMode = 0755;  // STATE and RUNTIME
constexpr const char* kLockName = "flightd.lock";

struct Folder {
  UniqueFd fd;
  std::string path;
  struct stat info {};
};

// Only the folder itself is made, as its parents are the admin's: a mistyped path is an error, not a new tree.
Result<Folder> open_folder(int parent, const std::string& name, const std::string& path, mode_t mode) {
  if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) {
    const int why = errno;
    if (why == ENOENT)
      return sys_error(why, "make folder {}: the folder above it is missing; make it, or name another", path);
    return sys_error(why, "make folder {}", path);
  }
  Folder out{.fd = UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
             .path = path};
  if (!out.fd && (errno == ENOTDIR || errno == ELOOP))
    return fail(std::errc::not_a_directory, "{} is no folder (a link to one is not followed)", path);
  if (!out.fd) return sys_error(errno, "open folder {}", path);
  if (::fstat(out.fd.get(), &out.info) != 0) return sys_error(errno, "look at folder {}", path);
  return out;
}

Result<bool> is_empty(const Folder& folder) {
  UniqueFd again(::openat(folder.fd.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(::fdopendir(again.get()), &::closedir);
  if (!entries) return sys_error(errno, "list folder {}", folder.path);
  static_cast<void>(again.release());
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != "lost+found") return false;  // the last: a disk of flightd's own
  }
  return true;
}

// A folder that root gives away must be flightd's own: /run or /tmp, named by mistake, would be lost to all others.
Result<void> check_ours(const Folder& folder, const Identity& identity) {
  if (::geteuid() != 0) {
    if (::faccessat(folder.fd.get(), ".", W_OK | X_OK, AT_EACCESS) == 0) return {};
    return sys_error(errno, "folder {} is not writable for {}", folder.path, identity.user);
  }
  const bool shared = (folder.info.st_mode & S_IWOTH) != 0;
  if (!shared && folder.info.st_uid == identity.uid) return {};
  if (!shared && ::faccessat(folder.fd.get(), kLockName, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
    return {};  // under another user
  auto empty = is_empty(folder);
  if (!empty) return pass(empty.error());
  if (!shared && *empty) return {};
  return fail(
      std::errc::file_exists,
      "folder {} is not flightd's own ({}): flightd would take it from others; name a folder of its own, or one "
      "that is not there yet",
      folder.path, shared ? "everybody may write into it" : "it has other things in it");
}

std::string pid_in(const UniqueFd& lock) {
  const auto text = read_all(lock.get(), 32);
  const std::string digits = text ? text->substr(0, text->find('\n')) : "";
  return digits.empty() ? "" : fmt::format(" (pid {})", digits);
}

Result<UniqueFd> lock(const Folder& folder, std::string_view option) {
  // Held for reading: a file that is open for writing would keep the admin from remounting the disk read-only.
  // The folder is the user's, who may have put anything there: a FIFO must not hold up root's start.
  UniqueFd file(::openat(folder.fd.get(), kLockName, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  if (!file) return sys_error(errno, "open {}/{}", folder.path, kLockName);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(std::errc::file_exists, "{}/{} is no plain file; remove it", folder.path, kLockName);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return sys_error(errno, "lock {}/{}", folder.path, kLockName);
    return fail(std::errc::operation_would_block, "another flightd{} uses {}; stop it, or choose another {}",
                pid_in(file), folder.path, option);
  }
  // The pid is for the message above alone, so a full disk is no reason not to start.
  const UniqueFd text(::openat(folder.fd.get(), kLockName, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (text) static_cast<void>(write_all(text.get(), fmt::format("{}\n", ::getpid())));
  return file;
}

Result<void> give(const Folder& folder, mode_t mode, const Identity& identity) {
  const int fd = folder.fd.get();
  if (::geteuid() == 0 && ::fchown(fd, identity.uid, identity.gid) != 0)
    return sys_error(errno, "give folder {} to {}", folder.path, identity.user);
  const bool own = ::geteuid() == 0 || folder.info.st_uid == ::geteuid();
  if (own && ::fchmod(fd, mode) != 0)  // mkdir(2) heeds the umask
    return sys_error(errno, "set the mode of folder {}", folder.path);
  return {};
}

}  // namespace

Result<FolderLocks> take_folders(const std::string& state_dir, const std::string& runtime_dir,
                                 const Identity& identity) {
  auto state = open_folder(AT_FDCWD, state_dir, state_dir, kFolderMode);
  if (!state) return pass(state.error());
  if (auto ours = check_ours(*state, identity); !ours) return pass(ours.error());
  auto runtime = open_folder(AT_FDCWD, runtime_dir, runtime_dir, kFolderMode);
  if (!runtime) return pass(runtime.error());
  if (auto ours = check_ours(*runtime, identity); !ours) return pass(ours.error());

  FolderLocks out;
  auto runtime_lock = lock(*runtime, "--runtime-dir");
  if (!runtime_lock) return pass(runtime_lock.error());
  out.runtime = std::move(*runtime_lock);
  auto state_lock = lock(*state, "--state-dir");
  if (!state_lock) return pass(state_lock.error());
  out.state = std::move(*state_lock);

  auto snapshots = open_folder(state->fd.get(), "snapshots", state_dir + "/snapshots", kSnapshotsMode);
  if (!snapshots) return pass(snapshots.error());
  if (auto given = give(*state, kFolderMode, identity); !given) return pass(given.error());
  if (auto given = give(*snapshots, kSnapshotsMode, identity); !given) return pass(given.error());
  if (auto given = give(*runtime, kFolderMode, identity); !given) return pass(given.error());
  return out;
}

}  // namespace flight
