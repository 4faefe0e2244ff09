// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/held_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "libcore/store/catalogue.hpp"

namespace flight::daemon {

bool leads_to(const std::string& path, const UniqueFd& file) {
  struct stat named {
  }, opened{};
  return file && ::stat(path.c_str(), &named) == 0 && ::fstat(file.get(), &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

void HeldStore::hold(const std::string& folder) {
  folder_ = UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

bool HeldStore::is_another(const std::string& folder) const {
  struct stat named {};
  return folder_ && ::stat(folder.c_str(), &named) == 0 && S_ISDIR(named.st_mode) && !leads_to(folder, folder_);
}

Result<std::uint64_t> HeldStore::last_seq() const {
  return Catalogue(fmt::format("/proc/self/fd/{}", folder_.get())).last_seq();
}

}  // namespace flight::daemon
