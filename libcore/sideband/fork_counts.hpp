// SPDX-License-Identifier: Apache-2.0
// Counts forked processes by time and parent. Private to sideband, except for ForkCount. In a fork storm the log
// covers only seconds, less than a window. So the forks whose records leave the log are counted here, in time slices.
//
//   slice 0.1 s   sh[12] 290 │ make[7] 3        at most 16 forkers each; the rest of a slice has no name
//   slice 0.1 s   sh[12] 301                    too many slices: two are merged, twice as long
//
// A shell's loop forks through short-lived subshells: such a fork counts for the shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

struct ForkCount {
  EventTime begin_ns = 0, end_ns = 0;  // [begin, end); equal: exactly at that time
  std::uint32_t pid = 0;               // 0: several, or unknown
  Comm comm{};
  std::uint64_t count = 0;
};

class ForkCounts {
 public:
  static constexpr std::size_t kMaxSlices = 1024;
  static constexpr std::size_t kMaxForkers = 16;  // named in a slice

  void add(EventTime time_ns, std::uint32_t pid, const Comm& comm);
  void forget(EventTime before_ns);
  [[nodiscard]] std::vector<ForkCount> all() const;  // ascending by time

 private:
  struct Forker {
    std::uint32_t pid = 0;
    Comm comm{};
    std::uint64_t count = 0;
  };
  using Slice = std::vector<Forker>;
  static void count(Slice& slice, const Forker& forker);
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

struct Forker {
  std::uint32_t pid = 0;
  Comm comm{};
};
// The process for which a fork by `pid` counts: the nearest ancestor that is not a short-lived copy of its parent.
[[nodiscard]] Forker forker_of(std::uint32_t pid, EventTime time_ns, const FindForker& find);
// nullopt: it is not known who had this number then.
[[nodiscard]] std::optional<ForkerLife> forker_in(const ProcessTable& table, std::uint32_t pid, EventTime time_ns);

// Counts the FORK records of the log in [begin, end] that are about processes, not threads.
[[nodiscard]] std::vector<ForkCount> forks_in(const RecordLog& log, const ProcessTable& table, EventTime begin_ns,
                                              EventTime end_ns);

}  // namespace flight
