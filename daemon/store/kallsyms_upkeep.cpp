// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/kallsyms_upkeep.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libcore/base/directory.hpp"
#include "libcore/base/file_calls.hpp"

namespace flight::daemon {

std::uint64_t drop_unneeded_kallsyms(Catalogue& catalogue) {
  auto folder = Directory::open(catalogue.folder());
  const auto rows = catalogue.list();
  if (!folder || !rows) return 0;
  std::vector<std::string> unneeded;
  auto read = folder->each([&](const Directory::Entry& entry) {
    const bool needed = std::any_of(rows->begin(), rows->end(), [&](const CatalogueRow& row) {
      return row.boot_id.empty() || row.kallsyms == entry.name;  // an orphan's boot is unknown: keep
    });
    if (is_kallsyms_file(entry.name) && !needed) unneeded.emplace_back(entry.name);
    return true;
  });
  if (!read) return 0;
  std::uint64_t bytes = 0;
  for (const std::string& file : unneeded) {
    struct stat info {};
    const bool regular =
        ::fstatat(folder->fd(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
    if (regular && ::unlinkat(folder->fd(), file.c_str(), 0) == 0) bytes += disk_bytes_of(info);
  }
  return bytes;
}

}  // namespace flight::daemon
