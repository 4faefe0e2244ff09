// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/kallsyms_upkeep.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>
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

void name_symbols(Inventory& inventory, Catalogue& catalogue) {
  const auto rows = catalogue.list();
  if (!rows) return;
  std::unordered_map<std::string_view, std::string_view> symbols_of;  // by the name of the data file
  for (const CatalogueRow& row : *rows) {
    if (row.boot_id.empty()) return;
    const std::string_view path = row.path;
    symbols_of.emplace(path.substr(path.rfind('/') + 1), row.kallsyms);
  }
  std::vector<std::size_t> needed;  // for each snapshot; symbols.size(): none
  for (const SnapshotName& name : inventory.names) {
    const auto named = symbols_of.find(name.data_file());
    if (named == symbols_of.end()) return;  // it was removed since, or cannot be read
    const auto file = std::find(inventory.symbols.begin(), inventory.symbols.end(), named->second);
    needed.push_back(static_cast<std::size_t>(file - inventory.symbols.begin()));
  }
  for (std::size_t i = 0; i < inventory.symbols.size(); ++i)
    if (std::find(needed.begin(), needed.end(), i) == needed.end()) inventory.symbols_bytes[i] = 0;
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i] < inventory.symbols.size()) inventory.snapshots[i].symbols = needed[i];
}

}  // namespace flight::daemon
