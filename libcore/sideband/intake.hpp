// SPDX-License-Identifier: Apache-2.0
// Filters drained sideband records before they are kept. One thread that toggles mprotect(PROT_EXEC) writes 165,000
// MMAP2 records a second, and nearly all of them repeat known facts. Repetitions are dropped, and a process gets at
// most kMapsPerSecond new mappings a second into the log. Of the others only the ranges are kept: they are called
// kLostName from then on, and a look at the process must find what is there.
//
// So are the names that a process gives its tasks beyond kNamesPerSecond (renames.hpp). One task can write 700,000 of
// them a second, so skim() takes out most of them before any other pass over the records. The paths of the cgroups that
// a process makes beyond kCgroupsPerSecond are dropped, too: their ids stay without a name until a scan finds them.
//
//   mapping      kept │ equal: dropped │ another: kept │ … the 1001st: dropped      scan asked │ dropped again
//   log, tracker  A   │       A        │       B       │ [lost] in its range               C  │ [lost] again
//
// Records are counted per process, so that a loss can be attributed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/doubted_ranges.hpp"
#include "libcore/sideband/renames.hpp"

namespace flight {

class Intake {
 public:
  static constexpr std::uint32_t kMapsPerSecond = 1000;
  static constexpr std::uint32_t kNamesPerSecond = 1000;
  static constexpr std::uint32_t kCgroupsPerSecond = 1000;
  static constexpr std::size_t kMostOpenNames = 8192;  // tasks; the names of others are kept
  static constexpr std::size_t kMostMappings = 32;     // remembered for one process
  static constexpr std::uint32_t kMostCpus = 8192;
  static constexpr std::size_t kMostProcesses = 16384;       // counted at the same time
  static constexpr std::size_t kMostSpareBytes = 1U << 20U;  // of dropped repetitions; beyond, they are kept

  struct Loudest {
    std::uint32_t pid = 0;  // with the processes that it forked lately; 0: none
    std::uint64_t records = 0, all = 0;
  };

  // Removes from drained records the names that sift() would drop without any other consequence: nearly all of a task
  // that goes on renaming itself. Call it first: it costs a few ns for each record.
  void skim(RecordBuffer& records);
  // Removes repetitions and mappings beyond the limit, and adds what follows from that; `records`: whole ones. A LOST
  // record gets the begin of its gap, because the record before it may be removed. `complete_ns`: no older record will
  // come; 0: unknown.
  void sift(RecordBuffer& records, EventTime now_ns, EventTime complete_ns = 0);
  // Whether sift() has something to add although no record came.
  [[nodiscard]] bool due() const { return open_names_ > 0; }
  // The time of the last record of this CPU; 0: there was none.
  [[nodiscard]] EventTime last_of(std::uint32_t cpu) const;
  // In the second that ends now and the one before it.
  [[nodiscard]] Loudest loudest() const;
  [[nodiscard]] std::uint64_t repeated() const { return repeated_; }

  // Records of these times are missing: what is known may have been changed by one of them.
  void lost(EventTime begin_ns, EventTime end_ns);
  // A scan was requested: what is dropped from now on may be newer than what it finds.
  void looking();
  // A scan that was requested at that time has been merged.
  void looked(EventTime asked_ns) { looked_ns_ = asked_ns; }
  // Mappings are in doubt, or cgroups have no path, until the next scan.
  [[nodiscard]] bool wants_scan() const { return doubted_ns_ > looked_ns_; }

 private:
  // The last repetition of a mapping, which was dropped.
  struct Spare {
    EventTime time_ns = 0;
    RecordBuffer record;
  };
  struct Mapping {
    std::uint64_t address = 0, end = 0, hash = 0;
    EventTime since_ns = 0;        // no other record has changed it
    std::unique_ptr<Spare> spare;  // null: none

