// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/lives.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/snapshot/known_files.hpp"
#include "libcore/sysinfo/mapped_file.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"

namespace flight {
namespace {

constexpr std::uint32_t kKthreadd = 2;
constexpr std::string_view kUnknownProgram = "[unknown]";
constexpr std::string_view kIdleProgram = "[swapper]";  // the idle tasks: the kernel records no name of them
const std::string kLostText(kLostName);

std::string_view file_name(std::string_view path) {
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path.substr(path.rfind('/') + 1);
}

// "[kworker]" of "kworker/0:1-events".
std::string kernel_thread(std::string_view comm) {
  const std::size_t slash = comm.find('/');
  return fmt::format("[{}]", slash == 0 ? comm : comm.substr(0, slash));
}

}  // namespace

std::uint32_t Texts::id_of(std::string_view text) {
  const auto [entry, added] = ids_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
  if (added) texts_.push_back(&entry->first);
  return entry->second;
}

std::uint32_t Texts::id_apart(const std::string& text) {
  texts_.push_back(&text);
  return static_cast<std::uint32_t>(texts_.size()) - 1;
}

Lives::Lives(const TrackerExport& sideband, const std::unordered_set<std::uint32_t>& sampled, bool own_pid_namespace)
    : sampled_(sampled),
      own_pid_namespace_(own_pid_namespace),
      forgotten_(sideband.names_from_ns != 0 || !sideband.gaps.empty()) {
  static_cast<void>(texts_.id_of(""));  // number 0
  lost_ = texts_.id_apart(kLostText);
  for (const auto* records : {&sideband.prologue, &sideband.log}) {
    std::span<const std::byte> rest(*records);
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      note(record, records == &sideband.log);
      rest = rest.subspan(record.size());
    }
    // Before the log: a child has the program of its parent.
    if (records == &sideband.prologue) note_programs_before(sideband);
  }
  for (const TrackerExport::Program& program : sideband.programs) note_program(program);
  for (const std::uint32_t pid : sampled_) lives_.try_emplace(pid, 1);
  split_outside();
  name_the_rest();
  others_ = {};
  thread_comms_ = {};
}

