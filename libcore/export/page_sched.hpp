// SPDX-License-Identifier: Apache-2.0
// Scheduling in the page's payload: which threads waited for a CPU or were blocked, how many were blocked over time,
// and the lanes. page_payload.hpp says where it stands.
//
//   head      "sched": what the file can show, "threads" (the first one is not known), "rows" and "blocked" with their
//             times, "blocked_lane", "cpus", and the numbers of what is in the columns. The times of a state are
//             [how often, ns in all, ns of the longest, its begin, whether it goes on, how many across a hole].
//   columns   of who ran: CPUs; the gap to the end before on the same CPU, the length, the thread
//             of stretches off the CPUs: ns since the begin before, the length, the thread, the state: 0 waits for a
//             CPU, 1 blocked, 2 asleep; with 4 for one across a hole and 8 for one that goes on
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/export/json_pieces.hpp"
#include "libcore/profile/sched.hpp"

namespace flight {

struct PageSched {
  SchedProfile profile;
  std::vector<std::string> notes;  // what is not known, for people
};

class PageSchedPart {
 public:
  // `sched` must outlive it. Times in it become ns from `begin_ns` on.
  PageSchedPart(const PageSched& sched, EventTime begin_ns);

  void write_head(JsonPieces& out) const;
  void write_columns(JsonPieces& out) const;

 private:
  void add(std::uint32_t thread);
  [[nodiscard]] std::uint32_t number_of(std::uint32_t thread) const;
  [[nodiscard]] std::uint64_t since_begin(EventTime time_ns) const {
    return time_ns > begin_ns_ ? time_ns - begin_ns_ : 0;
  }
  void write_threads(JsonPieces& out) const;
  void write_spans(JsonPieces& out, const char* name, const SchedSpans& spans) const;
  void write_row(JsonPieces& out, std::uint32_t thread, const std::vector<SchedInstead>& instead) const;
  void write_cpus(JsonPieces& out) const;

  const PageSched& sched_;
  EventTime begin_ns_;
  std::vector<std::uint32_t> threads_;                        // of the profile, from number 1 on
  std::unordered_map<std::uint32_t, std::uint32_t> numbers_;  // by the thread's number in the profile
};

}  // namespace flight
