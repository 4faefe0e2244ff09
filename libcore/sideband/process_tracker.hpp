// SPDX-License-Identifier: Apache-2.0
// The process tracker: which process ran which code, exited processes included, for as long as any ring still has
// their samples.
//
//        state (folded)          │ log: raw records, ascending in time      now
//   per process: parent, comm,   │  FORK  COMM  MMAP2  EXIT  CGROUP  …       │
//   threads, executable maps     │                                           │
//   ─────────────────────────────┴───────────────────────────────────────────┘
//                             horizon = the oldest sample of any ring
//
// A record that leaves the log is folded into the state, never dropped. An exited process stays until its exit is
// older than the horizon by TrackerLimits::dying_ns. Bounded in bytes: if the log is over its limit, its oldest half
// is folded early; if the state is, the processes that exited longest ago are removed first and counted as evicted.
// One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/clock_history.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/fork_counts.hpp"
#include "libcore/sideband/gaps.hpp"

namespace flight {

struct TrackerLimits {
  std::size_t log_bytes = 4U << 20U;
  std::size_t state_bytes = 9U << 20U;
  std::size_t export_bytes = 4U << 20U;  // limit of a prologue and of early-folded records, without the log
  // How long a process can be sampled after its EXIT. Linux 6.16 and stable kernels with "perf: Fix sample vs
  // do_exit()" write EXIT before the process's memory is freed (about 0.06 s per GiB). Exited processes are kept for
  // this long beyond the horizon, because a window may begin with samples of a process whose EXIT is before it.
  EventTime dying_ns = 0;
  MemoryBound bound = MemoryBound::config;  // which setting would have to be larger

