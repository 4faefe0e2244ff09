// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/directory.hpp"

#include <dirent.h>
#include <fcntl.h>

#include <cerrno>

#include "libcore/base/spare_descriptors.hpp"

namespace flight {

void Directory::Close::operator()(void* stream) const { ::closedir(static_cast<DIR*>(stream)); }

int Directory::fd() const { return ::dirfd(static_cast<DIR*>(stream_.get())); }

Result<Directory> Directory::open(const std::string& path) {
  return of(with_spare([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC); }), path);
}

Result<Directory> Directory::open_at(int folder, const char* name, const std::string& path) {
  return of(with_spare([&] { return ::openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }), path);
}

Result<Directory> Directory::of(UniqueFd fd, const std::string& path) {
  if (!fd) return sys_error(errno, "open the directory {}", path);
  DIR* stream = ::fdopendir(fd.get());
  if (stream == nullptr) return sys_error(errno, "open the directory {}", path);
  static_cast<void>(fd.release());  // the stream owns it now
  return Directory(stream, path);
}

Result<void> Directory::each(const std::function<bool(const Entry&)>& visit) {
  DIR* stream = static_cast<DIR*>(stream_.get());
  ::rewinddir(stream);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr && errno != 0) return sys_error(errno, "read the directory {}", path_);
    if (entry == nullptr) return {};
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name == "." || name == "..") continue;
    if (!visit({.name = name, .type = entry->d_type, .inode = entry->d_ino})) return {};
  }
}

}  // namespace flight
