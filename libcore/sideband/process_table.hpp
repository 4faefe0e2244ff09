// SPDX-License-Identifier: Apache-2.0
// The process table: every process known from the sideband, with its past. It is the process tracker's folded state
// and, for a few processes, the state that an export replays. Private to sideband.
//
//   pid ─► incarnations, ascending in start        one pid, reused
//            ├ threads, each with its name and its own life
//            ├ past names                           of them, and of the images
//            ├ past images                          before an exec
//            └ image: name, maps                    the last one
//
// An entry is removed when the horizon has passed its end, not before. Records may arrive a little out of order: a
// record applies to the incarnation that was alive at its time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/comm.hpp"
#include "libcore/sideband/mappings.hpp"
#include "libcore/sideband/past_names.hpp"

namespace flight {

// Start times of /proc are in ticks of 10 ms: a scanned process and its FORK may differ by this much.
inline constexpr EventTime kStartToleranceNs = 30'000'000;
// The limit of a replay, whose table is temporary: beyond it, exited processes lose their maps.
inline constexpr std::size_t kMostReplayBytes = 4U << 20U;
// A child of a process with thousands of mappings may cost 200 KB, so the limit is checked after at most this many
// records.
inline constexpr std::size_t kBoundEvery = 16;

struct Image {
  EventTime from_ns = 0;
  Comm comm{};
  SharedMaps maps;
  std::shared_ptr<const MappedFile> program;  // the executable; null: unknown. It stays when the maps are dropped.
};

struct Thread {
  std::uint32_t tid = 0;
  Comm comm{};
  EventTime start_ns = 0, exit_ns = 0;  // exit 0: alive
};

enum class Origin : std::uint8_t {
  kFork,      // its FORK was recorded
  kScan,      // it existed when a scan ran
  kInferred,  // some of its records exist, but not its beginning
};

struct Incarnation {
  EventTime start_ns = 0, exit_ns = 0;  // exit 0: alive
  EventTime leader_exit_ns = 0;         // other threads may continue after it
  std::uint32_t parent = 0;
  std::uint32_t live_threads = 0;
  Origin origin = Origin::kFork;
  bool expects_program = false;  // it has executed something, and the kernel's record of the file follows
  bool sampled = false;          // a snapshot has samples of it (ProcessTable::mark_sampled)
  bool copied = false;           // it has the name with which it was forked, and has executed nothing
  Image image;
  std::vector<Image> past;      // ascending
  std::vector<Thread> threads;  // without the leader; ascending by (tid, start)
  PastNames names;              // before the one in an image or a thread
  std::uint32_t passed = 0;     // how many of `past`, `threads` and `names` have ended before the horizon
  // Other threads that live: the last scan did not list them (kScanThreadsLeftOut), nor is their FORK known.
  std::uint32_t unnamed_threads = 0;

  [[nodiscard]] bool alive() const { return exit_ns == 0; }
  [[nodiscard]] bool alive_at(EventTime time_ns) const { return alive() || time_ns <= exit_ns; }
  [[nodiscard]] const Thread* find_thread(std::uint32_t tid) const;  // the last one with that tid
  [[nodiscard]] Comm comm_of(std::uint32_t tid) const;
};

// The image in which the process was at that time, or the oldest one that is known, and the begin of the next one; ~0:
// it is the last one.
template <typename Process>
[[nodiscard]] auto image_at(Process& process, EventTime time_ns) {
  auto* image = &process.image;
  EventTime to_ns = ~EventTime{0};
  for (auto past = process.past.rbegin(); past != process.past.rend() && image->from_ns > time_ns; ++past) {
    to_ns = image->from_ns;
    image = &*past;
  }
  return std::pair(image, to_ns);
}

struct Note;

class ProcessTable {
 public:
  ProcessTable() = default;
  ProcessTable(const ProcessTable&) = delete;
  ProcessTable& operator=(const ProcessTable&) = delete;

  // Applies FORK, EXIT, COMM, MMAP2 and notes (notes.hpp), ignores others.
  void apply(std::span<const std::byte> record, EventTime time_ns);
  // Removes entries that ended before `horizon_ns`, now and from now on. Never decreases.
  void forget(EventTime horizon_ns);

  [[nodiscard]] Incarnation* find(std::uint32_t pid, EventTime time_ns);
  // Ascending in start; empty: unknown.
  [[nodiscard]] std::span<const Incarnation> of(std::uint32_t pid) const;
  void for_each(const std::function<void(std::uint32_t pid, std::span<const Incarnation>)>& visit) const;