  // Shares of the memory that is not for rings; the rest is for the programs and the broker's replies. The checkpoint,
  // a file in memory, has a share of its own (checkpoint_file_bytes()).
  [[nodiscard]] static TrackerLimits of(const BesideRings& beside, EventTime dying_ns) {
    return {.log_bytes = static_cast<std::size_t>(tracker_log_bytes(beside.bytes)),
            .state_bytes = static_cast<std::size_t>(tracker_state_bytes(beside.bytes)),
            .export_bytes = static_cast<std::size_t>(beside.bytes / 12),
            .dying_ns = dying_ns,
            .bound = beside.bound};
  }
};

inline constexpr std::size_t kMaxCgroups = 32768;  // whose paths are kept

// What the tracker has dropped because of its limits, besides processes that had exited.
struct ForgottenFacts {
  std::uint64_t maps = 0, of_processes = 0;   // of processes with samples (in an export)
  std::uint64_t replaced = 0;                 // mappings that others replaced
  std::uint64_t names = 0;                    // of tasks, before a rename
  std::uint64_t images = 0;                   // before an exec of a process that lives
  std::uint64_t threads = 0;                  // of processes that live
  std::uint64_t unnamed = 0, unnamed_of = 0;  // threads that no scan listed; of processes with samples (in an export)
  std::uint64_t symbols = 0;                  // of the kernel's generated code, and loaded
  std::uint64_t cgroups = 0;                  // times, since the first flightd of this boot
};

struct TrackerStats {
  std::uint64_t processes = 0;     // alive
  std::uint64_t exited = 0;        // exited, and kept
  std::uint64_t evicted = 0;       // exited ones that were removed although they ended after the horizon
  EventTime evicted_until_ns = 0;  // when the last of them exited; 0: there are none
  std::uint64_t living = 0;        // living ones that were removed, since the last complete scan
  bool stale = false;              // records are missing; a scan is due
  std::uint64_t lost = 0;          // records that the kernel could not write, since this tracker exists
  std::uint64_t unsure = 0;        // processes that were named kLostName for a while because of that
  ForgottenFacts forgotten;        // without maps
  std::uint64_t strangers = 0;     // records that were not believed (strangers.hpp)
  std::size_t log_bytes = 0, state_bytes = 0;
};

// In the flags of a KSYMBOL record: its symbol was read from a list without sizes, so it may end before its `bytes`.
// perf_event.h uses only bit 0.
inline constexpr std::uint16_t kGuessedSymbolEnd = 0x8000;

// The input of a file: the state at the window's start, then the log inside the window.
struct TrackerExport {
  // The flags of KSYMBOL records can have kGuessedSymbolEnd.
  RecordBuffer prologue;  // CGROUP, KSYMBOL, and per process FORK, COMM, MMAP2…, threads; trailers all zero
  std::vector<EventTime> mapped_ns;  // when each of the prologue's MMAP2 was mapped; of a scanned one the earliest
  RecordBuffer log;  // whole records, ascending in time, with the kernel's trailers; also early-folded processes that
                     // began inside the window, at their time
  struct UserBuildId {
    BuildId id;
    std::string name;
  };
  std::vector<UserBuildId> build_ids;  // distinct, of all mappings in prologue and log
  struct Program {
    std::uint32_t pid = 0;
    EventTime from_ns = 0;  // when it was executed, or the process began
    std::string path;
  };
  std::vector<Program> programs;  // executables that no mapping in prologue and log shows
  std::vector<ForkCount> forks;   // of processes, in the window; a slice that overlaps its edges is included completely
  // Processes that exited before names_from_ns may have no name, and `forks` is incomplete before forks_from_ns. 0:
  // nothing is missing. Records that were lost in `gaps` are missing as well.
  EventTime names_from_ns = 0, forks_from_ns = 0;
  // The cgroups of processes that fork but have no samples, by pid, read from /proc.
  struct ForkerCgroup {
    std::string path;
    EventTime since_ns = 0;  // when it was made: before that, the process was in another one, which is not known
  };
  std::unordered_map<std::uint32_t, ForkerCgroup> forker_cgroups;
  // FORKs that `log` may lack: of processes with samples, of those that fork, and of their ancestors, since
  // kShortLivedNs before the window.
  struct EarlyFork {
    std::uint32_t pid = 0, parent = 0;
    EventTime time_ns = 0;
  };
  std::vector<EarlyFork> early_forks;
  EventTime cgroup_made_ns = 0;   // when the last cgroup was made whose record is not in `log`
  std::vector<SidebandGap> gaps;  // in the window or shortly before it, ascending
  ForgottenFacts forgotten;       // of this window
  std::uint64_t left_out = 0;     // processes whose mappings were omitted, because they would exceed the limit
  // From then on, prologue and log have every range of executable memory that a process has or had, if they have its
  // [vdso] and it is not in `partial_maps`. UINT64_MAX: never, records are missing and no scan was made since.
  EventTime maps_from_ns = UINT64_MAX;
  std::unordered_set<std::uint32_t> partial_maps;  // mappings were forgotten, or not read by the last scan
  std::vector<std::string> warnings;               // which names are uncertain, and why
  std::vector<std::string> notes;  // normal on a busy machine: files that were deleted before they could be read
  TrackerStats stats;
};

// What a tracker has dropped, and the time from which it has data.
struct TrackerLosses {
  // Processes that it removed because of its memory limit, and when the last of them exited; the same for processes
  // that lost only their maps.
  std::uint64_t evicted = 0;
  EventTime evicted_until_ns = 0;
  std::uint64_t evicted_maps = 0;
  EventTime evicted_maps_until_ns = 0;
  EventTime known_from_ns = 0;  // processes that exited earlier are unknown
  EventTime forks_from_ns = 0;  // forks before this are not counted
};

// What was omitted from a checkpoint.
struct CheckpointOmissions {
  TrackerLosses losses;                         // for the reader; includes the exited processes that did not fit
  std::unordered_set<std::uint32_t> unwritten;  // living processes: call append_state() when they exit
};

// Which names a file has that is being written (ProcessTracker::export_next).
struct FileNames {
  std::uint64_t revision = 0;  // of what it was given last, ProcessTracker::revision()
  bool all_lost = false;       // no name in it is valid at its end, because a scan is missing
};

struct ProcessAt {
  std::uint32_t pid = 0;
  EventTime time_ns = 0;
};

class ProcessTracker {
 public:
  explicit ProcessTracker(TrackerLimits limits = {});
  ProcessTracker(ProcessTracker&&) noexcept;
  ProcessTracker& operator=(ProcessTracker&&) noexcept;
  ~ProcessTracker();

  // Adds raw records of one or more sideband rings; order among rings does not matter. A LOST record is a gap since
  // the record before it in its ring. LOST and THROTTLE records are not kept. `drained_ns`: when the first of the
  // rings was read: no older record will come any more. 0: unknown.
  void add(std::span<const std::byte> records, EventTime drained_ns = 0);
  // The ring of this CPU was full: there may be a gap from its last record until it had space again, although no LOST
  // record reports it yet.
  void add_full(std::uint32_t cpu, EventTime begin_ns, EventTime end_ns);
  // Nothing was recorded, or the records are missing, in [begin, end].
  void add_gap(EventTime begin_ns, EventTime end_ns);
  // A gap since the newest known record.
  void add_gap_until(EventTime end_ns);
  // Sets which process wrote most of the records that did not fit, for the newest gap.
  void blame(std::string who);
  // Merges the broker's *processes*, requested at `asked_ns`; generated code of the kernel as scanned_symbols.hpp
  // says. A scan that began before its request (scan_time.hpp) counts as requested when it began: records of a later
  // time are newer than its facts. Returns that time: if it is not `asked_ns`, another scan has to be requested.
  //
  // An unknown process becomes state that always existed (from its FORK's own time on); of a known process only
  // missing facts are added. After a gap, processes that the scan does not confirm by pid, start time, name and maps
  // are called kLostName from the gap on, until their names are known. This ends staleness for gaps that are over by
  // then. A process that exists but that the broker could not read waits for the next scan; after several such scans it
  // is called kLostName. `wanted`: a snapshot has samples of them, so they stay if memory is short. `clock`: with a
  // look after the scan, as the start times are of CLOCK_BOOTTIME. `read_ns`: all of it was read by then; what a
  // process unmapped before is not known (TrackerExport::maps_from_ns). UINT64_MAX: unknown.
  EventTime add_scan(std::span<const std::byte> records, EventTime asked_ns,
                     const std::unordered_set<std::uint32_t>& wanted = {}, const ClockHistory& clock = ClockHistory(),
                     EventTime read_ns = UINT64_MAX);

