// SPDX-License-Identifier: Apache-2.0
// The records about a process that was in doubt.
#include <algorithm>
#include <unordered_set>

#include "libcore/sideband/doubter.hpp"
#include "libcore/sideband/scanned_changes.hpp"

namespace flight {

void Doubter::put_end(EventTime time_ns, std::uint32_t pid, const Incarnation& known) {
  for (const Thread& thread : known.threads)
    if (thread.exit_ns == 0 || thread.exit_ns > time_ns)
      append_exit(out_.additions, {pid, pid, thread.tid, pid, time_ns}, at(pid, thread.tid, time_ns));
  append_exit(out_.additions, {pid, known.parent, pid, known.parent, time_ns}, at(pid, pid, time_ns));
}

// Writes a process of which only the existence is known. The flag: it has none of its parent's mappings.
void Doubter::put_lost(EventTime time_ns, std::uint32_t pid, std::uint32_t parent) {
  append_fork(out_.additions, {pid, parent, pid, parent, time_ns, true}, at(pid, pid, time_ns));
  put_lost_comm(time_ns, pid, pid);
  unsure_.insert(pid);
}

void Doubter::put_threads(EventTime time_ns, const ScannedProcess& process) {
  for (const ScannedThread& thread : process.threads) {
    append_fork(out_.additions, {process.pid, process.pid, thread.tid, process.pid, time_ns},
                at(process.pid, thread.tid, time_ns));
    if (renamed(thread.tid).first_ns != 0)
      put_lost_comm(time_ns, process.pid, thread.tid);
    else
      put_comm(time_ns, process.pid, thread.tid, thread.comm, false);
  }
}

// The scan's facts are valid from the end of the gap on, because the log is complete from there, unless the log has
// something later, which is then what the scan saw. It writes a FORK, not an exec, so that the time before does not
// count as the same process.
void Doubter::put_rest(EventTime time_ns, const ScannedProcess& process) {
  const Renamed later = renamed(process.pid);
  if (later.first_ns != 0) nameless_.insert(process.pid);
  if (later.exec_ns != 0) return;
  append_exit(out_.additions, {process.pid, process.parent, process.pid, process.parent, time_ns},
              at(process.pid, process.pid, time_ns));
  append_fork(out_.additions, {process.pid, process.parent, process.pid, process.parent, time_ns, true},
              at(process.pid, process.pid, time_ns));
  if (later.first_ns != 0)
    put_lost_comm(time_ns, process.pid, process.pid);
  else
    put_comm(time_ns, process.pid, process.pid, process.comm, false);
  put_maps(time_ns, process);
  put_threads(time_ns, process);
  note_unnamed_threads(process, Incarnation(), time_ns, out_.additions);
}

// Also the executable that no mapping shows: it covers nothing, so perf never gets that record (export.cpp).
void Doubter::put_maps(EventTime time_ns, const ScannedProcess& process) {
  for (const Mmap2Record& map : process.maps) append_mmap2(out_.additions, map, at(process.pid, process.pid, time_ns));
  if (const auto program = parse_mmap2(process.program); program && program->bytes == 0)
    append_mmap2(out_.additions, *program, at(process.pid, process.pid, time_ns));
}

void Doubter::begin_anew(const ScannedProcess& process, EventTime from_ns) {
  put_lost(from_ns, process.pid, process.parent);
  put_rest(std::max(from_ns, end_of(process.pid)), process);
}

void Doubter::confirm(const ScannedProcess& process, const Incarnation& known) {
  for (const Mmap2Record& map : process.maps)
    if ((!known.image.maps || !known.image.maps->covers(map)) && !overlaps_lost(map, known))
      append_mmap2(out_.additions, map, at(process.pid, process.pid, end_of(process.pid)));
  confirm_threads(process, known);
  note_unnamed_threads(process, known, end_of(process.pid), out_.additions);
}

void Doubter::confirm_threads(const ScannedProcess& process, const Incarnation& known) {
  const EventTime begin = begin_of(process.pid), end = end_of(process.pid);
  std::unordered_set<std::uint32_t> there;
  ScannedProcess missing{.pid = process.pid};
  for (const ScannedThread& thread : process.threads) {
    there.insert(thread.tid);
    const Thread* old = known.find_thread(thread.tid);
    if (old == nullptr || old->exit_ns != 0) {
      if (old == nullptr || old->exit_ns < begin) missing.threads.push_back(thread);
    } else if (old->start_ns <= end && (old->start_ns >= begin || !is_called(old->comm, thread.comm))) {
      put_lost_comm(std::max(begin, old->start_ns), process.pid, thread.tid);
      if (renamed(thread.tid).first_ns == 0) put_comm(end, process.pid, thread.tid, thread.comm, false);
    }
  }
  put_threads(end, missing);
  if (process.partly || process.threads_left_out != 0) return;  // the others were not listed
  for (const Thread& thread : known.threads)
    if (thread.exit_ns == 0 && thread.start_ns <= end && !there.contains(thread.tid)) {
      const EventTime from = std::max(begin, thread.start_ns);
      append_exit(out_.additions, {process.pid, process.pid, thread.tid, process.pid, from},
                  at(process.pid, thread.tid, from));
    }
}

// Mappings that were dropped for being too many are known only from the time of the scan on.
void Doubter::find_dropped(const ScannedProcess& process, const Incarnation& known) {
  for (const Mmap2Record& map : process.maps)
    if (overlaps_lost(map, known)) append_mmap2(out_.additions, map, at(process.pid, process.pid, asked_));
}

void Doubter::doubt(std::uint32_t pid, const Incarnation& known) {
  const EventTime from = std::max(begin_of(pid), known.start_ns);
  put_end(from, pid, known);
  put_lost(from, pid, known.parent);
}

}  // namespace flight
