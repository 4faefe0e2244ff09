// SPDX-License-Identifier: Apache-2.0
// Gaps in the sideband: a ring was full, or recording was off. What a process did in a gap is unknown, and so is its
// state after the gap until a scan.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

// The name of a process while it is unknown, and of a mapping. perf shows it unchanged; ps shows kernel threads in
// brackets, but no kernel thread has this name.
inline constexpr std::string_view kLostName = "[lost]";

// Marks in a LOST record's trailer, where the kernel writes 0. The record's first number is the time at which the gap
// begins. kLostSince marks the kernel's own record, after Intake has seen it. kOpenGap and kSettledGap mark a gap that
// an earlier tracker knew, before and after its scan. kUnreadInGap marks a process (the trailer's pid) that a scan did
// not read and that is still in doubt.
inline constexpr std::uint32_t kLostSince = 0x45434e53, kOpenGap = 0x4e45504f, kSettledGap = 0x454e4f44,
                               kUnreadInGap = 0x44414552;

struct SidebandGap {
  EventTime begin_ns = 0, end_ns = 0;  // some records with times in this range are missing
  std::uint64_t lost = 0;              // number of records, as counted by the kernel
  bool full = false;                   // a ring was full; otherwise, if no record was lost, recording was off
  std::uint64_t unsure = 0;            // processes that are named kLostName for a part of it
  std::string who;                     // the process that wrote most at that time; empty: unknown
};

// Whether one of `gaps` touches [begin_ns, end_ns].
[[nodiscard]] inline bool has_gap(std::span<const SidebandGap> gaps, EventTime begin_ns, EventTime end_ns) {
  return std::any_of(gaps.begin(), gaps.end(), [begin_ns, end_ns](const SidebandGap& gap) {
    return gap.end_ns >= begin_ns && gap.begin_ns <= end_ns;
  });
}

// Processes that a scan could not read: only for these the gap stays unresolved.
struct Unread {
  struct Left {
    EventTime begin_ns = 0, end_ns = 0;  // of the gap; equal if there was none
    bool in_doubt = true;                // false: only its threads or mappings were not read
  };
  std::unordered_map<std::uint32_t, Left> left;  // by pid

  [[nodiscard]] bool in_doubt() const {
    return std::any_of(left.begin(), left.end(), [](const auto& one) { return one.second.in_doubt; });
  }
};

class Gaps {
 public:
  // Overlapping gaps are merged. A gap of no length and without loss is not kept, but makes a scan due.
  void add(SidebandGap gap);
  // A gap that an earlier tracker has resolved.
  void add_settled(SidebandGap gap);
  // The kernel has reported the number of records that were lost in a known gap.
  void count(EventTime begin_ns, EventTime end_ns, std::uint64_t lost);
  // Sets `who` of the newest gap.
  void blame(std::string who);
  // The unresolved gaps, merged into one.
  [[nodiscard]] const std::optional<SidebandGap>& pending() const { return pending_; }
  // A scan requested at that time resolved the gaps before it, except for `unread`; `unsure`: the number of processes
  // it could not confirm.
  void settle(EventTime asked_ns, std::uint64_t unsure, Unread unread);
  [[nodiscard]] const Unread& unread() const { return unread_; }
  void add_unread(std::uint32_t pid, EventTime begin_ns, EventTime end_ns);
  // The next scan that does not read them is the last: then they are called kLostName for good.
  [[nodiscard]] bool gives_up() const { return tries_ + 1 >= kMostTries; }
  // Names are in doubt until the next scan.
  [[nodiscard]] bool stale() const { return pending_ || unread_.in_doubt(); }
  [[nodiscard]] bool wants_scan() const { return pending_ || !unread_.left.empty(); }
  void forget(EventTime before_ns);
  // Whether records may be missing between these times; true where the gaps of that time are forgotten.
  [[nodiscard]] bool between(EventTime from_ns, EventTime to_ns) const;
  [[nodiscard]] std::span<const SidebandGap> all() const { return all_; }  // ascending

 private:
  static constexpr std::size_t kMostGaps = 256;      // beyond, the oldest are merged
  static constexpr std::size_t kMostUnread = 65536;  // beyond, the gap is open for all again
  static constexpr int kMostTries = 6;               // a minute, with the waits in between doubled each time
  std::vector<SidebandGap> all_;
  EventTime forgotten_ns_ = 0;  // when the last of those that are no longer in `all_` ended
  std::optional<SidebandGap> pending_;
  Unread unread_;
  int tries_ = 0;  // scans since the last gap that left something unread
};

}  // namespace flight
