// SPDX-License-Identifier: Apache-2.0
// The processes whose names the next scan has to confirm, and the time from which they are in doubt. After a gap these
// are all processes. Processes that the scan after an earlier gap did not read are in doubt since that gap. Private to
// sideband.
//
//          gap      scan that reads no 7       gap       scan
//   ──────┬─ ─ ─┬──────────┬───────────────┬─ ─ ─ ─ ─┬─────┬──
//         │                                ╰ all but 7     │
//         ╰ 7                                              │
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "libcore/sideband/gaps.hpp"

namespace flight {

class DoubtScope {
 public:
  // `gap`, `unread`: only the part before `asked_ns` counts. `unread` must live as long.
  DoubtScope(const std::optional<SidebandGap>& gap, const Unread& unread, EventTime asked_ns);
  [[nodiscard]] bool concerns_all() const { return gap_begin_ != kNever; }
  [[nodiscard]] bool concerns_nobody() const { return !concerns_all() && unread_count_ == 0; }
  [[nodiscard]] bool concerns(std::uint32_t pid) const { return concerns_all() || open(pid) != nullptr; }
  // The range of a process that is concerned; begin <= end.
  [[nodiscard]] EventTime begin_ns(std::uint32_t pid) const;
  [[nodiscard]] EventTime end_ns(std::uint32_t pid) const;
  // The range of all processes.
  [[nodiscard]] EventTime first_begin_ns() const { return first_; }
  [[nodiscard]] EventTime last_end_ns() const { return last_; }
  [[nodiscard]] std::size_t unread_count() const { return unread_count_; }

 private:
  static constexpr EventTime kNever = ~EventTime{0};
  [[nodiscard]] const Unread::Left* open(std::uint32_t pid) const;

  const Unread& unread_;
  std::size_t unread_count_ = 0;  // processes among them with missing records
  EventTime asked_, gap_begin_ = kNever, gap_end_ = 0, first_ = kNever, last_ = 0;
};

}  // namespace flight