    [[nodiscard]] EventTime again_ns() const { return spare ? spare->time_ns : 0; }
    [[nodiscard]] std::size_t spare_bytes() const { return spare ? spare->record.size() : 0; }
  };
  struct Flood {
    DoubtedRanges doubted;
    EventTime late_ns = ~EventTime{0};  // all mappings of the image before are in doubt since then
    std::uint64_t left_out = 0;         // mappings beyond the limit, since the last note
    EventTime left_out_ns = 0;
  };
  struct Process {
    std::uint32_t parent = 0;  // 0: not forked lately
    std::uint32_t maps_now = 0, names_now = 0, cgroups_now = 0;
    std::uint64_t now = 0, before = 0;  // records
    EventTime began_ns = 0;             // its last exec, FORK or EXIT
    EventTime kept_ns = 0;              // the newest mapping in the log
    EventTime forgotten_ns = 0;         // and the newest that is no longer in `mappings`
    std::vector<Mapping> mappings;      // the most recent last
    std::unique_ptr<Flood> flood;       // null: it never exceeded the limit
    std::unique_ptr<Renames> renames;   // the same

    [[nodiscard]] bool has_open_names() const { return renames && renames->count_open() > 0; }
  };
  void note_time(std::span<std::byte> record);
  void next_second(EventTime now_ns);
  [[nodiscard]] bool keep(std::span<const std::byte> record);
  [[nodiscard]] bool keep_name(std::span<const std::byte> record, std::uint32_t pid, Process& process);
  [[nodiscard]] bool keep_cgroup(std::span<const std::byte> record);
  void put_names_back(EventTime complete_ns);
  void free(const Process& process);
  void forget_all();
  void report_floods();

  // intake_skim.cpp
  struct Skimmed;
  [[nodiscard]] bool is_to_skim(std::span<const std::byte> record, Skimmed& last,
                                std::unordered_set<std::uint32_t>& executed);
  void drop_name(std::span<const std::byte> record, const Skimmed& skimmed);

  // intake_maps.cpp
  [[nodiscard]] bool keep_map(std::span<const std::byte> record, std::uint32_t pid, Process& process);
  void begin_anew(std::uint32_t pid, Process& process, EventTime time_ns);
  void record_doubts(std::uint32_t pid, Process& process);
  [[nodiscard]] bool repeats(Mapping& mapping, std::span<const std::byte> record, EventTime time_ns);
  void put_back(std::uint32_t pid, Process& process, Mapping& mapping);
  bool end_doubts(std::uint32_t pid, Process& process, std::uint64_t address, std::uint64_t end, EventTime time_ns);
  void put_back_since(EventTime begin_ns);
  [[nodiscard]] bool keep_late(std::uint32_t pid, Process& process, EventTime time_ns);
  [[nodiscard]] bool exceeds(std::uint32_t pid, Process& process, EventTime time_ns);
  void put_lost(std::uint32_t pid, const DoubtedRange& range);

  std::unordered_map<std::uint32_t, Process> processes_;
  std::vector<std::uint32_t> flooding_;  // processes with mappings beyond the limit, since the last report
  std::vector<std::uint32_t> renaming_;  // the same, with names
  std::size_t open_names_ = 0;           // tasks whose names are being dropped, of all processes
  RecordBuffer additions_;
  std::size_t spare_bytes_ = 0;
  struct CpuRecord {
    EventTime time_ns = 0;
    std::uint64_t id = 0;  // of the event
  };
  std::vector<CpuRecord> last_of_cpu_;
  std::uint64_t cgroups_left_out_ = 0;  // since the last report
  EventTime cgroups_left_out_ns_ = 0;
  EventTime second_ns_ = 0;
  EventTime doubted_ns_ = 0, looked_ns_ = 0;
  EventTime complete_from_ns_ = 0;          // no record is known to be missing since then
  EventTime lost_from_ns_ = ~EventTime{0};  // records are missing, as found since the last sift()
  std::uint64_t all_now_ = 0, all_before_ = 0;
  std::uint64_t repeated_ = 0;
};

}  // namespace flight
