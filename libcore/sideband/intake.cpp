// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/intake.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/notes.hpp"

namespace flight {
namespace {

constexpr EventTime kSecondNs = 1'000'000'000;
// A process that wrote at least this part of what its group wrote (its ancestor with all its children) is named
// itself.
constexpr std::uint64_t kOfGroup = 4;
constexpr int kMostGenerations = 8;  // from a process to the ancestor for which it counts
// Layout of a sideband record: header 8, then u32 pid, u32 tid or, for FORK and EXIT, u32 ppid. For MMAP2 see
// intake_maps.cpp.
constexpr std::size_t kBodyOffset = 8, kLeastMmap2 = 72;

}  // namespace

void Intake::sift(RecordBuffer& records, EventTime now_ns, EventTime complete_ns) {
  if (now_ns - second_ns_ >= kSecondNs) next_second(now_ns);
  std::size_t kept = 0;
  std::size_t done = 0;
  for (auto record = next_record(records); !record.empty(); record = next_record(std::span(records).subspan(done))) {
    const std::size_t size = record.size();
    note_time(std::span(records).subspan(done, size));
    if (keep(record)) {
      if (kept != done) std::memmove(records.data() + kept, records.data() + done, size);
      kept += size;
    }
    done += size;
  }
  if (kept != done)
    records.erase(records.begin() + static_cast<std::ptrdiff_t>(kept),
                  records.begin() + static_cast<std::ptrdiff_t>(done));
  if (const EventTime from_ns = std::exchange(lost_from_ns_, ~EventTime{0}); from_ns != ~EventTime{0})
    put_back_since(from_ns);
  put_names_back(complete_ns);
  report_floods();
  records.insert(records.end(), additions_.begin(), additions_.end());
  additions_.clear();
}

void Intake::note_time(std::span<std::byte> record) {
  const auto trailer = parse_trailer(record);
  if (!trailer || trailer->cpu >= kMostCpus) return;
  if (trailer->cpu >= last_of_cpu_.size()) last_of_cpu_.resize(trailer->cpu + 1);
  CpuRecord& last = last_of_cpu_[trailer->cpu];
  const EventTime last_ns = last.time_ns;
  if (trailer->reserved == 0 && lost_fields(record)) lost(last_ns, trailer->time_ns);
  if (last_ns != 0 && trailer->reserved == 0 && lost_fields(record)) {
    std::memcpy(record.data() + sizeof(perf_event_header), &last_ns, sizeof last_ns);
    std::memcpy(record.data() + record.size() - sizeof(Trailer) + offsetof(Trailer, reserved), &kLostSince,
                sizeof kLostSince);
  }
  last = {.time_ns = trailer->time_ns, .id = trailer->id};
}

EventTime Intake::last_of(std::uint32_t cpu) const { return cpu < last_of_cpu_.size() ? last_of_cpu_[cpu].time_ns : 0; }

// Processes without records for a second are removed.
void Intake::next_second(EventTime now_ns) {
  const bool long_ago = now_ns - second_ns_ >= 2 * kSecondNs;
  second_ns_ = now_ns;
  all_before_ = long_ago ? 0 : all_now_;
  all_now_ = 0;
  for (auto one = processes_.begin(); one != processes_.end();) {
    Process& process = one->second;
    process.before = long_ago ? 0 : process.now;
    process.now = 0;
    process.maps_now = 0;
    process.names_now = 0;
    process.cgroups_now = 0;
    if (process.before != 0 || process.has_open_names()) {
      ++one;
      continue;
    }
    free(process);
    one = processes_.erase(one);
  }
}

void Intake::free(const Process& process) {
  for (const Mapping& mapping : process.mappings) spare_bytes_ -= mapping.spare_bytes();
}

bool Intake::keep(std::span<const std::byte> record) {
  const auto header = load<perf_event_header>(record.data());
  if (record.size() < kBodyOffset + 16 + sizeof(Trailer)) return true;
  if (header.type == PERF_RECORD_CGROUP) return keep_cgroup(record);
  if (header.type != PERF_RECORD_FORK && header.type != PERF_RECORD_EXIT && header.type != PERF_RECORD_COMM &&
      header.type != PERF_RECORD_MMAP2)
    return true;
  const auto pid = load<std::uint32_t>(record.data() + kBodyOffset);
  if (processes_.size() >= kMostProcesses && !processes_.contains(pid)) forget_all();
  Process& process = processes_[pid];
  ++process.now;
  ++all_now_;
  if (header.type == PERF_RECORD_MMAP2 && (header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER &&
      record.size() >= kLeastMmap2 + sizeof(Trailer))
    return keep_map(record, pid, process);
  const auto task = parse_task(record);
  const bool another = header.type == PERF_RECORD_COMM ? (header.misc & PERF_RECORD_MISC_COMM_EXEC) != 0
                                                       : task && task->pid == task->tid;
  if (!another) return header.type != PERF_RECORD_COMM || keep_name(record, pid, process);
  const EventTime time_ns = parse_trailer(record)->time_ns;
  if (header.type == PERF_RECORD_COMM && process.renames) process.renames->exec(pid, time_ns, additions_);
  begin_anew(pid, process, time_ns);
  if (header.type == PERF_RECORD_FORK) process.parent = task->ppid;
  return true;
}

// After one name of a task was dropped, all its names are dropped until it is quiet. Otherwise a name that was kept in
// between would seem to hold until then.
bool Intake::keep_name(std::span<const std::byte> record, std::uint32_t pid, Process& process) {
  const auto comm = parse_comm(record);
  if (!comm) return true;
  const bool is_open = process.renames && process.renames->is_open(comm->tid);
  if (!process.renames) process.renames = std::make_unique<Renames>();
  if (!is_open && (++process.names_now <= kNamesPerSecond || open_names_ >= kMostOpenNames)) {
    process.renames->keep(comm->tid, parse_trailer(record)->time_ns);
    return true;
  }
  const bool first = process.renames->left_out == 0;
  process.renames->drop(*comm, parse_trailer(record)->time_ns, process.began_ns, additions_);
  if (first) renaming_.push_back(pid);
  open_names_ += is_open ? 0 : 1;
  return false;
}

// Of a path that is dropped nothing is lost but the name: no other cgroup of this boot has the same id.
bool Intake::keep_cgroup(std::span<const std::byte> record) {
  const Trailer trailer = *parse_trailer(record);
  if (processes_.size() >= kMostProcesses && !processes_.contains(trailer.pid)) forget_all();
  Process& process = processes_[trailer.pid];
  ++process.now;
  ++all_now_;
  if (++process.cgroups_now <= kCgroupsPerSecond) return true;
  ++cgroups_left_out_;
  cgroups_left_out_ns_ = std::max(cgroups_left_out_ns_, trailer.time_ns);
  doubted_ns_ = std::max(doubted_ns_, trailer.time_ns);
  return false;
}

void Intake::put_names_back(EventTime complete_ns) {
  open_names_ = 0;
  for (auto& [pid, process] : processes_) {
    if (!process.renames) continue;
    process.renames->put_back(pid, complete_ns, additions_);
    open_names_ += process.renames->count_open();
  }
}

// There are too many. Repetitions whose exec may still come are put back.
void Intake::forget_all() {
  put_names_back(~EventTime{0});
  report_floods();
  for (auto& [pid, process] : processes_)
    for (Mapping& mapping : process.mappings)
      if (mapping.spare) put_back(pid, process, mapping);
  processes_.clear();
  spare_bytes_ = 0;
}

void Intake::lost(EventTime begin_ns, EventTime end_ns) {
  complete_from_ns_ = std::max(complete_from_ns_, end_ns);
  lost_from_ns_ = std::min(lost_from_ns_, std::max<EventTime>(begin_ns, 1));
}

void Intake::report_floods() {
  for (const std::uint32_t pid : flooding_) {
    const auto found = processes_.find(pid);
    if (found == processes_.end() || !found->second.flood) continue;
    Flood& flood = *found->second.flood;
    record_doubts(pid, found->second);
    append_note(additions_, {.kind = NoteKind::flood, .pid = pid, .count = flood.left_out},
                {.pid = pid, .tid = pid, .time_ns = flood.left_out_ns});
    flood.left_out = 0;
  }
  flooding_.clear();
  for (const std::uint32_t pid : renaming_) {
    const auto found = processes_.find(pid);
    if (found == processes_.end() || !found->second.renames) continue;
    Renames& renames = *found->second.renames;
    append_note(additions_, {.kind = NoteKind::renames, .pid = pid, .count = std::exchange(renames.left_out, 0)},
                {.pid = pid, .tid = pid, .time_ns = renames.left_out_ns});
  }
  renaming_.clear();
  if (cgroups_left_out_ == 0) return;
  append_note(additions_, {.kind = NoteKind::cgroups, .count = std::exchange(cgroups_left_out_, 0)},
              {.time_ns = cgroups_left_out_ns_});
}

void Intake::looking() {
  for (auto& [pid, process] : processes_)
    if (process.flood) process.flood->doubted.forget_recorded();
}

Intake::Loudest Intake::loudest() const {
  // The process that wrote most, alone and including all its children.
  std::unordered_map<std::uint32_t, std::uint64_t> records;
  Loudest alone{.pid = 0, .records = 0, .all = all_now_ + all_before_};
  for (const auto& [pid, process] : processes_) {
    if (process.now + process.before > alone.records) {
      alone.pid = pid;
      alone.records = process.now + process.before;
    }
    std::uint32_t who = pid;
    for (int i = 0; i < kMostGenerations; ++i) {
      const auto found = processes_.find(who);
      if (found == processes_.end() || found->second.parent == 0 || found->second.parent == who) break;
      who = found->second.parent;
    }
    records[who] += process.now + process.before;
  }
  Loudest out{.pid = 0, .records = 0, .all = all_now_ + all_before_};
  for (const auto& [pid, count] : records)
    if (count > out.records) out = {.pid = pid, .records = count, .all = out.all};
  return kOfGroup * alone.records >= out.records ? alone : out;
}

}  // namespace flight
