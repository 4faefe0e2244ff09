// SPDX-License-Identifier: Apache-2.0
// Unwind tables on disk, one file for each, so that a table is built once and not after each start: libLLVM's takes
// seconds.
//
//   FOLDER/DEVICE-INODE-GENERATION.table     │ TableFileHeader, 64 bytes │ the table (unwind_table.hpp) │
//
// The key is what fstat(2) says of the *opened* file: the numbers in /proc/PID/maps are not unique on every file
// system. Size and times only decide whether it has to be read again; unlink(2) and rename(2) change ctime. The folder
// has at most so many bytes and files; those that were used longest ago go first. A file is whole or not there: it is
// synced before it gets its name. One process uses a folder for writing, one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "libcore/base/directory.hpp"
#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/unwind/unwind_table.hpp"

namespace flight {

// The file that a table is made of.
struct TableSource {
  std::uint64_t device = 0, inode = 0;
  std::uint64_t generation = 0;  // FS_IOC_GETVERSION; 0: the file system does not report it
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;

  // EINVAL: not a regular file.
  [[nodiscard]] static Result<TableSource> of(int fd);
  friend bool operator==(const TableSource&, const TableSource&) = default;
};

struct TableFileHeader {
  std::array<char, 8> magic = {'F', 'L', 'T', 'A', 'B', 'L', 'E', '1'};
  TableSource source;
  std::uint64_t table_bytes = 0;
};
static_assert(sizeof(TableFileHeader) == 64);

class TableCache {
 public:
  static constexpr std::uint64_t kMostBytes = 256U << 20U;
  static constexpr std::size_t kMostFiles = 16384;  // most programs have small tables

  // Of a directory that belongs to the cache. What an earlier process left unfinished is removed.
  [[nodiscard]] static Result<TableCache> open(const std::string& folder, std::uint64_t most_bytes = kMostBytes);

  // The file with the table, for CachedTable; empty: there is none, or the source has changed since.
  [[nodiscard]] UniqueFd find(const TableSource& source);
  // Replaces an older one. EFBIG: the table alone exceeds a limit.
  [[nodiscard]] Result<void> put(const TableSource& source, std::span<const std::byte> table);
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t files() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::int64_t used_ns = 0;
  };
  TableCache(std::string path, Directory folder, std::uint64_t most_bytes)
      : path_(std::move(path)), folder_(std::move(folder)), most_bytes_(most_bytes) {}
  [[nodiscard]] Result<void> load();
  [[nodiscard]] Result<void> write(const std::string& name, const TableFileHeader& header,
                                   std::span<const std::byte> table, std::int64_t used_ns) const;
  void add(const std::string& name, Entry entry);
  void remove(const std::string& name);
  void make_space(std::uint64_t bytes);
  [[nodiscard]] std::int64_t next_use();

  std::string path_;
  Directory folder_;
  std::uint64_t most_bytes_;
  std::map<std::string, Entry> entries_;  // by the file's name
  std::uint64_t bytes_ = 0;
  std::int64_t last_use_ns_ = 0;
};

// A table of the cache, mapped. Its bytes are not trusted (unwind_table.hpp); only if the cache's process cuts the file
// meanwhile, reading it ends the reader (SIGBUS).
class CachedTable {
 public:
  // EBADMSG: not such a file.
  [[nodiscard]] static Result<CachedTable> open(int fd);
  [[nodiscard]] const UnwindTable& table() const { return table_; }

 private:
  CachedTable(Mapping memory, const UnwindTable& table) : memory_(std::move(memory)), table_(table) {}
  Mapping memory_;
  UnwindTable table_;
};

}  // namespace flight
