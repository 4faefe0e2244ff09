// SPDX-License-Identifier: Apache-2.0
// What clear_up() knows and writes (doubt.hpp); private to doubt.cpp, which decides, and doubt_records.cpp, which
// writes the records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/doubt.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/scan.hpp"

namespace flight {

// The name of a task in the log after the gap.
struct Renamed {
  EventTime first_ns = 0;  // 0: never
  EventTime exec_ns = 0;
};

// A process of which only the EXIT is known.
struct Unseen {
  std::uint32_t pid = 0, parent = 0;
  EventTime exit_ns = 0;
};

class Doubter {
 public:
  Doubter(const DoubtScope& scope, EventTime asked_ns, bool give_up, const RecordLog& log)
      : scope_(scope), asked_(asked_ns), give_up_(give_up), log_(log) {}

  void learn(const Scan* scan, const ProcessTable& table);
  void assess(const ScannedProcess& process);
  void doubt_the_ended();
  void doubt_everybody();
  void end_absent(bool all_listed);
  void repair_children(const std::vector<ScannedProcess>& scan);
  void doubt_names_in_between();
  [[nodiscard]] Doubts take();

 private:
  [[nodiscard]] Renamed renamed(std::uint32_t tid) const {
    const auto found = renamed_.find(tid);
    return found == renamed_.end() ? Renamed{} : found->second;
  }
  [[nodiscard]] static Trailer at(std::uint32_t pid, std::uint32_t tid, EventTime time_ns) {
    return {pid, tid, time_ns};
  }
  void put_comm(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, std::string_view name, bool exec) {
    append_comm(out_.additions, {pid, tid, name, exec, exec}, at(pid, tid, time_ns));
  }
  void put_lost_comm(EventTime time_ns, std::uint32_t pid, std::uint32_t tid) {
    append_comm(out_.additions, {.pid = pid, .tid = tid, .name = kLostName, .lost = true}, at(pid, tid, time_ns));
  }
  void put_end(EventTime time_ns, std::uint32_t pid, const Incarnation& known);
  void put_lost(EventTime time_ns, std::uint32_t pid, std::uint32_t parent);
  void put_rest(EventTime time_ns, const ScannedProcess& process);
  void put_threads(EventTime time_ns, const ScannedProcess& process);
  void put_maps(EventTime time_ns, const ScannedProcess& process);
  void begin_anew(const ScannedProcess& process, EventTime from_ns);
  void confirm(const ScannedProcess& process, const Incarnation& known);
  void find_dropped(const ScannedProcess& process, const Incarnation& known);
  void confirm_threads(const ScannedProcess& process, const Incarnation& known);
  void doubt(std::uint32_t pid, const Incarnation& known);
  void note_unseen(std::span<const std::byte> exit, EventTime time_ns);
  void leave_open(std::uint32_t pid, bool in_doubt);
  [[nodiscard]] EventTime begin_of(std::uint32_t pid) const { return scope_.begin_ns(pid); }
  [[nodiscard]] EventTime end_of(std::uint32_t pid) const { return scope_.end_ns(pid); }

  const DoubtScope& scope_;
  EventTime asked_;
  bool give_up_;
  const RecordLog& log_;
  ProcessTable now_;  // the current state: the whole log was replayed
  std::unordered_set<std::uint32_t> scanned_, unsure_;
  std::unordered_set<std::uint32_t> nameless_;          // still named kLostName at the end of the gap
  std::unordered_map<std::uint32_t, Renamed> renamed_;  // by tid
  std::vector<Unseen> unseen_;
  Doubts out_;
};

}  // namespace flight
