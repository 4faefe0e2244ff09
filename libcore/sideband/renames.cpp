// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/renames.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "libcore/sideband/gaps.hpp"

namespace flight {
namespace {

void put_name(std::uint32_t pid, std::uint32_t tid, EventTime time_ns, std::string_view name, RecordBuffer& additions) {
  append_comm(additions, {.pid = pid, .tid = tid, .name = name}, {.pid = pid, .tid = tid, .time_ns = time_ns});
}

void put_lost_name(std::uint32_t pid, std::uint32_t tid, EventTime time_ns, RecordBuffer& additions) {
  append_comm(additions, {.pid = pid, .tid = tid, .name = kLostName, .lost = true},
              {.pid = pid, .tid = tid, .time_ns = time_ns});
}

}  // namespace

void Renames::drop(const CommRecord& comm, EventTime time_ns, EventTime began_ns, RecordBuffer& additions) {
  const auto [place, is_new] = open_.try_emplace(comm.tid);
  Open& task = place->second;
  if (is_new) {
    task.changes[began_ns] = false;
    for (const Kept& one : kept_)
      if (one.tid == comm.tid) task.changes[one.time_ns] = false;
  }
  const auto next = task.changes.upper_bound(time_ns);
  if (next == task.changes.begin() || !std::prev(next)->second) {
    if (next != task.changes.end() && next->second) task.changes.erase(next);  // it is lost since earlier
    task.changes[time_ns] = true;
    put_lost_name(comm.pid, comm.tid, time_ns, additions);
  }
  note_dropped(task, comm.name, time_ns);
}

void Renames::note_dropped(Open& task, std::string_view name, EventTime time_ns) {
  if (time_ns >= task.last_ns) {
    task.last_ns = time_ns;
    task.last = {};
    std::copy_n(name.begin(), std::min(name.size(), task.last.size() - 1), task.last.begin());
  }
  ++left_out;
  left_out_ns = std::max(left_out_ns, time_ns);
}

Renames::Lost Renames::lost_at(std::uint32_t tid, EventTime time_ns) {
  const auto place = open_.find(tid);
  if (place == open_.end()) return {};
  const auto& changes = place->second.changes;
  const auto next = changes.upper_bound(time_ns);
  if (next == changes.begin() || !std::prev(next)->second) return {};
  return {.task = &place->second,
          .from_ns = std::prev(next)->first,
          .until_ns = next == changes.end() ? ~EventTime{0} : next->first};
}

void Renames::drop_in(const Lost& lost, std::string_view name, EventTime time_ns) {
  note_dropped(*lost.task, name, time_ns);
}

void Renames::exec(std::uint32_t pid, EventTime time_ns, RecordBuffer& additions) {
  const auto place = open_.find(pid);
  if (place == open_.end()) return keep(pid, time_ns);
  Open& task = place->second;
  task.changes[time_ns] = false;
  if (task.last_ns <= time_ns) return;
  task.changes[time_ns + 1] = true;
  put_lost_name(pid, pid, time_ns + 1, additions);
}

void Renames::put_back(std::uint32_t pid, EventTime complete_ns, RecordBuffer& additions) {
  std::erase_if(kept_, [complete_ns](const Kept& one) { return one.time_ns < complete_ns; });
  std::erase_if(open_, [&](const auto& one) {
    const auto& [tid, task] = one;
    if (task.last_ns + kQuietNs > complete_ns) return false;
    put_name(pid, tid, task.last_ns, task.last.data(), additions);
    return true;
  });
}

}  // namespace flight