  // Adds a process that a scan found; the caller ensures that the table does not have it.
  void add(std::uint32_t pid, Incarnation&& incarnation);
  // Removes the incarnation that began at that time.
  void remove(std::uint32_t pid, EventTime start_ns);
  // Copies entries of another table, sharing their maps; `other` must outlive this table.
  void borrow(std::uint32_t pid, std::span<const Incarnation> incarnations);
  // A snapshot has samples of these processes in [begin, end]: shrink() takes living ones of them last.
  void mark_sampled(const std::unordered_set<std::uint32_t>& pids, EventTime begin_ns, EventTime end_ns);
  // `change` may modify the incarnation except for its start.
  void change(std::uint32_t pid, EventTime time_ns, const std::function<void(Incarnation&)>& change);
  [[nodiscard]] SharedMaps make_maps(std::span<const Mmap2Record> records, EventTime since_ns);
  [[nodiscard]] ProcessMap make_map(const Mmap2Record& record, EventTime since_ns);
  [[nodiscard]] Meter& meter() { return meter_; }

  struct Evicted {
    std::uint64_t processes = 0;  // that had exited
    EventTime until_ns = 0;       // the latest exit among them
    std::uint64_t living = 0;     // processes
    std::uint64_t maps = 0;       // processes that keep their name but lose their maps
    EventTime maps_until_ns = 0;
    // Numbers of removed images before an exec and of removed threads, both of living processes; the times as
    // `until_ns`.
    std::uint64_t images = 0, threads = 0;
    EventTime images_until_ns = 0, threads_until_ns = 0;
  };
  // Reduces the table to `most_bytes`. First the processes that exited longest ago lose mappings that they share with
  // no other process (much larger than names), then these processes are removed, then the past and the less important
  // mappings and threads of living ones, then living ones: those that no snapshot has samples of before the others.
  // Mappings of living ones are counted in their MapList.
  Evicted shrink(std::size_t most_bytes);
  // Only the first step: all names are kept.
  Evicted strip(std::size_t most_bytes);
  // Names that tasks had, and that were lost because of a limit; takes them.
  [[nodiscard]] PastNames::Lost take_lost_names() { return std::exchange(lost_names_, PastNames::Lost()); }
  // Mappings of which nothing is known any more, since records replaced them; takes the number.
  [[nodiscard]] std::uint64_t take_replaced() { return std::exchange(replaced_, 0); }

  [[nodiscard]] std::uint64_t alive() const { return tally_.alive; }
  [[nodiscard]] std::uint64_t dead() const { return tally_.dead; }
  [[nodiscard]] std::size_t bytes() const;
  // Threads and images that the removal of ended ones has looked at so far: the cost of forget() and shrink().
  [[nodiscard]] std::uint64_t visits() const { return visits_; }

 private:
  using Entry = std::vector<Incarnation>;
  struct Tally {
    std::uint64_t alive = 0, dead = 0;
    std::size_t bytes = 0;
  };
  // Subtracts an entry from the totals, and adds it again after the change.
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
    EventTime time_ns = 0;  // a part of the process ended then
    std::uint32_t pid = 0;
    std::uint32_t parts = 0;  // number of threads and images that ended
  };

  void apply_fork(const TaskRecord& fork, EventTime time_ns);
  void apply_thread(const TaskRecord& fork, EventTime time_ns);
  void apply_exit(const TaskRecord& exit, EventTime time_ns);
  void apply_comm(const CommRecord& comm, EventTime time_ns);
  // A task's last name in an image or in a thread, and the time of that.
  struct Named {
    Comm& comm;
    EventTime from_ns = 0, to_ns = 0;
  };
  void rename(Incarnation& process, const CommRecord& comm, const Named& task, EventTime time_ns);
  void lose_names(Incarnation& process, EventTime before_ns);
  void apply_mmap(const Mmap2Record& map, EventTime time_ns);
  void apply_note(const Note& note, EventTime time_ns);
  Incarnation* find_or_infer(std::uint32_t pid, EventTime time_ns);
  void exec(Incarnation& process, const CommRecord& comm, EventTime time_ns);
  void end(std::uint32_t pid, Incarnation& process, EventTime time_ns);
  void note_end(std::uint32_t pid, EventTime time_ns, std::size_t parts);
  bool drop_maps(const Due& due);
  std::uint64_t prune(const Due& due, EventTime horizon_ns, Evicted* early = nullptr);
  void pass(Incarnation& process, std::size_t parts, EventTime horizon_ns, Evicted* early = nullptr);
  [[nodiscard]] static bool is_sampled(const Entry& entry);
  void shrink_living(std::size_t most_bytes, Evicted& evicted);
  void make_lean(bool sampled, Evicted& evicted);
  void remove_living(bool sampled, std::size_t most_bytes, Evicted& evicted);
  void drop_the_past(Incarnation& process, Evicted& evicted);
  void count_image(EventTime end_ns, Evicted& evicted) const;
  void count_thread(EventTime exit_ns, Evicted& evicted) const;
  [[nodiscard]] static Tally tally(const Entry& entry);

  // before the members that use it
  Meter meter_;
  FilePool files_;
  std::unordered_map<std::uint32_t, Entry> processes_;
  std::deque<Due> due_;  // ascending; ends that the horizon has not passed yet
  EventTime horizon_ns_ = 0;
  EventTime stripped_ns_ = 0;  // processes that exited before have no maps of their own
  Tally tally_;
  std::uint64_t visits_ = 0, replaced_ = 0;
  PastNames::Lost lost_names_;
};

}  // namespace flight
