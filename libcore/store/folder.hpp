// SPDX-License-Identifier: Apache-2.0
// System calls on the directory of the snapshots: only regular files and data directories, by name relative to the open
// directory, so that neither a symbolic link nor a path in a name leads out of it. A data directory
// (libcore/base/data_folder.hpp) is the data of a snapshot in several files, and takes the place of the one file.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/directory.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

// A change took effect, but its directory could not be synced: why a power failure now may undo it. nullopt: it is
// durable.
using Unsynced = std::optional<Error>;

class Folder {
 public:
  [[nodiscard]] static Result<Folder> open(const std::string& path);

  // Calls `visit` with the name and inode of each regular file, and of each directory that is the data of a snapshot
  // (*.perf.data with a file `data`) or unfinished (.flight*.partial), in no order.
  [[nodiscard]] Result<void> each(const std::function<void(std::string_view name, std::uint64_t inode)>& visit);
  // Opens for reading. ENOENT: there is no such file. ELOOP, EINVAL: it is not a regular file.
  [[nodiscard]] Result<UniqueFd> open_file(const std::string& name) const;
  // Errors as open_file's; EFBIG: it is larger than `max_bytes`.
  [[nodiscard]] Result<std::string> read(const std::string& name, std::size_t max_bytes) const;
  // The same, but stops at the end of the first part that contains `enough`.
  [[nodiscard]] Result<std::string> read_until(const std::string& name, std::string_view enough,
                                               std::size_t max_bytes) const;
  // A file's size and its disk usage, or those of all files of a data directory; nullopt: it does not exist.
  struct Size {
    std::uint64_t bytes = 0, disk_bytes = 0;
    bool ours = false;        // a regular file or a data directory
    std::uint64_t links = 1;  // of a directory: the most of its files
    std::uint64_t inodes = 1;
  };
  [[nodiscard]] std::optional<Size> size_of(const std::string& name) const;
  // Opens a data directory. Errors as DataFolder::open_at's.
  [[nodiscard]] Result<DataFolder> open_folder(const std::string& name) const;
  // True: it existed. A missing file is no error. A data directory first gets a name that remove_partials() knows, so
  // that no half of it is left under the old one. ENOTEMPTY: something else is in it, and it stays; so it does if its
  // first file cannot be removed.
  [[nodiscard]] Result<bool> unlink(const std::string& name) const;
  // Writes a file's text in place, for where replace() finds no space or no inode: a longer text than the old one,
  // which shares its first block, so that no reader sees half of it. EMLINK: it is no regular file with one name.
  [[nodiscard]] Result<Unsynced> overwrite(const std::string& name, std::string_view text) const;
  // Replaces a file's text durably: writes `temporary`, syncs and renames it, then syncs the directory. An error: the
  // old text is still there.
  [[nodiscard]] Result<Unsynced> replace(const std::string& name, const std::string& temporary,
                                         std::string_view text) const;
  // fsync(2) of the directory, so that unlinked files stay unlinked.
  [[nodiscard]] Unsynced sync() const;

 private:
  Folder(std::string path, Directory directory) : path_(std::move(path)), directory_(std::move(directory)) {}
  [[nodiscard]] int fd() const { return directory_.fd(); }
  [[nodiscard]] bool is_visited(const Directory::Entry& entry) const;
  [[nodiscard]] Result<bool> remove_folder(const std::string& name) const;
  std::string path_;
  Directory directory_;
};

// The whole path of a directory, with '/' at its end, for messages and replies; it need not exist.
[[nodiscard]] std::string absolute_folder(const std::string& folder);

}  // namespace flight
