// SPDX-License-Identifier: Apache-2.0
// Counts forked processes by time and parent. Private to sideband, except for ForkCount. In a fork storm the log
// covers only seconds, less than a window. So the forks whose records leave the log are counted here, in time slices.
//
//   slice 0.1 s   sh[12] 290 │ make[7] 3        at most 16 forkers each; the rest of a slice has no name
//   slice 0.1 s   sh[12] 301                    too many slices: two are merged, twice as long
//
// A shell's loop forks through short-lived subshells: such a fork counts for the shell. The sideband does not have the
// cgroup of a process, so a child that was started in another one, or moved there, looks the same. Who has the samples
// decides (libcore/snapshot/inherited_units.hpp): so each fork has both the process and the shell, and in a slice the
// forks by copies of a process are apart from its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

// A copy that has not lived for longer may be a subshell.
inline constexpr EventTime kShortLivedNs = 1'000'000'000;

struct ForkCount {
  EventTime begin_ns = 0, end_ns = 0;  // [begin, end); equal: exactly at that time
  std::uint32_t pid = 0;               // 0: several, or unknown
  Comm comm{};
  std::uint64_t count = 0;
  // If the process seems to be a subshell: the shell, of which it is a copy that has lived for a moment. Nothing that
  // is recorded can have moved it since its fork. 0: it is none.
  std::uint32_t shell = 0;
  Comm shell_comm{};
};

// A process that forks. `shell` as in ForkCount.
struct Forker {
  std::uint32_t pid = 0;
  Comm comm{};
  std::uint32_t shell = 0;
  Comm shell_comm{};
};

class ForkCounts {
 public:
  static constexpr std::size_t kMaxSlices = 1024;
  static constexpr std::size_t kMaxForkers = 16;  // named in a slice

  void add(EventTime time_ns, const Forker& forker);
  void forget(EventTime before_ns);
  [[nodiscard]] std::vector<ForkCount> all() const;  // ascending by time

 private:
  struct Row {
    std::uint32_t pid = 0;
    Comm comm{};
    std::uint64_t count = 0, by_copies = 0;  // its own, and those of what seem to be its subshells
  };
  using Slice = std::vector<Row>;
  static void count(Slice& slice, const Row& row);
  void widen();

  EventTime width_ns_ = 100'000'000;
  std::map<EventTime, Slice> slices_;  // by begin time
};

// A process that forks, as the tracker knows it at the time of the fork.
struct ForkerLife {
  EventTime start_ns = 0;
  std::uint32_t parent = 0;
  Comm comm{};
  bool copied = false;  // as in Incarnation
};
using FindForker = std::function<std::optional<ForkerLife>(std::uint32_t pid, EventTime time_ns)>;
// Whether a process may have been moved to another cgroup in that time: one was made, or records were lost.
using MayMove = std::function<bool(EventTime from_ns, EventTime to_ns)>;

// Its shell is the nearest ancestor that is not a short-lived copy of its parent, or may have moved its child.
[[nodiscard]] Forker forker_of(std::uint32_t pid, EventTime time_ns, const FindForker& find, const MayMove& may_move);
// nullopt: it is not known who had this number then.
[[nodiscard]] std::optional<ForkerLife> forker_in(const ProcessTable& table, std::uint32_t pid, EventTime time_ns);

// Counts the FORK records of the log in [begin, end] that are about processes, not threads. `made_ns`: when the last
// cgroup was made whose record is no longer in the log.
[[nodiscard]] std::vector<ForkCount> forks_in(const RecordLog& log, const ProcessTable& table, const Gaps& gaps,
                                              EventTime made_ns, EventTime begin_ns, EventTime end_ns);

}  // namespace flight
