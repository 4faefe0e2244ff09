// SPDX-License-Identifier: Apache-2.0
// Filters drained sideband records before they are kept. One thread that toggles mprotect(PROT_EXEC) writes 165,000
// MMAP2 records a second, and nearly all of them repeat known facts. Repetitions are dropped, and after its first
// kFreeMaps mappings a process gets at most kMapsPerSecond new ones into the log. Records are counted per process, so
// that a loss can be attributed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

class Intake {
 public:
  // A mapping that was seen this often since the process's last exec is a repetition. More than once, because rings
  // are read one after the other: an exec may be read after the records that followed it.
  static constexpr std::uint32_t kRepeats = 16;
  static constexpr std::uint32_t kFreeMaps = 16384;
  static constexpr std::uint32_t kMapsPerSecond = 1000;
  static constexpr std::size_t kMostMappings = 32;  // remembered for one process
  static constexpr std::uint32_t kMostCpus = 8192;
  static constexpr std::size_t kMostProcesses = 16384;  // counted at the same time

  struct Loudest {
    std::uint32_t pid = 0;  // with the processes that it forked lately; 0: none
    std::uint64_t records = 0, all = 0;
  };
  struct Flood {
    std::uint32_t pid = 0;
    std::uint64_t left_out = 0;  // mappings beyond the limit
    EventTime last_ns = 0;
  };

  // Removes repetitions and mappings beyond the limit; `records`: whole ones. A LOST record gets the begin of its gap,
  // because the record before it may be removed.
  void sift(RecordBuffer& records, EventTime now_ns);
  // The time of the last record of this CPU; 0: there was none.
  [[nodiscard]] EventTime last_of(std::uint32_t cpu) const;
  // In the second that ends now and the one before it.
  [[nodiscard]] Loudest loudest() const;
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }
  // A few, the newest last.
  [[nodiscard]] const std::vector<Flood>& floods() const { return floods_; }

 private:
  struct Mapping {
    std::uint64_t address = 0, end = 0, hash = 0;
    std::uint32_t seen = 0;
  };
  struct Process {
    std::uint32_t parent = 0;  // 0: not forked lately
    std::uint32_t maps = 0;    // number since its last exec
    std::uint32_t maps_now = 0;
    std::uint64_t now = 0, before = 0;  // records
    std::vector<Mapping> mappings;      // the most recent last
  };
  void note_time(std::span<std::byte> record);
  void next_second(EventTime now_ns);
  [[nodiscard]] bool keep(std::span<const std::byte> record, EventTime now_ns);
  [[nodiscard]] bool keep_map(std::span<const std::byte> record, std::uint32_t pid, Process& process, EventTime now_ns);
  void note_flood(std::uint32_t pid, EventTime now_ns);

  std::unordered_map<std::uint32_t, Process> processes_;
  std::vector<EventTime> last_of_cpu_;
  EventTime second_ns_ = 0;
  std::uint64_t all_now_ = 0, all_before_ = 0;
  std::uint64_t repeated_ = 0;
  std::vector<Flood> floods_;
};

}  // namespace flight
