// SPDX-License-Identifier: Apache-2.0
// The ledger: who was running what code where, exited processes included, for as long as any ring still holds their
// samples.
//
//        state (folded)          │ log: raw records, ascending in time      now
//   per process: parent, comm,   │  FORK  COMM  MMAP2  EXIT  CGROUP  …       │
//   threads, executable maps     │                                           │
//   ─────────────────────────────┴───────────────────────────────────────────┘
//                             horizon = the oldest sample of any ring
//
// A record that leaves the log is folded into the state, never dropped. A process that exited stays until its
// exit is older than the horizon by LedgerLimits::dying_ns. Bounded in bytes: when the log is over its bound its oldest
// half is folded early, when the state is, the longest-dead go first and are counted as evicted. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

struct LedgerLimits {
  std::size_t log_bytes = 8U << 20U;
  std::size_t state_bytes = 48U << 20U;
  // For how long a process can be sampled after its EXIT: Linux 6.16, and stable kernels with "perf: Fix sample vs
  // do_exit()", write that before the process's memory is given back (kernel/exit.c, do_exit).
  EventTime dying_ns = 0;
};

struct LedgerStats {
  std::uint64_t processes = 0;  // alive
  std::uint64_t exited = 0;     // dead, and kept
  std::uint64_t evicted = 0;    // dead ones that had to go early, in this ledger's life
  bool stale = false;           // records were lost; a scan of what runs now is due
  std::size_t log_bytes = 0, state_bytes = 0;
};

// What a file needs: the state at the window's start, then the log inside the window.
struct LedgerExport {
  RecordBuffer prologue;  // CGROUP, KSYMBOL, and per process FORK, COMM, MMAP2…, threads; trailers all zero
  RecordBuffer log;  // whole records, ascending in time, with the kernel's trailers; also early-folded processes that
                     // began inside the window, at their time
  struct UserBuildId {
    BuildId id;
    std::string name;
  };
  std::vector<UserBuildId> build_ids;  // distinct, of all mappings in prologue and log
  LedgerStats stats;
};

// What a checkpoint could not say, because it would have been too long.
struct LedgerCheckpoint {
  std::uint64_t left_out = 0;                   // dead processes, the longest-dead ones
  std::unordered_set<std::uint32_t> unwritten;  // living ones: append_state() of them when they end
};

struct ProcessAt {
  std::uint32_t pid = 0;
  EventTime time_ns = 0;
};

class Ledger {
 public:
  explicit Ledger(LedgerLimits limits = {});
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  // Raw records of one or more sideband rings, as the kernel wrote them; order among rings does not matter. A LOST
  // among them makes the ledger stale. LOST and THROTTLE records are not kept.
  void add(std::span<const std::byte> records);
  // The broker's *processes*: what is unknown becomes state that was always there (from its FORK's own time on); of
  // known processes only what is missing is added, at `scanned_ns`. Ends staleness.
  void add_scan(std::span<const std::byte> records, EventTime scanned_ns);

  // Folds what is older than the oldest sample of every ring; forgets processes whose exit is older.
  void fold(EventTime horizon_ns);

  // All that is known, as records for replay(), in no order: state up to about `most_state_bytes`, and all of the log.
  // `write` is called with whole records, some hundred KB at a time.
  [[nodiscard]] LedgerCheckpoint checkpoint(std::size_t most_state_bytes,
                                            const std::function<void(std::span<const std::byte>)>& write) const;
  // The state of `pid` as it is folded now, for replay().
  void append_state(std::uint32_t pid, RecordBuffer& out) const;
  // What an earlier ledger knew: a checkpoint, and what was added to that ledger after it. Up to the first record that
  // is not whole. Before anything else. A scan is due afterwards. `evicted`: how many processes that ledger had to let
  // go.
  void replay(std::span<const std::byte> records, std::uint64_t evicted);
  // Takes what is in the log already, byte for byte, out of `records`: after a replay the rings may hold again what was
  // kept.
  void drop_known(RecordBuffer& records) const;

  // What each was called then, the ended ones too; empty: nobody knows. One pass over the log for all of them.
  [[nodiscard]] std::vector<std::string> comms_of(std::span<const ProcessAt> asked) const;

  // For a file with samples of the threads/processes `pids` in [begin, end]. Also their ancestors as far as the log
  // clones maps from them. The path of the cgroup `id` is in the CGROUP records of the prologue; all cgroups that are
  // known are written.
  [[nodiscard]] LedgerExport export_window(EventTime begin_ns, EventTime end_ns,
                                           const std::unordered_set<std::uint32_t>& pids) const;

  [[nodiscard]] LedgerStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace flight
