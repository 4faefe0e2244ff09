// SPDX-License-Identifier: Apache-2.0
#include "daemon/folders.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "libcore/base/directory.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/text.hpp"
#include "libcore/sysinfo/lock_holder.hpp"

namespace flight::daemon {
namespace {

constexpr mode_t kSnapshotsMode = 0770;
constexpr mode_t kFolderMode = 0755;  // STATE and RUNTIME
constexpr mode_t kLockMode = 0600;

struct OpenFolder {
  UniqueFd fd;
  std::string path;
  struct stat info {};
};

// The file system is read-only, or the file cannot be changed (chattr +i), also not by root. What is there is used.
bool is_fixed(int error_number) {
  return error_number == EROFS || (error_number == EPERM && ::geteuid() == 0) || error_number == EOPNOTSUPP;
}

// Makes the directory itself, never its parents: a mistyped path is an error, not a new tree.
Result<OpenFolder> open_folder(int parent, const std::string& name, const std::string& path, mode_t mode) {
  if (::mkdirat(parent, name.c_str(), mode) != 0 && errno != EEXIST) {
    const int why = errno;
    if (why == ENOENT)
      return sys_error(why, "create directory {}: its parent directory is missing; create it, or select another", path);
    return sys_error(why, "create directory {}", path);
  }
  OpenFolder out{.fd = UniqueFd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)),
                 .path = path};
  if (!out.fd && (errno == ENOTDIR || errno == ELOOP)) {
    // Only root's own link may be a mistake. Another one may be a trap.
    struct stat info {};
    const bool link = ::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
    const bool trap = link && (parent != AT_FDCWD || (info.st_uid != 0 && info.st_uid != ::geteuid()));
    return fail(trap ? std::errc::file_exists : std::errc::not_a_directory,
                "{} is not a directory (links are not followed)", path);
  }
  if (!out.fd) return sys_error(errno, "open directory {}", path);
  if (::fstat(out.fd.get(), &out.info) != 0) return sys_error(errno, "stat directory {}", path);
  return out;
}

Result<bool> is_empty(const OpenFolder& folder) {
  auto entries = Directory::open_at(folder.fd.get(), ".", folder.path);
  if (!entries) return propagate(entries.error());
  bool empty = true;
  auto read = entries->each([&](const Directory::Entry& entry) {
    empty = entry.name == "lost+found";  // a file system of its own
    return empty;
  });
  if (!read) return propagate(read.error());
  return empty;
}

// Root changes the owner only of a directory that belongs to flightd: /run or /tmp, given by mistake, would become
// inaccessible to all other programs.
Result<void> check_ours(const OpenFolder& folder, const Identity& identity) {
  if (::geteuid() != 0) {
    if (::faccessat(folder.fd.get(), ".", W_OK | X_OK, AT_EACCESS) == 0 || errno == EROFS) return {};
    return sys_error(errno, "directory {} is not writable for {}", folder.path, identity.user);
  }
  const bool shared = (folder.info.st_mode & S_IWOTH) != 0;
  if (!shared && folder.info.st_uid == identity.uid) return {};
  if (!shared && ::faccessat(folder.fd.get(), kLockName, F_OK, AT_SYMLINK_NOFOLLOW) == 0) return {};  // not root
  auto empty = is_empty(folder);
  if (!empty) return propagate(empty.error());
  if (!shared && *empty) return {};
  return fail(
      std::errc::file_exists,
      "directory {} is not a directory of flightd ({}): flightd would change its owner; select an empty directory, or "
      "one that does not exist yet",
      folder.path, shared ? "all users may write to it" : "it contains other files");
}

std::string locked_by_another(int lock, const OpenFolder& folder, std::string_view option) {
  const auto holder = lock_holder(lock);
  if (!holder)
    return fmt::format(
        "another process holds the lock of {0}/{1}; this process cannot find out which one (as root, try `fuser "
        "{0}/{1}`): if it is another flightd, stop it, or choose another {2}",
        folder.path, kLockName, option);
  if (holder->comm == "flightd")
    return fmt::format("another flightd (pid {}) uses {}; stop it, or choose another {}", holder->pid, folder.path,
                       option);
  return fmt::format("process {} ({}) holds the lock of {}/{}; stop it, or choose another {}", holder->pid,
                     own_name(printable(holder->comm)), folder.path, kLockName, option);
}

// The owner of the lock. If flightd runs as `nobody`, the lock stays root's: other services run as nobody, too.
struct Owner {
  uid_t uid = 0;
  gid_t gid = 0;
};
Owner lock_owner(const Identity& identity) {
  return identity.trusted_uid ? Owner{*identity.trusted_uid, identity.gid} : Owner{};
}
bool is_owner(const struct stat& info, const Owner& owner) {
  return info.st_uid == owner.uid && info.st_gid == owner.gid;
}

