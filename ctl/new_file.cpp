// SPDX-License-Identifier: Apache-2.0
#include "ctl/new_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"

namespace flight::ctl {
namespace {

constexpr mode_t kMode = 0640;
constexpr int kNameTries = 8;  // other flightctls may replace the file at the same time
constexpr std::array<int, 3> kEnds{SIGINT, SIGTERM, SIGHUP};

// The file that a signal handler removes: it may read this and call unlink(2), see signal-safety(7).
std::array<char, PATH_MAX> unfinished_path{};

extern "C" void remove_and_end(int number) {
  ::unlink(unfinished_path.data());
  static_cast<void>(std::signal(number, SIG_DFL));
  static_cast<void>(std::raise(number));
}

void remove_on_signal(const std::string& path) {
  std::strncpy(unfinished_path.data(), path.c_str(), unfinished_path.size() - 1);
  for (const int number : kEnds) {
    // nohup(1) and background shells ignore the signal: keep it ignored.
    if (std::signal(number, SIG_IGN) != SIG_IGN) static_cast<void>(std::signal(number, &remove_and_end));
  }
}

void end_at_once_again() {
  for (const int number : kEnds)
    if (std::signal(number, SIG_IGN) != SIG_IGN) static_cast<void>(std::signal(number, SIG_DFL));
}

// rename(2) would replace a symbolic link, not its target.
std::string resolved(const std::string& target) {
  std::array<char, PATH_MAX> path{};
  return ::realpath(target.c_str(), path.data()) == nullptr ? target : std::string(path.data());
}

// NFS and CIFS lock only writable descriptors. On a file system without locks, another writer cannot be detected.
Result<void> lock_of(const UniqueFd& old, const std::string& partial) {
  auto locked = lock_now(old.get());
  if (!locked && locked.error().errno_value() == EBADF) {
    const UniqueFd writable(::open(partial.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!writable) return sys_error(errno, "{} is in the way; remove it", partial);
    locked = lock_now(writable.get());
  }
  if (locked) return {};
  if (locked.error().errno_value() == EWOULDBLOCK)
    return fail(std::errc::device_or_resource_busy, "another flightctl is writing {}", partial);
  return wrap(locked.error(), "{}", partial);
}

// Removes the partial file of a flightctl that was killed, but not one that is being written.
Result<void> clear_the_way(const std::string& partial) {
  const UniqueFd old(::open(partial.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!old && errno == ENOENT) return {};
  if (!old) return sys_error(errno, "{} is in the way; remove it", partial);
  struct stat found {};
  if (::fstat(old.get(), &found) != 0 || !S_ISREG(found.st_mode) || found.st_uid != ::geteuid())
    return fail(std::errc::file_exists, "{} is in the way and belongs to another user; remove it", partial);
  if (auto locked = lock_of(old, partial); !locked) return propagate(locked.error());
  if (::unlink(partial.c_str()) != 0 && errno != ENOENT) return sys_error(errno, "removing the old {}", partial);
  return {};
}

// Whether this file still has the name. Between its creation and its lock, another flightctl may have taken it for the
// file of a dead one and removed it. The number of links does not show that everywhere: some file systems on FUSE
// report 0 for every file, and on FUSE and NFS an open file that was removed keeps a link, with a name of the file
// system's own.
bool is_named(const UniqueFd& file, const std::string& name) {
  struct stat own {};
  struct stat named {};
  return ::fstat(file.get(), &own) == 0 && ::lstat(name.c_str(), &named) == 0 && own.st_dev == named.st_dev &&
         own.st_ino == named.st_ino;
}

}  // namespace

NewFile::NewFile(std::string path, std::string partial, UniqueFd fd)
    : path_(std::move(path)), partial_(std::move(partial)), fd_(std::move(fd)) {}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)), partial_(std::exchange(other.partial_, {})), fd_(std::move(other.fd_)) {}

NewFile::~NewFile() {
  if (partial_.empty()) return;
  ::unlink(partial_.c_str());
  end_at_once_again();
}

Result<NewFile> NewFile::create(const std::string& target) {
  const std::string path = resolved(target);
  const std::string partial = path + ".partial";
  for (int attempt = 0; attempt < kNameTries; ++attempt) {
    UniqueFd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kMode));
    if (!fd && errno != EEXIST) return sys_error(errno, "making {}", partial);
    const auto locked = fd ? lock_now(fd.get()) : Result<bool>(false);
    if (fd && locked && is_named(fd, partial)) {
      remove_on_signal(partial);
      return NewFile(path, partial, std::move(fd));
    }
    if (fd && !locked && locked.error().errno_value() != EWOULDBLOCK) {
      ::unlink(partial.c_str());
      return wrap(locked.error(), "{}", partial);
    }
    if (fd) continue;
    if (auto cleared = clear_the_way(partial); !cleared) return propagate(cleared.error());
  }
  return fail(std::errc::device_or_resource_busy, "other processes are writing {}", partial);
}

Result<void> NewFile::keep() {
  if (auto synced = sync_now(fd_.get()); !synced) return wrap(synced.error(), "{}", partial_);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) return sys_error(errno, "rename {} to {}", partial_, path_);
  partial_.clear();
  end_at_once_again();
  return {};
}

}  // namespace flight::ctl
