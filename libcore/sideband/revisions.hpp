// SPDX-License-Identifier: Apache-2.0
// How often scans have changed what is known about the past, and from when on. A file that is being written has its
// names as of one revision; what a later scan says about times that the file has already is not in the newer records
// of the log. Private to sideband.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "libcore/base/clock.hpp"

namespace flight {

class Revisions {
 public:
  static constexpr EventTime kNever = ~EventTime{0};

  // The next revision: what is known of the times from `from_ns` on has changed.
  void add(EventTime from_ns) { from_ns_[++number_ % kKept] = from_ns; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // The earliest time that has changed since revision `seen`; kNever: nothing has.
  [[nodiscard]] EventTime changed_from_ns(std::uint64_t seen) const {
    if (seen >= number_) return kNever;
    if (number_ - seen > kKept) return 0;
    EventTime out = kNever;
    for (std::uint64_t number = seen + 1; number <= number_; ++number) out = std::min(out, from_ns_[number % kKept]);
    return out;
  }

 private:
  static constexpr std::size_t kKept = 64;
  std::uint64_t number_ = 0;
  std::array<EventTime, kKept> from_ns_{};
};

}  // namespace flight
