// SPDX-License-Identifier: Apache-2.0
// Processes that mapped so much executable memory, or gave their tasks so many names, that not all of it was kept, as
// Intake reports them. Private to sideband.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

class Floods {
 public:
  static constexpr std::size_t kMost = 1024;  // beyond, the oldest are only counted
  static constexpr std::size_t kListed = 8;   // by name

  struct Flood {
    std::uint32_t pid = 0;
    std::uint64_t left_out = 0;  // mappings or names
    EventTime begin_ns = 0, end_ns = 0;
    bool renames = false;
  };
  // Call it with ascending times for each process.
  void add(const Flood& flood);
  void forget(EventTime before_ns);
  // The names of their processes at their ends, in the same order.
  using Names = std::function<std::vector<std::string>(std::span<const Flood> floods)>;
  // For a person: those with the most, and the number of the others. Calls `names` once at most.
  [[nodiscard]] std::vector<std::string> texts(EventTime begin_ns, EventTime end_ns, const Names& names) const;
  [[nodiscard]] const std::vector<Flood>& all() const { return all_; }

 private:
  static constexpr EventTime kOneNs = 10'000'000'000;  // a pause of this length ends a flood
  std::vector<Flood> all_;                             // ascending in their beginning
};

}  // namespace flight
