// SPDX-License-Identifier: Apache-2.0
// When switches of a CPU can be missing: the holes that a sidecar has of the rings with the switches. A thread that was
// off the CPUs across such a time can have run in it, on that CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

class SchedHoles {
 public:
  static constexpr std::size_t kMostHoles = 1U << 17U;

  SchedHoles() = default;
  // `records`: how many switches and wake-ups each CPU has in the file. A channel whose ring has fewer samples than
  // that is another one, and its holes do not count. If the sidecar has no rings, all holes count.
  SchedHoles(const Sidecar& sidecar, std::span<const std::uint64_t> records);

  [[nodiscard]] bool any_in(EventTime begin_ns, EventTime end_ns) const { return overlaps(all_, begin_ns, end_ns); }
  [[nodiscard]] bool any_on(std::uint32_t cpu, EventTime begin_ns, EventTime end_ns) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }
  // The CPU with the most missing time of the stretch, and how much.
  [[nodiscard]] std::pair<std::uint32_t, std::uint64_t> worst(EventTime begin_ns, EventTime end_ns) const;

 private:
  using Stretches = std::vector<std::pair<EventTime, EventTime>>;  // ascending, apart from each other
  [[nodiscard]] static Stretches merged(Stretches stretches);
  [[nodiscard]] static bool overlaps(const Stretches& stretches, EventTime begin_ns, EventTime end_ns);

  Stretches all_;  // of any CPU
  std::map<std::uint32_t, Stretches> of_cpu_;
  std::uint64_t count_ = 0;
};

}  // namespace flight
