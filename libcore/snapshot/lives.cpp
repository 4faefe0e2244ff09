// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/lives.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::size_t kWholeComm = 15;  // a comm of this length may be truncated (TASK_COMM_LEN in linux/sched.h)
constexpr std::size_t kMaxProgram = 64;
constexpr std::uint32_t kKernelThreadsParent = 2;  // kthreadd
constexpr std::string_view kUnknownProgram = "[unknown]";

std::string_view file_name(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::uint32_t Texts::id_of(std::string_view text) {
  const auto [entry, added] = ids_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
  if (added) texts_.push_back(&entry->first);
  return entry->second;
}

Lives::Lives(const TrackerExport& sideband, const std::unordered_set<std::uint32_t>& sampled)
    : sampled_(sampled), forgotten_(sideband.names_from_ns != 0 || !sideband.gaps.empty()) {
  static_cast<void>(texts_.id_of(""));  // number 0
  for (const auto* records : {&sideband.prologue, &sideband.log}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      note(record, records == &sideband.log);
      rest = rest.subspan(record.size());
    }
  }
  for (const std::uint32_t pid : sampled_) lives_.try_emplace(pid, 1);
  other_comms_ = {};
  thread_comms_ = {};
}

void Lives::note(std::span<const std::byte> record, bool in_window) {
  switch (load<std::uint32_t>(record.data())) {
    case PERF_RECORD_COMM:
      if (const auto comm = parse_comm(record); comm && comm->pid == comm->tid)
        note_comm(comm->pid, comm->name);
      else if (comm)
        thread_comms_[comm->tid] = texts_.id_of(comm->name);
      return;
    case PERF_RECORD_FORK:
      if (const auto task = parse_task(record); task && task->pid == task->tid)
        note_fork(*task, in_window);
      else if (task && in_window)
        thread_comms_[task->tid] = comm_of(task->ppid, task->ptid);
      return;
    case PERF_RECORD_EXIT:
      if (const auto task = parse_task(record); task && task->pid == task->tid)
        other_comms_.erase(task->pid);
      else if (task)
        thread_comms_.erase(task->tid);
      return;
    case PERF_RECORD_MMAP2:
      return note_map(record);
    case PERF_RECORD_CGROUP:
      if (const auto cgroup = parse_cgroup(record)) cgroups_[cgroup->id] = cgroup->path;
      return;
    default:
      return;
  }
}

std::uint32_t Lives::comm_of(std::uint32_t pid) const {
  if (const auto lives = lives_.find(pid); lives != lives_.end()) return lives->second.back().comm;
  const auto other = other_comms_.find(pid);
  return other != other_comms_.end() ? other->second : 0;
}

std::uint32_t Lives::comm_of(std::uint32_t pid, std::uint32_t tid) const {
  const auto thread = tid != pid ? thread_comms_.find(tid) : thread_comms_.end();
  return thread != thread_comms_.end() ? thread->second : comm_of(pid);
}

std::uint32_t Lives::shortened(const Life& life) {
  const std::string& comm = texts_[life.comm];
  const std::size_t slash = life.kernel ? comm.find('/') : std::string::npos;
  return slash == std::string::npos || slash == 0 ? life.comm : texts_.id_of(std::string(comm.substr(0, slash)));
}

void Lives::note_comm(std::uint32_t pid, std::string_view name) {
  const std::uint32_t comm = texts_.id_of(name);
  if (!sampled_.contains(pid)) {
    other_comms_[pid] = comm;
    return;
  }
  std::vector<Life>& lives = lives_[pid];
  if (lives.empty()) lives.emplace_back();
  lives.back().comm = comm;
  lives.back().program = shortened(lives.back());
}

// A process has the name of the thread that forked it, until it sets its own.
void Lives::note_fork(const TaskRecord& fork, bool in_window) {
  const std::uint32_t pid = fork.pid, parent = fork.ppid;
  const std::uint32_t comm = comm_of(parent, fork.ptid);
  if (!sampled_.contains(pid)) {
    if (in_window) other_comms_[pid] = comm;
    return;
  }
  std::vector<Life>& lives = lives_[pid];
  if (in_window && lives.empty() && forgotten_) lives.emplace_back();  // another process, which is no longer known
  if (in_window || lives.empty()) lives.push_back({.begin_ns = in_window ? fork.time_ns : 0});
  Life& life = lives.back();
  life.kernel = parent == kKernelThreadsParent;
  if (in_window) life.comm = comm;
  if (const auto of_parent = lives_.find(parent); in_window && of_parent != lives_.end() && parent != pid)
    life.program = of_parent->second.back().program;
  else if (in_window && fork.ptid != parent)
    life.program = comm_of(parent);  // a thread's name is no program
  else
    life.program = shortened(life);
}

// The kernel truncates a name; the executable's name is complete.
void Lives::note_map(std::span<const std::byte> record) {
  const auto found = lives_.find(load<std::uint32_t>(record.data() + sizeof(perf_event_header)));
  if (found == lives_.end()) return;
  Life& life = found->second.back();
  const std::string& comm = texts_[life.comm];
  if (life.program != life.comm || comm.size() != kWholeComm) return;
  const auto map = parse_mmap2(record);
  if (!map) return;
  const std::string_view name = file_name(map->name);
  if (name.size() > comm.size() && name.size() <= kMaxProgram && name.starts_with(comm))
    life.program = texts_.id_of(name);
}

bool Lives::taken_again(std::uint32_t pid) const {
  const auto found = lives_.find(pid);
  return found != lives_.end() && found->second.size() > 1;
}

std::uint32_t Lives::number_at(std::uint32_t pid, EventTime time_ns) const {
  const auto found = lives_.find(pid);
  if (found == lives_.end()) return 0;
  const std::vector<Life>& all = found->second;
  const auto after = std::upper_bound(all.begin(), all.end(), time_ns,
                                      [](EventTime time, const Life& life) { return time < life.begin_ns; });
  return after == all.begin() ? 0 : static_cast<std::uint32_t>(after - all.begin()) - 1;
}

const Lives::Life* Lives::find(std::uint32_t pid, std::uint32_t number) const {
  const auto found = lives_.find(pid);
  return found != lives_.end() && number < found->second.size() ? &found->second[number] : nullptr;
}

const std::string& Lives::path_of(std::uint64_t cgroup) const {
  static const std::string kNone;
  const auto found = cgroups_.find(cgroup);
  return found != cgroups_.end() ? found->second : kNone;
}

void Lives::set_cgroup(std::uint32_t pid, std::uint32_t number, std::uint64_t cgroup) {
  const auto found = lives_.find(pid);
  if (found == lives_.end() || number >= found->second.size()) return;
  const auto [known, added] = unit_of_cgroup_.try_emplace(cgroup, 0);
  if (added) known->second = unit_of_path(path_of(cgroup));
  found->second[number].unit = known->second;
}

std::uint32_t Lives::unit_of_path(const std::string& cgroup) {
  CgroupName name = name_of_cgroup(cgroup);
  if (name.label.empty()) return 0;
  const auto [known, first] = unit_of_path_.try_emplace(name.path, static_cast<std::uint32_t>(units_.size()));
  if (first) units_.push_back(std::move(name));
  return known->second;
}

std::string Lives::comm_text(std::uint32_t pid, const Life& life) const {
  if (life.comm != 0) return texts_[life.comm];
  return pid == 0 ? "swapper" : fmt::format(":{}", pid);
}

std::string Lives::program_text(std::uint32_t program) const {
  return program != 0 ? texts_[program] : std::string(kUnknownProgram);
}

}  // namespace flight
