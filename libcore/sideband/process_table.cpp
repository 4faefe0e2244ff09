// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/process_table.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/gaps.hpp"
#include "libcore/sideband/notes.hpp"

namespace flight {
namespace {

// Threads are sorted by (tid, start). Returns a thread's position, or where to insert it.
std::vector<Thread>::iterator place_of(std::vector<Thread>& threads, std::uint32_t tid, EventTime start_ns) {
  return std::lower_bound(threads.begin(), threads.end(), start_ns, [tid](const Thread& thread, EventTime start) {
    return thread.tid != tid ? thread.tid < tid : thread.start_ns < start;
  });
}

Thread* thread_at(Incarnation& process, std::uint32_t tid, EventTime time_ns) {
  auto next = place_of(process.threads, tid, time_ns + 1);
  if (next == process.threads.begin() || (next - 1)->tid != tid) return nullptr;
  return &*(next - 1);
}

}  // namespace

const Thread* Incarnation::find_thread(std::uint32_t tid) const {
  auto next = std::upper_bound(threads.begin(), threads.end(), tid,
                               [](std::uint32_t wanted, const Thread& thread) { return wanted < thread.tid; });
  return next == threads.begin() || (next - 1)->tid != tid ? nullptr : &*(next - 1);
}

Comm Incarnation::comm_of(std::uint32_t tid) const {
  const Thread* thread = find_thread(tid);
  return thread == nullptr ? image.comm : thread->comm;
}

ProcessTable::Tally ProcessTable::tally(const Entry& entry) {
  Tally sum;
  if (entry.empty()) return sum;  // it is being inserted or removed
  sum.bytes = kHashNodeBytes + entry.capacity() * sizeof(Incarnation);
  for (const Incarnation& process : entry) {
    ++(process.alive() ? sum.alive : sum.dead);
    sum.bytes +=
        process.past.capacity() * sizeof(Image) + process.threads.capacity() * sizeof(Thread) + process.names.bytes();
  }
  return sum;
}

std::size_t ProcessTable::bytes() const {
  return meter_.bytes + files_.bytes() + tally_.bytes + due_.size() * sizeof(Due);
}

void ProcessTable::apply(std::span<const std::byte> record, EventTime time_ns) {
  switch (load<perf_event_header>(record.data()).type) {
    case PERF_RECORD_FORK:
      if (const auto fork = parse_task(record))
        fork->pid == fork->tid ? apply_fork(*fork, time_ns) : apply_thread(*fork, time_ns);
      return;
    case PERF_RECORD_EXIT:
      if (const auto exit = parse_task(record)) apply_exit(*exit, time_ns);
      return;
    case PERF_RECORD_COMM:
      if (const auto comm = parse_comm(record)) apply_comm(*comm, time_ns);
      return;
    case PERF_RECORD_MMAP2:
      if (const auto map = parse_mmap2(record)) apply_mmap(*map, time_ns);
      return;
    case kNoteRecord:
      if (const auto note = parse_note(record)) apply_note(*note, time_ns);
      return;
    default:
      return;
  }
}

Incarnation* ProcessTable::find(std::uint32_t pid, EventTime time_ns) {
  const auto entry = processes_.find(pid);
  if (entry == processes_.end()) return nullptr;
  for (auto process = entry->second.rbegin(); process != entry->second.rend(); ++process)
    if (process->start_ns <= time_ns) return &*process;
  return nullptr;
}

std::span<const Incarnation> ProcessTable::of(std::uint32_t pid) const {
  const auto entry = processes_.find(pid);
  return entry == processes_.end() ? std::span<const Incarnation>{} : std::span(entry->second);
}

void ProcessTable::for_each(const std::function<void(std::uint32_t pid, std::span<const Incarnation>)>& visit) const {
  for (const auto& [pid, entry] : processes_) visit(pid, entry);
}

void ProcessTable::apply_fork(const TaskRecord& fork, EventTime time_ns) {
  Incarnation child;
  child.start_ns = time_ns;
  child.parent = fork.ppid;
  child.image.from_ns = time_ns;
  // A FORK with PERF_RECORD_MISC_FORK_EXEC copies no mappings, in the process tracker as in perf. The kernel never
  // sets the flag in a ring; a checkpoint sets it for each process whose mappings follow.
  if (Incarnation* parent = fork.exec ? nullptr : find(fork.ppid, time_ns);
      parent != nullptr && fork.ppid != fork.pid) {
    child.image.comm = parent->comm_of(fork.ptid);
    child.image.maps = parent->image.maps;
    child.image.program = parent->image.program;
    child.copied = true;
  }
  add(fork.pid, std::move(child));
}

void ProcessTable::add(std::uint32_t pid, Incarnation&& incarnation) {
  if (pid == 0 || pid == kKernelPid) return;  // the idle task and the kernel's own maps
  const EventTime start = incarnation.start_ns;
  Entry& entry = processes_[pid];
  {
    const Accounted accounted(*this, entry);
    // A scan found the process before its FORK was drained: the FORK is more precise. If its parent is not known, only
    // the scan has the name and the mappings: those of now, or of an exec that follows.
    const bool is_nameless =
        incarnation.origin == Origin::kFork && name_of(incarnation.image.comm).empty() && !incarnation.image.maps;
    std::erase_if(entry, [&](const Incarnation& known) {
      const bool same = known.origin == Origin::kScan && known.alive() && known.start_ns <= start + kStartToleranceNs &&
                        start <= known.start_ns + kStartToleranceNs;
      if (same && is_nameless) {
        incarnation.image.comm = known.image.comm;
        incarnation.image.maps = known.image.maps;
        incarnation.image.program = known.image.program;
        incarnation.names = known.names;
      }
      return same;
    });
    auto next = std::upper_bound(entry.begin(), entry.end(), start,
                                 [](EventTime time, const Incarnation& known) { return time < known.start_ns; });
    // The EXIT between the two was lost or is late.
    if (next != entry.end() && incarnation.alive()) end(pid, incarnation, next->start_ns);
    if (next != entry.begin() && (next - 1)->alive()) end(pid, *(next - 1), start);
    const auto place = next - entry.begin();
    // Most pids have one or two entries: growing by half of the size keeps a hundred thousand exited ones small.
    if (entry.size() == entry.capacity()) entry.reserve(entry.size() + 1 + entry.size() / 4);
    entry.insert(entry.begin() + place, std::move(incarnation));
  }
  if (entry.size() > 1) prune({.time_ns = 0, .pid = pid, .parts = 0}, horizon_ns_);
}

void ProcessTable::apply_thread(const TaskRecord& fork, EventTime time_ns) {
  Incarnation* process = find(fork.pid, time_ns);
  if (process == nullptr || !process->alive()) return;
  const Accounted accounted(*this, processes_[fork.pid]);
  if (Thread* known = thread_at(*process, fork.tid, time_ns); known != nullptr && known->exit_ns == 0) {
    known->exit_ns = time_ns;  // its EXIT was lost, or a scan reported it first
    --process->live_threads;
    note_end(fork.pid, time_ns, 1);
  }
  const Comm comm = process->comm_of(fork.ptid);
  process->threads.insert(place_of(process->threads, fork.tid, time_ns), Thread{fork.tid, comm, time_ns, 0});
  ++process->live_threads;
}

void ProcessTable::apply_exit(const TaskRecord& exit, EventTime time_ns) {
  Incarnation* process = find(exit.pid, time_ns);
  if (process == nullptr) return;
  if (!process->alive()) {
    // Reported after a gap: it may have exited earlier than assumed.
    if (exit.tid == exit.pid && time_ns < process->exit_ns) process->exit_ns = std::max<EventTime>(time_ns, 1);
    return;
  }
  {
    const Accounted accounted(*this, processes_[exit.pid]);
    if (exit.tid == exit.pid) {
      process->leader_exit_ns = time_ns;
    } else {
      Thread* thread = thread_at(*process, exit.tid, time_ns);
      if (thread == nullptr || thread->exit_ns != 0) return;
      --process->live_threads;
      thread->exit_ns = time_ns;
      if (time_ns < horizon_ns_)
        pass(*process, 1, horizon_ns_);
      else
        note_end(exit.pid, time_ns, 1);
    }
    if (process->leader_exit_ns == 0 || process->live_threads > 0) return;
    end(exit.pid, *process, time_ns);
  }
  if (time_ns < horizon_ns_) prune({.time_ns = time_ns, .pid = exit.pid, .parts = 0}, horizon_ns_);
}

void ProcessTable::end(std::uint32_t pid, Incarnation& process, EventTime time_ns) {
  process.exit_ns = std::max<EventTime>(time_ns, 1);
  if (time_ns < horizon_ns_) return;  // the caller prunes
  note_end(pid, time_ns, 0);
  process.threads.shrink_to_fit();
  if (process.image.maps && process.image.maps.use_count() == 1) process.image.maps->shrink();
}

Incarnation* ProcessTable::find_or_infer(std::uint32_t pid, EventTime time_ns) {
  if (pid == 0 || pid == kKernelPid) return nullptr;
  if (Incarnation* process = find(pid, time_ns)) return process;
  const auto entry = processes_.find(pid);
  if (entry != processes_.end()) {
    Incarnation& first = entry->second.front();
    if (first.origin == Origin::kFork)
      return nullptr;  // the record is about an earlier process that is no longer known
    first.start_ns = time_ns;
    return &first;
  }
  Incarnation unknown;
  unknown.start_ns = unknown.image.from_ns = time_ns;
  unknown.origin = Origin::kInferred;
  add(pid, std::move(unknown));
  return find(pid, time_ns);
}

void ProcessTable::apply_comm(const CommRecord& comm, EventTime time_ns) {
  Incarnation* process = find_or_infer(comm.pid, time_ns);
  if (process == nullptr) return;
  if (!process->alive_at(time_ns)) {
    if (!comm.exec) return;
    Incarnation next;  // its FORK was lost: an exited process does not exec
    next.start_ns = next.image.from_ns = time_ns;
    next.image.comm = to_comm(comm);
    next.origin = Origin::kInferred;
    next.expects_program = !comm.generated;
    return add(comm.pid, std::move(next));
  }
  if (comm.exec) return exec(*process, comm, time_ns);
  if (comm.tid == comm.pid) {
    const auto [image, to_ns] = image_at(*process, time_ns);
    rename(*process, comm, {image->comm, image->from_ns, to_ns}, time_ns);
    process->copied = false;
    return;
  }
  if (Thread* thread = thread_at(*process, comm.tid, time_ns)) {
    const EventTime to_ns = thread->exit_ns != 0 ? thread->exit_ns : ~EventTime{0};
    return rename(*process, comm, {thread->comm, thread->start_ns, to_ns}, time_ns);
  }
  if (!process->alive() || time_ns < process->image.from_ns) return;  // late: an exec has ended it since then
  const Accounted accounted(*this, processes_[comm.pid]);
  process->threads.insert(place_of(process->threads, comm.tid, time_ns), Thread{comm.tid, to_comm(comm), time_ns, 0});
  ++process->live_threads;
}

// A window may begin before this rename if the record is folded early: then the name until now is kept. One that is not
// known is taken for the new one, as in a scan. The record can be late, and an exec or a later rename be known.
void ProcessTable::rename(Incarnation& process, const CommRecord& comm, const Named& task, EventTime time_ns) {
  const Comm now = to_comm(comm);
  Comm& then = process.names.at(comm.tid, time_ns, task.comm, task.to_ns);
  if (time_ns < task.from_ns && !name_of(then).empty()) return;  // before the oldest image that is known
  if (time_ns < horizon_ns_ || time_ns <= task.from_ns || now == then || name_of(then).empty()) {
    then = now;
    return;
  }
  const Accounted accounted(*this, processes_[comm.pid]);
  const PastNames::Lost lost = process.names.rename(comm.tid, time_ns, task.comm, now, task.to_ns);
  lost_names_.count += lost.count;
  lost_names_.until_ns = std::max(lost_names_.until_ns, lost.until_ns);
  note_end(comm.pid, time_ns, 1);
}

// An exec replaces the memory and leaves one thread, which has the process' number (execve(2)).
void ProcessTable::exec(Incarnation& process, const CommRecord& comm, EventTime time_ns) {
  if (time_ns < process.image.from_ns) return;  // late: a later one was applied already
  const Accounted accounted(*this, processes_[comm.pid]);
  const std::size_t ended = std::size_t{process.live_threads} + 1;  // and the image
  if (process.live_threads > 0)
    for (Thread& thread : process.threads)
      if (thread.exit_ns == 0) thread.exit_ns = time_ns;
  process.live_threads = 0;
  process.unnamed_threads = 0;
  process.leader_exit_ns = 0;
  process.copied = false;
  if (time_ns < horizon_ns_) {
    process.past.clear();
    process.threads.clear();
    process.names = PastNames();
    process.passed = 0;
  } else {
    process.past.push_back(std::move(process.image));
    note_end(comm.pid, time_ns, ended);
  }
  process.image = Image{.from_ns = time_ns, .comm = to_comm(comm), .maps = nullptr, .program = nullptr};
  process.expects_program = !comm.generated;
}

void ProcessTable::apply_mmap(const Mmap2Record& map, EventTime time_ns) {
  if (map.cpumode != PERF_RECORD_MISC_USER) return;
  Incarnation* process = find_or_infer(map.pid, time_ns);
  if (process == nullptr || !process->alive_at(time_ns)) return;
  const auto [image, to_ns] = image_at(*process, time_ns);
  if (time_ns < image->from_ns) return;  // late: an exec has unmapped it since then
  const ProcessMap made = make_map(map, time_ns);
  const bool is_last = image == &process->image;
  const bool first = is_last && process->expects_program && map.name.starts_with('/') && is_file(made);
  if (first) process->expects_program = false;
  if (first || map.is_program) image->program = made.file;
  if (map.bytes != 0) replaced_ += writable(image->maps, meter_).insert(made);
}

void ProcessTable::apply_note(const Note& note, EventTime time_ns) {
  if (note.kind != NoteKind::maps && note.kind != NoteKind::unnamed) return;
  Incarnation* process = find(note.pid, time_ns);
  if (process == nullptr || !process->alive_at(time_ns)) return;
  if (note.kind == NoteKind::maps)
    writable(process->image.maps, meter_).add_forgotten(note.count);
  else
    process->unnamed_threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(note.count, UINT32_MAX));
}