// Only flightd's user may open the lock: any process that can open it could hold flock(2) and keep every later flightd
// from starting. The mode is also corrected on a lock of an older flightd. The directory belongs to that user, who may
// have linked another file there: a file with other hard links is not changed, and root changes none of another owner.
// A lock that needs no change may have other links: `cp -al` makes a backup of hard links.
Result<void> make_private(int file, const OpenFolder& folder, const Identity& identity) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return sys_error(errno, "stat {}/{}", folder.path, kLockName);
  if (!S_ISREG(info.st_mode))
    return fail(std::errc::file_exists, "{}/{} is not a regular file; remove it", folder.path, kLockName);
  const bool root = ::geteuid() == 0;
  const bool is_right = (info.st_mode & 07777U) == kLockMode && (!root || is_owner(info, lock_owner(identity)));
  if (info.st_nlink > 1 && !is_right)
    return fail(std::errc::too_many_links, "{}/{} has {} names (hard links), so it may be another program's; remove it",
                folder.path, kLockName, info.st_nlink);
  // Not root: the owner is the directory's, which can change with the configuration.
  if (root && info.st_uid != 0 && info.st_uid != identity.uid && info.st_uid != folder.info.st_uid)
    return fail(std::errc::file_exists, "{}/{} belongs to user {}, not to {}; remove it", folder.path, kLockName,
                info.st_uid, identity.user);
  if (!root && info.st_uid != ::geteuid())
    return fail(std::errc::file_exists, "{}/{} belongs to user {}, so flightd cannot restrict it to user {}; remove it",
                folder.path, kLockName, info.st_uid, identity.user);
  if ((info.st_mode & 07777U) == kLockMode) return {};
  const auto set = mode_now(file, kLockMode);
  if (set || is_fixed(set.error().errno_value())) return {};
  return wrap(set.error(), "{}/{}", folder.path, kLockName);
}

// Only after locking: the lock of a running flightd stays unchanged.
Result<void> give_lock(int file, const OpenFolder& folder, const Identity& identity) {
  struct stat info {};
  const Owner owner = lock_owner(identity);
  if (::geteuid() != 0 || (::fstat(file, &info) == 0 && is_owner(info, owner))) return {};
  const auto given = own_now(file, owner.uid, owner.gid);
  if (given || is_fixed(given.error().errno_value())) return {};
  return wrap(given.error(), "{}/{} to {}", folder.path, kLockName, identity.user);
}

// O_RDONLY for STATE: a file that is open for writing would prevent a read-only remount. RUNTIME's has the pid, and is
// in memory. O_NONBLOCK: a FIFO must not block root's start.
Result<UniqueFd> open_lock(const OpenFolder& folder, int access) {
  const int flags = access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd file(::openat(folder.fd.get(), kLockName, flags | O_CREAT, kLockMode));
  if (!file && is_fixed(errno)) file = UniqueFd(::openat(folder.fd.get(), kLockName, (flags & ~O_ACCMODE) | O_RDONLY));
  if (file || errno == ENOENT) return file;
  return sys_error(errno, "open {}/{}", folder.path, kLockName);
}

// open_lock() got no writable one.
bool is_read_only(int file) { return (::fcntl(file, F_GETFL) & O_ACCMODE) == O_RDONLY; }

struct LockKind {
  int access = O_RDONLY;
  std::string_view option;  // that selects another folder
  // A full file system is a warning. STATE's is not taken then, and tried again later.
  bool may_be_full = false;
};
constexpr LockKind kStateLock{.access = O_RDONLY, .option = "--state-dir", .may_be_full = false};
constexpr LockKind kRuntimeLock{.access = O_RDWR, .option = "--runtime-dir", .may_be_full = true};

Result<UniqueFd> take_lock(const OpenFolder& folder, const LockKind& kind, const Identity& identity,
                           std::vector<std::string>& warnings) {
  auto file = open_lock(folder, kind.access);
  const auto unlocked = [&](std::string_view why) {
    warnings.push_back(fmt::format("{}/{} cannot be locked ({}): a second flightd there would not be noticed",
                                   folder.path, kLockName, why));
  };
  if (!file && kind.may_be_full && is_full(file.error().errno_value())) {
    unlocked("it does not exist, and the file system is full");
    return UniqueFd();
  }
  if (!file) return file;
  if (!*file) {
    unlocked("it does not exist, and the file system is read-only");
    return file;
  }
  if (auto ours = make_private(file->get(), folder, identity); !ours) return propagate(ours.error());
  auto locked = lock_now(file->get());
  std::string_view why_not = "its file system has no locks";
  if (!locked && locked.error().errno_value() == EBADF) {  // NFS, CIFS
    file = open_lock(folder, O_RDWR);
    if (!file) return file;
    locked = *file ? lock_now(file->get()) : Result<bool>(false);
    // The folders that exist are used, as on any other read-only file system.
    if (!locked && locked.error().errno_value() == EBADF && is_read_only(file->get())) {
      locked = Result<bool>(false);
      why_not = "its file system locks only writable files, and this one cannot be opened for writing";
    }
  }
  if (!locked && locked.error().errno_value() == EWOULDBLOCK)
    return fail(std::errc::operation_would_block, "{}", locked_by_another(file->get(), folder, kind.option));
  if (!locked) return wrap(locked.error(), "{}/{}", folder.path, kLockName);
  if (!*locked) unlocked(why_not);
  if (auto given = give_lock(file->get(), folder, identity); !given) return propagate(given.error());
  return file;
}

