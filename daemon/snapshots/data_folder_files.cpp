// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/data_folder_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/store/leftovers.hpp"

namespace flight::daemon {
namespace {

constexpr mode_t kDataFolderMode = 0750;

Result<UniqueFd> move_into(const std::string& folder, const std::string& name, Result<PartialFile> file) {
  if (!file) return wrap(file.error(), "create a file in {}", folder);
  const std::string made = folder + "/" + file->name;
  if (::rename(made.c_str(), (folder + "/" + name).c_str()) == 0) return std::move(file->fd);
  const int error_number = errno;
  remove_unfinished(folder, file->name);
  return sys_error(error_number, "rename {} to {}", made, name);
}

// mkdir(2) applies the umask; the group of the store reads the directory, as it reads the broker's files.
Result<void> let_group_read(const std::string& path) {
  const auto folder = open_file(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (!folder) return propagate(folder.error());
  if (const auto set = mode_now(folder->get(), kDataFolderMode); !set) return wrap(set.error(), "directory {}", path);
  return {};
}

}  // namespace

Result<DataFolderFiles> make_data_folder(const std::string& folder, const std::string& name, std::size_t more,
                                         const std::function<Result<PartialFile>()>& ask) {
  const auto store = Folder::open(folder);
  if (!store) return propagate(store.error());
  // An earlier attempt may have left it.
  if (auto removed = store->unlink(name); !removed) return propagate(removed.error());
  const std::string path = folder + "/" + name;
  if (::mkdir(path.c_str(), kDataFolderMode) != 0) return sys_error(errno, "create the directory {}", path);
  PartialFiles made(folder, {name});
  if (auto readable = let_group_read(path); !readable) return propagate(readable.error());
  DataFolderFiles out;
  auto data = move_into(folder, fmt::format("{}/{}", name, kMainDataFile), ask());
  if (!data) return propagate(data.error());
  out.data = std::move(*data);
  for (std::size_t i = 0; i < more; ++i) {
    auto file = move_into(folder, fmt::format("{}/{}", name, bare_data_file(i)), ask());
    if (!file) return propagate(file.error());
    out.more.push_back(std::move(*file));
  }
  // Its files must have their names before it gets its own. What cannot be synced can still be recorded.
  if (const auto inside = Folder::open(path)) static_cast<void>(inside->sync());
  made.keep();
  return out;
}

}  // namespace flight::daemon