void Lives::note(std::span<const std::byte> record, bool in_window) {
  switch (load<std::uint32_t>(record.data())) {
    case PERF_RECORD_COMM:
      if (const auto comm = parse_comm(record); comm && comm->pid == comm->tid)
        note_comm(*comm, in_window ? parse_trailer(record)->time_ns : 0);
      else if (comm)
        thread_comms_[comm->tid] = id_of(*comm);
      return;
    case PERF_RECORD_FORK:
      if (const auto task = parse_task(record); task && task->pid == task->tid)
        note_fork(*task, in_window);
      else if (task && in_window)
        thread_comms_[task->tid] = comm_of(task->ppid, task->ptid);
      return;
    case PERF_RECORD_EXIT:
      if (const auto task = parse_task(record); task && task->pid == task->tid)
        others_.erase(task->pid);
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

bool Lives::is_kthreadd(std::uint32_t pid) const { return pid == kKthreadd && !own_pid_namespace_; }

Lives::Other Lives::now_of(std::uint32_t pid) const {
  if (const auto lives = lives_.find(pid); lives != lives_.end()) {
    const Life& life = lives->second.back();
    return {.comm = life.comm, .program = life.program, .kernel = life.kernel};
  }
  const auto other = others_.find(pid);
  return other != others_.end() ? other->second : Other{};
}

std::uint32_t Lives::comm_of(std::uint32_t pid, std::uint32_t tid) const {
  const auto thread = tid != pid ? thread_comms_.find(tid) : thread_comms_.end();
  return thread != thread_comms_.end() ? thread->second : now_of(pid).comm;
}

// `time_ns`: 0 before the window.
void Lives::note_comm(const CommRecord& comm, EventTime time_ns) {
  const std::uint32_t id = id_of(comm);
  const bool expects = comm.exec && !comm.generated;
  if (!sampled_.contains(comm.pid)) {
    Other& other = others_[comm.pid];
    other.comm = id;
    if (comm.exec) other = {.comm = id, .program = 0, .expects_program = expects, .kernel = false};
    return;
  }
  std::vector<Life>& lives = lives_[comm.pid];
  if (lives.empty()) lives.emplace_back();
  if (comm.exec && time_ns != 0) lives.push_back({.begin_ns = time_ns, .process = lives.back().process});
  Life& life = lives.back();
  life.comm = id;
  // A task that executes a program is no kernel thread any more: the kernel starts its usermode helpers as kernel
  // threads (kernel/umh.c).
  if (comm.exec) life.program = 0, life.expects_program = expects, life.kernel = false;
}

// A process has the name of the thread that forked it, until it sets its own, and its program, until an exec.
void Lives::note_fork(const TaskRecord& fork, bool in_window) {
  const std::uint32_t pid = fork.pid;
  const Other parent = now_of(fork.ppid);
  const std::uint32_t comm = comm_of(fork.ppid, fork.ptid);
  // In a generated FORK of a process that was there before: its mappings follow.
  const std::uint32_t program = fork.exec ? 0 : parent.program;
  const bool kernel = is_kthreadd(fork.ppid);
  if (in_window && !sampled_.contains(fork.ppid)) note_forker(fork.ppid, parent);
  if (!sampled_.contains(pid)) {
    if (in_window)
      others_[pid] = {.comm = comm, .program = program, .kernel = kernel};
    else
      others_[pid].kernel = kernel;
    return;
  }
  std::vector<Life>& lives = lives_[pid];
  if (in_window && lives.empty() && forgotten_) lives.emplace_back();  // another process, which is no longer known
  if (in_window || lives.empty())
    lives.push_back({.begin_ns = in_window ? fork.time_ns : 0, .process = static_cast<std::uint32_t>(lives.size())});
  Life& life = lives.back();
  life.kernel = kernel;
  if (in_window) life.comm = comm;
  life.program = in_window ? program : 0;
}

void Lives::note_forker(std::uint32_t pid, const Other& now) {
  KnownForker is{.program = now.program, .kernel = now.program == 0 && (now.kernel || is_kthreadd(pid))};
  if (is.kernel && now.comm != 0 && now.comm != lost_) is.program = texts_.id_of(kernel_thread(texts_[now.comm]));
  if (is.program == 0) return;
  const auto [known, first] = forkers_.try_emplace({pid, now.comm}, is);
  if (!first && known->second.program != is.program) known->second = KnownForker{};
}

void Lives::note_map(std::span<const std::byte> record) {
  const auto header = load<perf_event_header>(record.data());
  const auto pid = load<std::uint32_t>(record.data() + sizeof(perf_event_header));
  const auto found = lives_.find(pid);
  const auto other = found == lives_.end() ? others_.find(pid) : others_.end();
  if (found == lives_.end() && other == others_.end()) return;
  if ((header.misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER)
    (found != lives_.end() ? found->second.back().kernel : other->second.kernel) = false;
  bool& expects = found != lives_.end() ? found->second.back().expects_program : other->second.expects_program;
  const auto trailer = parse_trailer(record);
  if (!expects && (!trailer || trailer->reserved != kProgramMap)) return;
  const auto map = parse_mmap2(record);
  if (!map || !map->name.starts_with('/') || map->name.starts_with("//anon")) return;
  expects = false;
  std::string_view path = map->name;
  // A mark for perf behind the path is not a part of it: with and without the mark it is one program, and one row.
  for (const std::string_view mark : {kNotVerified, kNotTheHosts})
    if (path.ends_with(mark)) path.remove_suffix(mark.size());
  (found != lives_.end() ? found->second.back().program : other->second.program) = texts_.id_of(path);
}

void Lives::note_program(const TrackerExport::Program& program) {
  const auto found = lives_.find(program.pid);
  if (found == lives_.end()) return;
  Life& life = found->second[number_at(program.pid, program.from_ns)];
  life.kernel = false;
  if (life.program == 0 && program.path != kUnreadProgram) life.program = texts_.id_of(program.path);
}

void Lives::note_programs_before(const TrackerExport& sideband) {
  const auto first = next_record(sideband.log);
  const auto trailer = first.empty() ? std::nullopt : parse_trailer(first);
  for (const TrackerExport::Program& program : sideband.programs) {
    if (trailer && program.from_ns >= trailer->time_ns) continue;
    note_program(program);
    const auto other = others_.find(program.pid);
    if (other == others_.end()) continue;
    other->second.kernel = false;
    if (other->second.program == 0 && program.path != kUnreadProgram)
      other->second.program = texts_.id_of(program.path);
  }
}

// Names the processes that have no executable: kernel threads, and those outside of this PID namespace.
void Lives::name_the_rest() {
  for (auto& [pid, lives] : lives_) {
    for (Life& life : lives) {
      life.kernel = (life.kernel || is_kthreadd(pid)) && life.program == 0;
      if (pid == 0 && life.comm == 0)
        life.program = texts_.id_of(kIdleProgram);
      else if (pid == 0 || pid == kKernelPid)
        life.program = life.comm;
      else if (life.kernel && has_name(life))
        life.program = texts_.id_of(kernel_thread(texts_[life.comm]));
    }
  }
}

Lives::KnownForker Lives::forker(std::uint32_t pid, std::uint32_t comm) const {
  const auto found = forkers_.find({pid, comm});
  return found != forkers_.end() ? found->second : KnownForker{};
}

bool Lives::has_several(std::uint32_t pid) const {
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

// Two lives that differ by the mode of their samples, not by time.
void Lives::split_outside() {
  const auto outside = lives_.find(0);
  if (outside == lives_.end() || texts_[outside->second.back().comm] != kOutsideOrIdle) return;
  const std::uint32_t name = texts_.id_of(kOutsideName);
  const auto number = static_cast<std::uint32_t>(outside->second.size());
  outside->second.push_back({.begin_ns = ~EventTime{0}, .process = number, .comm = name, .program = name});
}

std::uint32_t Lives::number_of(bool in_program, std::uint32_t pid, EventTime time_ns) const {
  if (pid == 0 && in_program) return static_cast<std::uint32_t>(lives_.at(pid).size()) - 1;
  return number_at(pid, time_ns);
}

const Lives::Life* Lives::find(std::uint32_t pid, std::uint32_t number) const {
  const auto found = lives_.find(pid);
  return found != lives_.end() && number < found->second.size() ? &found->second[number] : nullptr;
}

const Lives::Life* Lives::newest_of(std::uint32_t pid, std::uint32_t number) const {
  const Life* out = find(pid, number);
  for (const Life* next = out; next != nullptr && next->process == out->process; next = find(pid, ++number)) out = next;
  return out;
}

const std::string& Lives::path_of(std::uint64_t cgroup) const {
  static const std::string kNone;
  const auto found = cgroups_.find(cgroup);
  return found != cgroups_.end() ? found->second : kNone;
}

std::uint32_t Lives::unit_of(std::uint64_t cgroup) {
  const auto [known, added] = unit_of_cgroup_.try_emplace(cgroup, 0);
  if (added) known->second = unit_of_path(path_of(cgroup));
  return known->second;
}

CgroupName Lives::no_unit() { return {.unit = "", .container = "", .label = "", .path = "/"}; }

CgroupName Lives::unknown_unit() {
  return {.unit = std::string(kUnknownUnit), .container = "", .label = std::string(kUnknownUnit), .path = ""};
}

std::uint32_t Lives::unit_of_path(const std::string& cgroup) {
  if (cgroup.empty()) return kUnitUnknown;
  CgroupName name = name_of_cgroup(cgroup);
  if (name.label.empty()) return kNoUnit;
  const auto [known, first] = unit_of_path_.try_emplace(name.path, static_cast<std::uint32_t>(units_.size()));
  if (first) units_.push_back(std::move(name));
  return known->second;
}

std::string Lives::comm_text(std::uint32_t pid, const Life& life) const {
  if (life.comm != 0) return texts_[life.comm];
  return pid == 0 ? "swapper" : fmt::format(":{}", pid);
}

NamedBy Lives::named_by(std::uint32_t pid, const Life& life) const {
  if (pid == 0 || pid == kKernelPid || !has_name(life)) return NamedBy::flightd;
  return life.kernel ? NamedBy::kernel : NamedBy::process;
}

std::string Lives::program_text(std::uint32_t program) const {
  if (program == 0) return std::string(kUnknownProgram);
  const std::string& text = texts_[program];
  const std::string_view name = text.starts_with('/') ? file_name(text) : text;
  return std::string(name.starts_with('[') ? text : name);  // only a kernel thread looks like one
}

std::string Lives::program_path(std::uint32_t program) const {
  return texts_[program].starts_with('/') ? texts_[program] : std::string();
}

}  // namespace flight
