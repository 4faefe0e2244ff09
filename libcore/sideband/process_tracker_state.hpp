// SPDX-License-Identifier: Apache-2.0
// The data of the process tracker, and how a record gets from the log into the state. Private to sideband.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libcore/sideband/doubt_scope.hpp"
#include "libcore/sideband/floods.hpp"
#include "libcore/sideband/forgotten.hpp"
#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/record_log.hpp"
#include "libcore/sideband/revisions.hpp"
#include "libcore/sideband/scanned_symbols.hpp"

namespace flight {

inline constexpr std::size_t kMostCpus = 8192;  // number of CPUs whose last record's time is kept

struct ProcessTracker::State {
  // A quarter of the state each for cgroups and for symbols: at least half of it is for processes.
  explicit State(const TrackerLimits& of) : limits(of), kernel(of.state_bytes / 4) {}

  class View;

  TrackerLimits limits;
  RecordLog log;
  ProcessTable table;
  KernelTable kernel;
  ForkCounts forks;                                  // those that are no longer in the log
  std::uint64_t logged_forks = 0, logged_exits = 0;  // of processes, in the log
  std::uint64_t lost = 0, unsure = 0;
  Forgotten evicted, evicted_maps;
  Forgotten living;           // processes that live, until a scan finds them again
  Forgotten images, threads;  // of living processes
  Forgotten replaced;         // mappings that a record replaced that was folded early, and when
  Forgotten names;            // that tasks had before a rename, which was then
  Forgotten strangers;        // records, and when they were drained
  Floods floods;
  EventTime known_from_ns = 0, forks_from_ns = 0;  // as in TrackerLosses
  EventTime newest_fork_ns = 0;                    // among those in `forks`
  EventTime folded_ns = 0;                         // the newest record that left the log
  EventTime made_ns = 0;                           // the newest of them that says that a cgroup was made
  EventTime drained_ns = 0;                        // as in add(); 0: unknown
  EventTime newest_ns = 0;                         // of all records written by the kernel
  bool replaying = false;
  EventTime drained_to_ns = 0;                    // the same, without the records that are being added
  EventTime scan_read_ns = UINT64_MAX;            // of the last scan, as in add_scan(); UINT64_MAX: none, or unknown
  std::unordered_set<std::uint32_t> partly_read;  // by that scan
  Gaps gaps;
  Revisions revisions;
  std::optional<SymbolGap> symbol_gap;  // until a scan with symbols
  std::optional<OldBpf> old_bpf;        // by the last scan with symbols; nullopt: none came
  std::unordered_map<std::uint32_t, EventTime> last_of_cpu;
  std::unordered_map<std::uint32_t, std::pair<EventTime, EventTime>>
      full;  // gaps of CPUs whose LOST record has not come yet

  [[nodiscard]] bool has(std::span<const std::byte> record) const;
  void append(std::span<const std::byte> records);
  void append_lost(std::span<const std::byte> record);
  // False: it belongs into the log.
  bool take_note(std::span<const std::byte> record);
  // The gap whose scan is not here yet; nullopt: there is none, or the broker is older and lists no symbols.
  [[nodiscard]] std::optional<SymbolGap> unlisted() const {
    const auto& gap = gaps.pending();
    if (!old_bpf || !gap || gap->begin_ns >= gap->end_ns) return std::nullopt;
    return SymbolGap{.begin_ns = gap->begin_ns, .end_ns = gap->end_ns};
  }
  [[nodiscard]] EventTime last_of(std::uint32_t cpu) const;
  void count(const RecordLog::Entry& entry, std::uint64_t change);
  void warn_of_forgotten(TrackerExport& window) const;
  // The gap after which no scan came; null: it begins later than `until_ns`, or there is none.
  [[nodiscard]] const SidebandGap* open_gap(EventTime until_ns) const {
    const auto& gap = gaps.pending();
    return gap && gap->begin_ns < gap->end_ns && gap->begin_ns <= until_ns ? &*gap : nullptr;
  }
  // As ProcessTracker's, without what is not of one window.
  [[nodiscard]] TrackerExport export_window(View& view, EventTime begin_ns, EventTime end_ns,
                                            const std::unordered_set<std::uint32_t>& pids) const;
  // The log in (after_ns, until_ns]. `enters`: with it a gap begins for the file.
  void append_piece(View& view, EventTime after_ns, EventTime until_ns, bool enters, TrackerExport& out) const;
  // `doubts`: the processes in doubt; null if there are none. `pids`: those with samples.
  void warn(TrackerExport& window, EventTime begin_ns, EventTime end_ns, const DoubtScope* doubts,
            const std::unordered_set<std::uint32_t>& pids) const;
  // `pids`: null: any of them may have samples.
  void warn_of_gaps(TrackerExport& window, EventTime begin_ns, EventTime end_ns, const DoubtScope* doubts,
                    const std::unordered_set<std::uint32_t>* pids) const;
  void count_fork(const RecordLog::Entry& entry);
  [[nodiscard]] std::string_view advice() const {
    switch (limits.bound) {
      case MemoryBound::config:
        return "a larger memory.max keeps more";
      case MemoryBound::cgroup:
        return "a larger memory limit of flightd's cgroup keeps more (MemoryMax= of its unit)";
      case MemoryBound::largest:
        break;
    }
    return "flightd keeps no more than this";
  }
  [[nodiscard]] EventTime names_from_ns(EventTime begin_ns) const;
  [[nodiscard]] std::vector<ForkCount> forks_between(const RecordLog& records, EventTime begin_ns,
                                                     EventTime end_ns) const;
  // `early`: windows may still begin before them.
  void fold_front(std::size_t count, bool early);
  void fold_early();
  void shrink();
};

// The log as a file gets it: while a scan is missing, the names that it would have to confirm are lost.
class ProcessTracker::State::View {
 public:
  View(const State& state, EventTime end_ns);
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  // Null: no name up to end_ns is in doubt.
  [[nodiscard]] const DoubtScope* doubts() const { return doubtful_ ? &scope_ : nullptr; }
  // Costs a copy of the log if names are in doubt.
  [[nodiscard]] const RecordLog& log();

 private:
  const State& state_;
  Unread unread_;
  DoubtScope scope_;
  bool doubtful_;
  std::optional<RecordLog> doubted_;
};

}  // namespace flight
