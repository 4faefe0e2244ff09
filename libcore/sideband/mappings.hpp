// SPDX-License-Identifier: Apache-2.0
// The executable mappings of a process, as kept by the process tracker. Private to sideband.
//
// Two measures keep thousands of processes small: file data (path, build-id) is interned in a pool, and a fork shares
// its parent's list until one of the two maps something (copy on write). Lists add their bytes to a meter, which must
// outlive them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

// Unmapping is not recorded, so a JIT's list would grow without limit: beyond this, trim() removes some.
inline constexpr std::size_t kMaxMapsPerProcess = 4096;

inline constexpr std::size_t kHashNodeBytes = 64;  // approximate overhead of an entry in a hash table

struct Meter {
  std::size_t bytes = 0;
};

struct MappedFile : std::enable_shared_from_this<MappedFile> {
  explicit MappedFile(const Mmap2Record& record);

  std::string name;
  BuildId build_id;
  std::uint32_t major = 0, minor = 0;
  std::uint64_t inode = 0, inode_generation = 0;
};

// Must outlive its files: each leaves the pool with its last user.
class FilePool {
 public:
  FilePool() = default;
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;

  // The shared object for the file that `record` maps.
  [[nodiscard]] std::shared_ptr<const MappedFile> intern(const Mmap2Record& record);
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return files_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const MappedFile* file) const { return std::hash<std::string_view>{}(file->name); }
    std::size_t operator()(const Mmap2Record& record) const { return std::hash<std::string_view>{}(record.name); }
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const MappedFile* a, const MappedFile* b) const { return a == b; }
    bool operator()(const Mmap2Record& record, const MappedFile* file) const;
    bool operator()(const MappedFile* file, const Mmap2Record& record) const { return (*this)(record, file); }
  };
  void remove(MappedFile* file);

  std::unordered_set<MappedFile*, Hash, Equal> files_;
  std::size_t bytes_ = 0;
};

struct ProcessMap {
  std::uint64_t address = 0, bytes = 0, page_offset = 0;
  EventTime since_ns = 0;
  std::uint32_t protection = 0, flags = 0;
  std::shared_ptr<const MappedFile> file;

  [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  // Whether, as far as they overlap, /proc still shows this mapping: the same place in the same file. Names do not
  // count: /proc shows the reader's view of a path, also of a file that was renamed or removed. What the kernel
  // recorded stays its name. Memory without a file has only a name.
  [[nodiscard]] bool is_part_of(const Mmap2Record& scanned) const;
};

// Whether a file is mapped, and not anonymous memory.
[[nodiscard]] bool is_file(const ProcessMap& map);

class MapList {
 public:
  explicit MapList(Meter& meter) : meter_(&meter) { recharge(); }
  MapList(const MapList& other, Meter& meter) : meter_(&meter), maps_(other.maps_), forgotten_(other.forgotten_) {
    recharge();
  }
  MapList(const MapList&) = delete;
  MapList& operator=(const MapList&) = delete;
  ~MapList() { meter_->bytes -= charged_; }

  // As mmap(2): overlapped mappings are cut, split or removed; returns how many, without those that stand for unknown
  // ones. An empty or wrapping range is ignored.
  std::size_t insert(const ProcessMap& map);
  // Whether all of its range is known (is_part_of).
  [[nodiscard]] bool covers(const Mmap2Record& scanned) const;
  // Keeps `most`: files before anonymous mappings, and of these the newest. Counts the others as forgotten.
  void trim(std::size_t most);
  void shrink() {
    maps_.shrink_to_fit();
    recharge();
  }
  [[nodiscard]] const std::vector<ProcessMap>& all() const { return maps_; }  // ascending in address
  // How many were removed although they may still be mapped, in this list and in those that it was copied from.
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }
  void add_forgotten(std::uint64_t count) { forgotten_ += count; }

 private:
  void recharge();

  Meter* meter_;
  std::size_t charged_ = 0;
  std::vector<ProcessMap> maps_;
  std::uint64_t forgotten_ = 0;
};

using SharedMaps = std::shared_ptr<MapList>;  // null: no mappings

// The list behind `maps`, for writing: created if there is none, copied if it is shared.
MapList& writable(SharedMaps& maps, Meter& meter);

}  // namespace flight
