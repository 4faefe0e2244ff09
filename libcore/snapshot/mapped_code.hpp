// SPDX-License-Identifier: Apache-2.0
// Which addresses are, or ever were, code of a process in the window. Made from the process tracker's export.
//
// It is used to drop frames, and a wrong drop is worse than a frame that is kept. So a process has too many ranges
// rather than too few:
//   - ranges are never removed, and hold for all samples of an image, not only from their record on;
//   - what was forked and has executed nothing shares them with its parent, as both may use one memory (vfork(2)):
//
//        pid 10 ──MMAP2──FORK──────MMAP2──────▶   one memory
//        pid 11           └──MMAP2──┤exec         a memory of its own from then on
//
// and nothing is said of a process if one of its ranges may be missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "libcore/sideband/process_tracker.hpp"

namespace flight {

// Addresses of which the same is said: there is code, or there is none.
struct CodeStretch {
  std::uint64_t first = 0, last = UINT64_MAX;  // both included
  bool code = false;
};

class MappedRanges {
 public:
  // What is said of `address` and of those around it. Only after finish().
  [[nodiscard]] CodeStretch stretch_of(std::uint64_t address) const;
  [[nodiscard]] bool has(std::uint64_t address) const { return stretch_of(address).code; }

  void add(std::uint64_t address, std::uint64_t bytes);
  // Returns how many different ones were added.
  std::size_t finish();

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  std::vector<Range> ranges_;  // after finish(): ascending, apart from each other
};

class MappedCode {
 public:
  // A process with more mappings is not believed: flightd-broker and the process tracker cut long lists.
  static constexpr std::size_t kMostMappings = 1024;

  explicit MappedCode(const TrackerExport& sideband);

  // The memory that the process has at that time; processes can share one. kUnknown: not all of its code is known. That
  // is so
  //   - before TrackerExport::maps_from_ns, and for its partial_maps;
  //   - without its [vdso], which every exec maps and every scan finds: then only later mappings are known;
  //   - if it has a range that stands for unknown mappings (kLostName);
  //   - if it has executable memory that is not of a file. Who generates code may also move it by mremap(2), of which
  //     the kernel writes no record: V8 does that with its own functions;
  //   - after doubt().
  static constexpr std::size_t kUnknown = SIZE_MAX;
  [[nodiscard]] std::size_t memory_of(std::uint32_t pid, EventTime time_ns) const {
    return stay_of(pid, time_ns).memory;
  }
  // Times at which the process has the same memory, both included.
  struct Stay {
    EventTime from_ns = 0, to_ns = UINT64_MAX;
    std::size_t memory = kUnknown;
  };
  [[nodiscard]] Stay stay_of(std::uint32_t pid, EventTime time_ns) const;
  // Whether it has code there, or the kernel has some for all programs. `memory`: not kUnknown.
  [[nodiscard]] bool is_code(std::size_t memory, std::uint64_t address) const {
    return stretch_of(memory, address).code;
  }
  // The same of the addresses around it, too.
  [[nodiscard]] CodeStretch stretch_of(std::size_t memory, std::uint64_t address) const;
  [[nodiscard]] bool empty() const { return memories_.empty(); }  // nothing is known of any process
  // It has code that is not known.
  void doubt(std::size_t memory) { memories_[memory].whole = false; }

 private:
  struct Memory {
    MappedRanges ranges;
    std::size_t mappings = 0;  // different ones
    bool has_vdso = false, whole = true;

    [[nodiscard]] bool is_known() const { return has_vdso && whole && mappings <= kMostMappings; }
  };
  struct Life {
    EventTime from_ns = 0;  // of a process or of an image
    std::size_t memory = 0;
  };
  void learn(std::span<const std::byte> records);
  void take(std::span<const std::byte> record, EventTime time_ns);
  [[nodiscard]] std::size_t new_memory();
  void begin(std::uint32_t pid, EventTime time_ns, std::size_t memory);
  [[nodiscard]] Memory& newest_memory_of(std::uint32_t pid, EventTime time_ns);

  const TrackerExport& sideband_;
  std::vector<Memory> memories_;
  std::unordered_map<std::uint32_t, std::vector<Life>> lives_;  // ascending
};

}  // namespace flight
