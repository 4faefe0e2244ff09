// SPDX-License-Identifier: Apache-2.0
// Who ran instead of a thread that waited for a CPU: what ran on the CPU on which it waited. That is the one on which
// it was preempted, or for which it was woken. When the kernel moved it to another CPU is not recorded.
//
//   CPU 1:   |--- a ---|--- b ---|--- a ---|
//                  ^ w is preempted        ^ w runs: instead of it, b ran, and a before and after that
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

struct SchedInstead {
  std::uint32_t thread = 0;  // its number, as in SchedReplay
  std::uint64_t ns = 0;
};

class SchedWaits {
 public:
  static constexpr std::uint32_t kNobody = UINT32_MAX;  // an idle task, or it is not known
  static constexpr std::size_t kMostOthers = 4096;      // of one thread; more are not counted

  // Of these threads, the waits that are between the two times.
  SchedWaits(const std::vector<std::uint32_t>& threads, EventTime begin_ns, EventTime end_ns);

  // From this time on, `thread` runs on the CPU. If `thread_before_is_known`, the one before did up to now.
  void runs(std::uint32_t cpu, std::uint32_t thread, EventTime time_ns, bool thread_before_is_known);
  // Waits on this CPU from now on, and until then. Others than those of the constructor are ignored.
  void waits(std::uint32_t thread, std::uint32_t cpu, EventTime time_ns);
  void stops(std::uint32_t thread, EventTime time_ns);
  void finish();

  // The most first, at most `most`.
  [[nodiscard]] std::vector<SchedInstead> instead_of(std::uint32_t thread, std::size_t most) const;

 private:
  struct Waiting {
    std::uint32_t thread = 0;
    EventTime since_ns = 0;
  };
  struct Cpu {
    std::uint32_t runs = kNobody;
    EventTime since_ns = 0;
    std::vector<Waiting> waiting;
  };
  struct Chosen {
    bool waits = false;
    std::uint32_t cpu = 0;
    std::unordered_map<std::uint32_t, std::uint64_t> others;
  };
  void count(const Waiting& waiting, const Cpu& cpu, EventTime until_ns);

  EventTime begin_ns_, end_ns_;
  std::unordered_map<std::uint32_t, Chosen> chosen_;
  std::vector<Cpu> cpus_;
};

}  // namespace flight
