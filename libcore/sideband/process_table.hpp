// SPDX-License-Identifier: Apache-2.0
// Every process the sideband has told of, as it was: the ledger's folded state, and, over a few processes, the
// state that an export replays; private to sideband.
//
//   pid ─► incarnations, ascending in start        one pid, used again
//            ├ threads, each with its name and its own life
//            ├ past images                          what it was before an exec
//            └ image: name, maps                    what it is, or died as
//
// Nothing is forgotten before the horizon has passed its end; what ends before the horizon is gone at once.
// Times come with the records, which may arrive a little out of order: a record concerns the incarnation that was
// alive at its time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/mappings.hpp"

namespace flight {

// Start times of /proc are in ticks of 10 ms: a scanned process and its FORK may differ by this much.
inline constexpr EventTime kStartToleranceNs = 30'000'000;

using Comm = std::array<char, 16>;  // the kernel's, NUL-terminated; empty: unknown
[[nodiscard]] Comm to_comm(std::string_view name);
[[nodiscard]] inline std::string_view name_of(const Comm& comm) { return comm.data(); }

struct Image {
  EventTime from_ns = 0;
  Comm comm{};
  SharedMaps maps;
};

struct Thread {
  std::uint32_t tid = 0;
  Comm comm{};
  EventTime start_ns = 0, exit_ns = 0;  // exit 0: alive
};

enum class Origin : std::uint8_t {
  kFork,      // we saw its FORK
  kScan,      // it was there when a scan was taken
  kInferred,  // something of it was recorded, its beginning was not
};

struct Incarnation {
  EventTime start_ns = 0, exit_ns = 0;  // exit 0: alive
  EventTime leader_exit_ns = 0;         // the others may go on after it
  std::uint32_t parent = 0;
  std::uint32_t live_threads = 0;
  Origin origin = Origin::kFork;
  Image image;
  std::vector<Image> past;      // ascending
  std::vector<Thread> threads;  // other than the leader; ascending in (tid, start)

  [[nodiscard]] bool alive() const { return exit_ns == 0; }
  [[nodiscard]] bool alive_at(EventTime time_ns) const { return alive() || time_ns <= exit_ns; }
  [[nodiscard]] const Thread* find_thread(std::uint32_t tid) const;  // the last of that tid
  [[nodiscard]] Comm comm_of(std::uint32_t tid) const;
};

class ProcessTable {
 public:
  ProcessTable() = default;
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  // FORK, EXIT, COMM and MMAP2; others do nothing.
  void apply(std::span<const std::byte> record, EventTime time_ns);
  // Ends what was over before `horizon_ns`, now and from now on. Never goes back.
  void forget(EventTime horizon_ns);

  [[nodiscard]] Incarnation* find(std::uint32_t pid, EventTime time_ns);
  // Ascending in start; empty: unknown.
  [[nodiscard]] std::span<const Incarnation> of(std::uint32_t pid) const;
  void for_each(const std::function<void(std::uint32_t pid, std::span<const Incarnation>)>& visit) const;

  // A process that a scan found; the caller knows that it is not here.
  void add(std::uint32_t pid, Incarnation&& incarnation);
  // The one that began then.
  void remove(std::uint32_t pid, EventTime start_ns);
  // Copies those of another table, sharing their maps; `other` has to live as long.
  void borrow(std::uint32_t pid, std::span<const Incarnation> incarnations);
  // `change` may alter anything of the incarnation but its start.
  void change(std::uint32_t pid, EventTime time_ns, const std::function<void(Incarnation&)>& change);
  [[nodiscard]] SharedMaps make_maps(std::span<const Mmap2Record> records, EventTime since_ns);
  [[nodiscard]] ProcessMap make_map(const Mmap2Record& record, EventTime since_ns);
  [[nodiscard]] Meter& meter() { return meter_; }

  // Until no more than `most_bytes` are used: the longest-dead go first; then, what a file can do without of
  // the living. Returns how many processes went.
  std::uint64_t shrink(std::size_t most_bytes);

  [[nodiscard]] std::uint64_t alive() const { return tally_.alive; }
  [[nodiscard]] std::uint64_t dead() const { return tally_.dead; }
  [[nodiscard]] std::size_t bytes() const;

 private:
  using Entry = std::vector<Incarnation>;
  struct Tally {
    std::uint64_t alive = 0, dead = 0;
    std::size_t bytes = 0;
  };
  // Takes an entry's share out of the books, and puts it back when the change is done.
  class Accounted {
   public:
    Accounted(ProcessTable& table, const Entry& entry) : table_(table), entry_(entry) {
      const Tally before = tally(entry_);
      table_.tally_.alive -= before.alive;
      table_.tally_.dead -= before.dead;
      table_.tally_.bytes -= before.bytes;
    }
    Accounted(const Accounted&) = delete;
    Accounted& operator=(const Accounted&) = delete;
    ~Accounted() {
      const Tally after = tally(entry_);
      table_.tally_.alive += after.alive;
      table_.tally_.dead += after.dead;
      table_.tally_.bytes += after.bytes;
    }

   private:
    ProcessTable& table_;
    const Entry& entry_;
  };
  struct Due {
    EventTime time_ns = 0;  // something of the process ended then
    std::uint32_t pid = 0;
  };

  void apply_fork(const TaskRecord& fork, EventTime time_ns);
  void apply_thread(const TaskRecord& fork, EventTime time_ns);
  void apply_exit(const TaskRecord& exit, EventTime time_ns);
  void apply_comm(const CommRecord& comm, EventTime time_ns);
  void apply_mmap(const Mmap2Record& map, EventTime time_ns);
  Incarnation* find_or_infer(std::uint32_t pid, EventTime time_ns);
  void exec(std::uint32_t pid, Incarnation& process, Comm comm, EventTime time_ns);
  void end(std::uint32_t pid, Incarnation& process, EventTime time_ns);
  void note_end(std::uint32_t pid, EventTime time_ns);
  std::uint64_t prune(std::uint32_t pid, EventTime horizon_ns);
  std::uint64_t shrink_living(std::size_t most_bytes);
  [[nodiscard]] static Tally tally(const Entry& entry);

  // Before what charges it.
  Meter meter_;
  FilePool files_;
  std::unordered_map<std::uint32_t, Entry> processes_;
  std::deque<Due> due_;  // ascending; what the horizon has yet to pass
  EventTime horizon_ns_ = 0;
  Tally tally_;
};

}  // namespace flight
