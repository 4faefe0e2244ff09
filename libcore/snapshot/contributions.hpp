// SPDX-License-Identifier: Apache-2.0
// The samples of each process in each cgroup and ring, as one flat list: it is sorted by process, unit or program, and
// equal ones are summed. 40 bytes each, so that a storm of 100,000 short-lived processes needs little memory.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/snapshot/lives.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

struct Contribution {
  std::uint32_t pid = 0, life = 0, process = 0;  // as in Lives
  std::uint32_t program = 0, unit = 0;
  std::uint32_t ring = 0;
  // Samples without one count for the newest cgroup of their process. 0: none of its samples has one, or it is not one
  // process.
  std::uint64_t cgroup = 0;
  const RingSelection::Tally* tally = nullptr;
};

// The sum of several of them.
struct Share {
  RingSelection::Count window, before, now;
  double cpus_before = 0, cpus_now = 0;
  std::map<int, RingSelection::Count> cpus;
};

class Contributions {
 public:
  // Keeps references to `selection`. all() is sorted by process.
  Contributions(const Selection& selection, const Manifest& manifest, const std::vector<std::size_t>& channel_rings,
                Lives& lives);

  [[nodiscard]] std::vector<Contribution>& all() { return all_; }
  [[nodiscard]] Share sum(std::span<const Contribution> some) const;

  // The samples that count: those of SamplingEvents, if there are any.
  [[nodiscard]] std::uint64_t of(const RingSelection::Count& count) const {
    return by_sampled_ ? count.sampled : count.samples;
  }
  // Values in CPUs exist only if cpu-clock is the only sampling event.
  [[nodiscard]] bool cpus_before() const {
    return in_cpus_ && recorded_between(compared_.before_begin_ns, compared_.now_begin_ns) > 0;
  }
  [[nodiscard]] bool cpus_now() const {
    return in_cpus_ && recorded_between(compared_.now_begin_ns, compared_.now_end_ns) > 0;
  }
  [[nodiscard]] const RingSelection::Count& all_window() const { return window_; }
  [[nodiscard]] const RingSelection::Count& all_before() const { return before_; }
  [[nodiscard]] const RingSelection::Count& all_now() const { return now_; }

 private:
  // The number of CPUs for which one sample of a ring stands; 0: unknown.
  struct Worth {
    int cpu = 0;
    double before = 0, now = 0;
  };
  // 0: too little of it, or nothing.
  [[nodiscard]] EventTime recorded_between(EventTime begin_ns, EventTime end_ns) const;
  [[nodiscard]] Worth worth_of(const RingSelection& ring, int cpu, std::uint64_t frequency) const;
  void add_lives(const RingSelection& ring, std::uint32_t number, const Lives& lives);
  void name(Lives& lives);

  SidecarCompared compared_;
  std::span<const Pause> pauses_;
  bool in_cpus_ = false;
  std::vector<Worth> worth_;  // by ring
  std::vector<Contribution> all_;
  std::deque<RingSelection::Tally> own_;  // of pids with several lives
  bool by_sampled_ = false;
  RingSelection::Count window_, before_, now_;
};

}  // namespace flight
