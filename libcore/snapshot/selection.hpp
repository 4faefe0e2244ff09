// SPDX-License-Identifier: Apache-2.0
// Selects the content of the file from the images of one capture: walks every ring, chooses the window, finds its
// blackouts, and lists the processes whose sideband is needed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/capture/capture.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/ring_walk.hpp"
#include "libcore/snapshot/worker_pool.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// The requested window, on the events' clock.
struct WindowRequest {
  EventTime begin_ns = 0;         // 0: everything in the rings
  EventTime end_ns = UINT64_MAX;  // UINT64_MAX: until the freeze
};

// Why the newest part of the window is compared with the rest.
struct ChangeRequest {
  EventTime since_ns = 0;                    // when the trigger's condition began; 0: no trigger condition
  EventTime recorded_until_ns = UINT64_MAX;  // nothing was recorded after this time
};

// One time a ring was paused for a capture.
struct Blackout {
  EventTime begin_ns = 0, end_ns = 0;
};
// For every ring, in the rings' order, oldest first.
using BlackoutLog = std::vector<std::vector<Blackout>>;

// Recording was switched off, on all CPUs.
struct Pause {
  EventTime begin_ns = 0, end_ns = UINT64_MAX;
};

// The same whatever the window is.
struct WalkedRing {
  int cpu = 0;
  RingImage image;
  WalkResult walk;
  EventTime covers_from_ns = 0;  // the ring is complete from this time on
};

struct RingSelection : WalkedRing {
  std::size_t first = 0, last = 0;  // walk.records [first, last) are in the window
  std::uint64_t samples = 0;        // PERF_RECORD_SAMPLEs among those
  std::uint64_t record_bytes = 0;   // of all records among those
  std::uint64_t copied_bytes = 0;   // of these, copies of registers and stacks, which no file gets
  struct Count {
    std::uint64_t samples = 0;  // all events
    std::uint64_t sampled = 0;  // only SamplingEvents: shares of CPU time
  };
  // A process can move to another cgroup: what it did before belongs to the unit that it was in then.
  struct Source {
    std::uint32_t pid = 0;
    std::uint64_t cgroup = 0;  // the kernel's id; 0: the samples have none

    friend bool operator==(const Source&, const Source&) = default;
  };
  struct SourceHash {
    std::size_t operator()(const Source& source) const {
      return std::hash<std::uint64_t>{}(source.cgroup * 0x9e3779b97f4a7c15U ^ source.pid);
    }
  };
  struct Tally {
    Count window, before, now;  // before and now: of the two stretches that are compared
    EventTime newest_ns = 0;
    std::uint32_t source = 0;  // its number in `sources`

    void add(const SidecarCompared& compared, EventTime time_ns, bool sampled);
  };
  // The samples in this ring's part of the window. There are at most as many of them as samples.
  std::unordered_map<Source, Tally, SourceHash> tallies;
  std::unordered_set<std::uint32_t> tids;
  std::vector<Source> sources;  // those of tallies, in the order of their first samples
  // Whose a sample is, for the steps that come after the tracker's export. 8 bytes, half of a RecordRef.
  class Task {
   public:
    Task() = default;  // of what is no sample, or has no fields that can be read
    Task(std::uint32_t tid, std::uint32_t source, bool in_program, bool sampled)
        : tid_(tid), packed_(source << 2U | (in_program ? 2U : 0U) | (sampled ? 1U : 0U)) {}

    [[nodiscard]] bool is_known() const { return packed_ != kUnknown; }
    [[nodiscard]] std::uint32_t tid() const { return tid_; }
    [[nodiscard]] std::uint32_t source() const { return packed_ >> 2U; }   // sources[source()]
    [[nodiscard]] bool in_program() const { return (packed_ & 2U) != 0; }  // PERF_RECORD_MISC_USER
    [[nodiscard]] bool sampled() const { return (packed_ & 1U) != 0; }     // counts for Count::sampled

   private:
    // No source has this number: a ring has at most 4 GiB, and a sample more than 16 bytes.
    static constexpr std::uint32_t kUnknown = UINT32_MAX;
    std::uint32_t tid_ = 0, packed_ = kUnknown;
  };
  std::vector<Task> tasks;  // of all records in the window
  [[nodiscard]] const Task& task_of(std::size_t record) const { return tasks[record - first]; }  // walk.records[record]
  std::vector<std::uint32_t> lost;  // walk.records[lost[i]] are the LOST records in the window, ascending
  // Where a sample was taken in its program, for unmapped_leaves.hpp: what is code is known only after the tracker's
  // export, which needs the pids. 16 bytes, like RecordRef.
  struct Leaf {
    std::uint64_t ip = 0;
    std::uint32_t pid = 0;
    std::uint32_t record = 0;  // walk.records[record]
  };
  std::vector<Leaf> leaves;  // of the samples in user mode, in the order of time; none if no event has callchains
};

struct Selection {
  EventTime begin_ns = 0, end_ns = 0, common_begin_ns = 0;
  SidecarCompared compared;
  std::vector<Pause> pauses;  // ascending; also such that are not in the window
  std::vector<RingSelection> rings;
  std::vector<SidecarHole> holes;
  std::uint64_t samples = 0;
  EventTime first_sample_ns = 0, last_sample_ns = 0;
  // The pids and tids of the samples. They are separate sets: a number may have been an exited process's pid and be the
  // tid of another process's thread in the window.
  std::unordered_set<std::uint32_t> pids, tids;
  std::unordered_set<std::uint64_t> cgroups;
};

// Ids and layouts of a recording.
[[nodiscard]] EventTable event_table(const Manifest& manifest);

// `channel_rings`: manifest.rings index of each image's ring. Walks on the workers and waits.
[[nodiscard]] std::vector<WalkedRing> walk_rings(const std::vector<RingImage>& images, const Manifest& manifest,
                                                 const std::vector<std::size_t>& channel_rings,
                                                 const EventTable& events, EventTime frozen_ns, WorkerPool& workers);
// Selects from `walked`, which is walk_rings() or take_walked(), on the workers and waits.
[[nodiscard]] Selection select_from(std::vector<WalkedRing> walked, const Manifest& manifest,
                                    const std::vector<std::size_t>& channel_rings, const EventTable& events,
                                    const WindowRequest& request, EventTime frozen_ns, const BlackoutLog& blackouts,
                                    WorkerPool& workers, const ChangeRequest& change = {});
// For another window. Nothing else can be done with `selection` then.
[[nodiscard]] std::vector<WalkedRing> take_walked(Selection& selection);
// Walks and selects.
[[nodiscard]] Selection select(const std::vector<RingImage>& images, const Manifest& manifest,
                               const std::vector<std::size_t>& channel_rings, const EventTable& events,
                               const WindowRequest& request, EventTime frozen_ns, const BlackoutLog& blackouts,
                               WorkerPool& workers, const ChangeRequest& change = {});

}  // namespace flight