  // Folds records that are older than every ring's oldest sample; removes processes whose exit is older.
  void fold(EventTime horizon_ns);

  // Writes the whole tracker as records for replay(), in no order: state up to about `most_state_bytes`, and the whole
  // log. `write` is called with whole records, some hundred KB at a time.
  [[nodiscard]] CheckpointOmissions checkpoint(std::size_t most_state_bytes,
                                               const std::function<void(std::span<const std::byte>)>& write) const;
  // Appends the state of `pid` as folded now, for replay().
  void append_state(std::uint32_t pid, RecordBuffer& out) const;
  // Restores an earlier tracker: a checkpoint, and the records that were added to that tracker after it, up to the
  // first incomplete record. Call it before anything else. A scan is due afterwards.
  void replay(std::span<const std::byte> records, const TrackerLosses& losses);
  // There was an earlier tracker, but its data is lost: exits and forks before this time are unknown.
  void know_from(EventTime from_ns);
  // Removes from `records` those that are already in the log, byte for byte: after a replay the rings may still hold
  // records of the checkpoint.
  void drop_known(RecordBuffer& records) const;

  // Whether living processes were forgotten that may be among `pids`: a scan would find them.
  [[nodiscard]] bool lacks(const std::unordered_set<std::uint32_t>& pids) const;

  // The name of each at that time, exited ones included; empty: unknown. One pass over the log for all of them.
  [[nodiscard]] std::vector<std::string> comms_of(std::span<const ProcessAt> asked) const;

  // For a file with samples of the processes `pids` in [begin, end]. Do not pass tids: they may have been the pids of
  // other processes, which have exited. Includes their ancestors, as far as the log copies maps from them. The path of
  // the cgroup `id` is in the CGROUP records of the prologue; all known cgroups are written.
  [[nodiscard]] TrackerExport export_window(EventTime begin_ns, EventTime end_ns,
                                            const std::unordered_set<std::uint32_t>& pids) const;
  // All processes that are known. A recording needs them, because any of them may have samples later.
  [[nodiscard]] std::unordered_set<std::uint32_t> pids() const;
  // For a file that has all up to after_ns: what follows, up to until_ns. `state.log` is the log of that time. `whole`:
  // more has changed than newer records say, because a gap began, a scan ended it, or records were folded. Then
  // `state.prologue` has all processes and symbols at after_ns, with that time or one ns more in their trailers, and
  // replaces what the file says about them. From a gap on until a scan, every process is called kLostName, and there
  // are no mappings. `file`: of the file; {revision()} after export_window().
  struct Next {
    TrackerExport state;  // without what is in no file
    bool whole = false;
  };
  [[nodiscard]] Next export_next(EventTime after_ns, EventTime until_ns, FileNames& file) const;
  // How often scans have changed what is known about the past.
  [[nodiscard]] std::uint64_t revision() const;
  // Whether a gap began by then, and no scan came.
  [[nodiscard]] bool all_in_doubt(EventTime until_ns) const;
  // After read_forker_cgroups(): sets since_ns, as far as the log reaches.
  void date_forker_cgroups(TrackerExport& window) const;
  // After an export: if memory is short, living ones of these processes are forgotten after all others, and so are
  // these cgroups (ids).
  void mark_sampled(EventTime begin_ns, EventTime end_ns, const std::unordered_set<std::uint32_t>& pids,
                    const std::unordered_set<std::uint64_t>& cgroups = {});

  [[nodiscard]] TrackerStats stats() const;
  // For a person: processes with more mappings than were kept, at that time.
  [[nodiscard]] std::vector<std::string> flood_warnings(EventTime begin_ns, EventTime end_ns) const;
  // Advice about `evicted`.
  [[nodiscard]] std::string_view memory_advice() const;
  [[nodiscard]] bool stale() const;
  // Records are missing, and no scan was merged since.
  [[nodiscard]] bool has_open_gap() const;
  // Stale, or the last scan left out threads or mappings of some.
  [[nodiscard]] bool wants_scan() const;
  [[nodiscard]] std::uint64_t lost() const;
  // Gaps that a window may still contain, ascending.
  [[nodiscard]] std::span<const SidebandGap> gaps() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flight
