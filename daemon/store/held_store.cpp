// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/held_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "libcore/store/catalogue.hpp"

namespace flight::daemon {

bool leads_to(const std::string& path, const UniqueFd& file) {
  struct stat named {
  }, opened{};
  return file && ::stat(path.c_str(), &named) == 0 && ::fstat(file.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

std::string sticky_trouble(const struct stat& folder, uid_t self) {
  if ((folder.st_mode & S_ISVTX) == 0 || self == 0 || self == folder.st_uid) return "";
  return fmt::format("it is sticky (mode {:04o}) and belongs to user {}, so flightd may not rename files in it",
                     folder.st_mode & 07777U, folder.st_uid);
}

void HeldStore::hold(const std::string& folder) {
  folder_ = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat opened {};
  if (first_inode_ != 0 || !folder_ || ::fstat(folder_.get(), &opened) != 0) return;
  first_device_ = opened.st_dev;
  first_inode_ = opened.st_ino;
}

HeldStore::Name HeldStore::look(const std::string& folder) const {
  struct stat named {};
  if (!folder_) return Name::same;
  if (::stat(folder.c_str(), &named) != 0) return errno == ENOENT ? Name::gone : Name::same;
  return S_ISDIR(named.st_mode) && !leads_to(folder, folder_) ? Name::another : Name::same;
}

bool HeldStore::is_first() const {
  struct stat opened {};
  return folder_ && ::fstat(folder_.get(), &opened) == 0 && opened.st_dev == first_device_ &&
         opened.st_ino == first_inode_;
}

Result<std::uint64_t> HeldStore::last_seq() const {
  return Catalogue(fmt::format("/proc/self/fd/{}", folder_.get())).last_seq();
}

}  // namespace flight::daemon
