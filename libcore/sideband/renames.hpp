// SPDX-License-Identifier: Apache-2.0
// The tasks of one process that got more names than are kept: prctl(PR_SET_NAME) in a loop writes some 100,000 COMM
// records a second. From the first name that is dropped a task is called kLostName; its last name is put back when it
// has been quiet and every ring has been read since. Private to sideband.
//
//   names  A      B  C  D … Y  Z                 (quiet)
//   log    A      [lost]       Z, put back later, with its own time
//
// Rings are read one after the other, so a name that is dropped can be older than one that was kept: then kLostName
// begins again behind the kept one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

class Renames {
 public:
  static constexpr EventTime kQuietNs = 50'000'000;

  // A task whose names are being dropped.
  struct Open {
    std::map<EventTime, bool> changes;  // in the log; true: to kLostName
    EventTime last_ns = 0;
    std::array<char, 16> last{};  // NUL-terminated
  };

  // A name is in the log.
  void keep(std::uint32_t tid, EventTime time_ns) { kept_.push_back({tid, time_ns}); }
  // An exec's name, which is always kept: names that were dropped may have followed it.
  void exec(std::uint32_t pid, EventTime time_ns, RecordBuffer& additions);
  // Drops a name; `additions` gets what the log needs instead. `began_ns`: the process's last exec or FORK.
  void drop(const CommRecord& comm, EventTime time_ns, EventTime began_ns, RecordBuffer& additions);
  // Whether names of this task are being dropped.
  [[nodiscard]] bool is_open(std::uint32_t tid) const { return open_.contains(tid); }
  [[nodiscard]] std::size_t count_open() const { return open_.size(); }
  // A time in which a task is called kLostName: one more name of that time changes only which one is put back. Valid
  // until another function is called; null: there is none.
  struct Lost {
    Open* task = nullptr;
    EventTime from_ns = 0, until_ns = 0;
  };
  [[nodiscard]] Lost lost_at(std::uint32_t tid, EventTime time_ns);
  // As drop(), for a time in `lost`.
  void drop_in(const Lost& lost, std::string_view name, EventTime time_ns);
  // No older record than `complete_ns` will come: puts back the last names of the tasks that are quiet.
  void put_back(std::uint32_t pid, EventTime complete_ns, RecordBuffer& additions);

  std::uint64_t left_out = 0;  // names, since the last note
  EventTime left_out_ns = 0;

 private:
  struct Kept {
    std::uint32_t tid = 0;
    EventTime time_ns = 0;
  };
  void note_dropped(Open& task, std::string_view name, EventTime time_ns);
  std::vector<Kept> kept_;                        // a dropped name may be older
  std::unordered_map<std::uint32_t, Open> open_;  // by tid
};

}  // namespace flight