// `not_given`: set if the owner could not be changed; null: nobody asks.
Result<void> give(const OpenFolder& folder, mode_t mode, const Identity& identity, std::vector<std::string>& warnings,
                  std::string* not_given = nullptr) {
  const int fd = folder.fd.get();
  const bool root = ::geteuid() == 0;
  if (root && (folder.info.st_uid != identity.uid || folder.info.st_gid != identity.gid)) {
    const auto given = own_now(fd, identity.uid, identity.gid);
    if (!given && !is_fixed(given.error().errno_value()))
      return wrap(given.error(), "directory {} to {}", folder.path, identity.user);
    if (!given || !*given) {
      warnings.push_back(fmt::format("directory {} could not be given to {}: its file system refused chown",
                                     folder.path, identity.user));
      if (not_given != nullptr) *not_given = warnings.back();
    }
  }
  const bool own = root || folder.info.st_uid == ::geteuid();
  if (!own || (folder.info.st_mode & 07777U) == mode) return {};
  // mkdir(2) applies the umask; the broker needs g+w.
  const auto set = mode_now(fd, mode);
  if (!set && !is_fixed(set.error().errno_value())) return wrap(set.error(), "directory {}", folder.path);
  if (set && !*set)
    warnings.push_back(fmt::format("directory {} keeps mode {:04o}: its file system refused chmod {:04o}", folder.path,
                                   folder.info.st_mode & 07777U, mode));
  return {};
}

}  // namespace

RuntimeFolder::~RuntimeFolder() {
  if (lock) static_cast<void>(!::ftruncate(lock.get(), 0));
}

// The directories are opened once and locked. Only then they are given to flightd's user, by descriptor. They belong to
// that user, so root cannot trust names in them at the next start.
Result<RuntimeFolder> take_runtime_folder(const std::string& path, const Identity& identity) {
  auto folder = open_folder(AT_FDCWD, path, path, kFolderMode);
  if (!folder) return propagate(folder.error());
  if (auto ours = check_ours(*folder, identity); !ours) return propagate(ours.error());
  RuntimeFolder out;
  auto locked = take_lock(*folder, kRuntimeLock, identity, out.warnings);
  if (!locked) return propagate(locked.error());
  out.lock = std::move(*locked);
  if (auto given = give(*folder, kFolderMode, identity, out.warnings, &out.not_given); !given)
    return propagate(given.error());
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (out.lock && ::ftruncate(out.lock.get(), 0) == 0)
    static_cast<void>(!::pwrite(out.lock.get(), pid.data(), pid.size(), 0));
  return out;
}

Result<StateFolder> take_state_folder(const std::string& path, const Identity& identity) {
  auto folder = open_folder(AT_FDCWD, path, path, kFolderMode);
  if (!folder) return propagate(folder.error());
  if (auto ours = check_ours(*folder, identity); !ours) return propagate(ours.error());
  StateFolder out;
  auto locked = take_lock(*folder, kStateLock, identity, out.warnings);
  if (!locked) return propagate(locked.error());
  out.lock = std::move(*locked);
  auto snapshots = open_folder(folder->fd.get(), "snapshots", path + "/snapshots", kSnapshotsMode);
  if (!snapshots) return propagate(snapshots.error());
  if (auto given = give(*folder, kFolderMode, identity, out.warnings); !given) return propagate(given.error());
  if (auto given = give(*snapshots, kSnapshotsMode, identity, out.warnings); !given) return propagate(given.error());
  if (struct statvfs disk{}; ::fstatvfs(folder->fd.get(), &disk) == 0 && (disk.f_flag & ST_RDONLY) != 0)
    out.warnings.push_back(
        fmt::format("{} is on a read-only file system: no snapshot can be written until it is "
                    "writable; recording continues",
                    path));
  return out;
}

Error with_refused_chown(Error error, const RuntimeFolder& runtime) {
  const int number = error.errno_value();
  if (runtime.not_given.empty() || (number != EACCES && number != EPERM)) return error;
  error.what += fmt::format("; {}: make it writable for that user, or use a --runtime-dir on another file system",
                            runtime.not_given);
  return error;
}

bool forbids_start(const Error& error) {
  const int number = error.errno_value();
  return number == EEXIST || number == EWOULDBLOCK || number == ELOOP;
}

}  // namespace flight::daemon