ProcessMap ProcessTable::make_map(const Mmap2Record& record, EventTime since_ns) {
  return {record.address,    record.bytes, record.page_offset,   since_ns,
          record.protection, record.flags, files_.intern(record)};
}

SharedMaps ProcessTable::make_maps(std::span<const Mmap2Record> records, EventTime since_ns) {
  SharedMaps maps;
  for (const Mmap2Record& record : records) writable(maps, meter_).insert(make_map(record, since_ns));
  return maps;
}

void ProcessTable::remove(std::uint32_t pid, EventTime start_ns) {
  const auto place = processes_.find(pid);
  if (place == processes_.end()) return;
  {
    const Accounted accounted(*this, place->second);
    std::erase_if(place->second, [start_ns](const Incarnation& known) { return known.start_ns == start_ns; });
  }
  if (place->second.empty()) processes_.erase(place);
}

void ProcessTable::borrow(std::uint32_t pid, std::span<const Incarnation> incarnations) {
  if (incarnations.empty()) return;
  Entry& entry = processes_[pid];
  const Accounted accounted(*this, entry);
  entry.assign(incarnations.begin(), incarnations.end());
}

void ProcessTable::change(std::uint32_t pid, EventTime time_ns, const std::function<void(Incarnation&)>& change) {
  Incarnation* process = find(pid, time_ns);
  if (process == nullptr) return;
  const Accounted accounted(*this, processes_[pid]);
  change(*process);
}

}  // namespace flight
