// SPDX-License-Identifier: Apache-2.0
// A scan after parsing. Private to sideband.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "libcore/base/clock_history.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/kernel_table.hpp"

namespace flight {

struct ScannedThread {
  std::uint32_t tid = 0;
  std::string_view comm;
};

// The mappings among the records of a process, without the record of an executable that covers nothing; parsed one by
// one: parsed all at once, they would take as much memory as the scan.
class ScannedMaps {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Mmap2Record;
    using difference_type = std::ptrdiff_t;
    using pointer = const Mmap2Record*;
    using reference = const Mmap2Record&;

    Iterator() = default;
    explicit Iterator(std::span<const std::byte> records) : rest_(records) { settle(); }
    reference operator*() const { return map_; }
    pointer operator->() const { return &map_; }
    Iterator& operator++() {
      rest_ = rest_.subspan(size_);
      settle();
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.rest_.size() == b.rest_.size(); }

   private:
    void settle();  // at the next mapping, or the end
    std::span<const std::byte> rest_;
    std::size_t size_ = 0;  // of the mapping's record
    Mmap2Record map_;
  };

  ScannedMaps() = default;
  explicit ScannedMaps(std::span<const std::byte> records) : records_(records) {}
  [[nodiscard]] Iterator begin() const { return Iterator(records_); }
  [[nodiscard]] static Iterator end() { return {}; }
  [[nodiscard]] bool empty() const { return begin() == end(); }

 private:
  std::span<const std::byte> records_;
};

// Its views are into the scan's bytes.
struct ScannedProcess {
  std::uint32_t pid = 0, parent = 0;
  EventTime started_ns = 0;
  std::string_view comm;
  bool unread = false;                 // it exists, and nothing else of it is known
  bool partly = false;                 // the name is right, threads and mappings can be missing
  std::uint64_t threads_left_out = 0;  // others than `threads`
  std::vector<ScannedThread> threads;
  ScannedMaps maps;
  std::span<const std::byte> program;  // MMAP2 of the executable, which may cover nothing; empty: unknown
};

// The generated code of the kernel, if the broker could read it. Its views are into the scan's bytes.
struct ScannedSymbols {
  std::vector<KsymbolRecord> all;  // ascending by address
  EventTime read_ns = 0;
  bool cut = false, no_bpf = false;  // as kScanSymbolsCut and kScanSymbolsNoBpf
};

struct Scan {
  std::vector<ScannedProcess> processes;
  bool all_listed = false;                // a process that is not among them has ended
  std::optional<ScannedSymbols> symbols;  // nullopt: nothing is known about them
};

// The scan's cgroups go to `kernel`. `clock`: for the times of the processes' starts. The result's views are into
// `bytes`.
[[nodiscard]] Scan read_scan(std::span<const std::byte> bytes, const ClockHistory& clock, KernelTable& kernel);

}  // namespace flight
