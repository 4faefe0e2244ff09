// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/doubt.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/sideband/doubter.hpp"
#include "libcore/sideband/scan.hpp"
#include "libcore/sideband/scanned_changes.hpp"

namespace flight {

void Doubter::learn(const Scan* scan, const ProcessTable& table) {
  if (scan != nullptr)
    for (const ScannedProcess& process : scan->processes) scanned_.insert(process.pid);
  table.for_each([this](std::uint32_t pid, std::span<const Incarnation> lives) {
    const EventTime begin = scope_.first_begin_ns();
    const auto concerns = [begin](const Incarnation& life) { return life.alive() || life.exit_ns >= begin; };
    if (scanned_.contains(pid) || std::any_of(lives.begin(), lives.end(), concerns)) now_.borrow(pid, lives);
  });
  std::size_t done = 0;
  for (const RecordLog::Entry& entry : log_.entries()) {
    const auto record = log_.record(entry);
    if (entry.type == PERF_RECORD_EXIT) note_unseen(record, entry.time_ns);
    now_.apply(record, entry.time_ns);
    if (++done % kBoundEvery == 0) now_.strip(kMostReplayBytes);
    if (entry.type != PERF_RECORD_COMM) continue;
    const auto comm = parse_comm(record);
    if (!comm || entry.time_ns <= end_of(comm->pid)) continue;
    Renamed& task = renamed_[comm->exec ? comm->pid : comm->tid];
    if (task.first_ns == 0) task.first_ns = entry.time_ns;
    if (comm->exec && task.exec_ns == 0) task.exec_ns = entry.time_ns;
  }
}

// Who exits here began in the gap: who is known with this number had ended before. Readers would give it that name.
void Doubter::note_unseen(std::span<const std::byte> exit, EventTime time_ns) {
  const auto task = parse_task(exit);
  if (!task || task->pid != task->tid || !scope_.concerns(task->pid)) return;
  const EventTime begin = begin_of(task->pid);
  if (time_ns <= begin || begin == end_of(task->pid)) return;
  const auto lives = now_.of(task->pid);
  if (!lives.empty() && !lives.back().alive() && lives.back().exit_ns < begin)
    unseen_.push_back({.pid = task->pid, .parent = task->ppid, .exit_ns = time_ns});
}

void Doubter::leave_open(std::uint32_t pid, bool in_doubt) {
  const EventTime begin = begin_of(pid), end = end_of(pid);
  out_.unread.left.insert_or_assign(
      pid, Unread::Left{.begin_ns = begin, .end_ns = end, .in_doubt = in_doubt && begin < end});
}

void Doubter::assess(const ScannedProcess& process) {
  if (process.pid == 0 || process.pid == kKernelPid) return;
  const auto lives = now_.of(process.pid);
  const EventTime begin = begin_of(process.pid), end = end_of(process.pid);
  if (process.unread) {
    // A dead one may have a successor that is not known yet.
    const bool known_later = !lives.empty() && lives.back().alive() && lives.back().start_ns > end;
    if (!known_later && !give_up_) leave_open(process.pid, true);
    if (!known_later && give_up_ && !lives.empty() && lives.back().alive() && begin < end)
      doubt(process.pid, lives.back());
    return;
  }
  if (process.partly && !give_up_) leave_open(process.pid, false);
  if (lives.empty()) {
    if (process.started_ns >= begin && begin < end) return begin_anew(process, process.started_ns);
    return out_.unknown.push_back(process);
  }
  const Incarnation& known = lives.back();
  const bool another = process.started_ns > known.start_ns + kStartToleranceNs;
  if (known.alive() && !another) find_dropped(process, known);
  // All its records are newer than the gap, and its FORK is not among them: it ran at the end of the gap already.
  if (!another && known.origin == Origin::kInferred && known.start_ns > end && begin < end) {
    // Its start in /proc is rounded down: not before the exit of who had the number then.
    const EventTime exited_ns = lives.size() > 1 ? lives[lives.size() - 2].exit_ns : 0;
    return begin_anew(process, std::max({process.started_ns, begin, exited_ns + 1}));
  }
  if (known.alive() && !another && known.start_ns > end) return;  // the log has all of it
  if (known.alive() && !another && known.origin == Origin::kInferred && known.start_ns <= begin)
    return out_.incomplete.push_back(process);
  if (!known.alive()) {
    if (!another && known.exit_ns + kScanSlackNs >= asked_) {  // it exited while the scan ran
      if (known.origin == Origin::kInferred && known.start_ns <= begin) out_.incomplete.push_back(process);
      return;
    }
    return begin_anew(process, std::max(process.started_ns, known.exit_ns + 1));
  }
  const EventTime from = std::max(begin, known.start_ns);
  if (another) {
    put_end(from, process.pid, known);
    unsure_.insert(process.pid);
    return begin_anew(process, std::max(process.started_ns, from + 1));
  }
  const bool constant = known.image.from_ns < begin && renamed(process.pid).first_ns == 0;
  if ((constant || begin == end) && !differs(process, known)) return confirm(process, known);
  put_end(from, process.pid, known);
  begin_anew(process, from);
}

// Processes that existed in the gap and exited before a scan: an exec of theirs may be missing.
void Doubter::doubt_the_ended() {
  for (const Unseen& one : unseen_) {
    put_lost(begin_of(one.pid), one.pid, one.parent);
    append_exit(out_.additions, {one.pid, one.parent, one.pid, one.parent, one.exit_ns},
                at(one.pid, one.pid, one.exit_ns));
    nameless_.insert(one.pid);
  }
  now_.for_each([this](std::uint32_t pid, std::span<const Incarnation> lives) {
    if (!scope_.concerns(pid)) return;
    const EventTime begin = begin_of(pid), end = end_of(pid);
    if (begin == end) return;
    for (const Incarnation& life : lives) {
      if (life.alive() || life.exit_ns < begin || life.start_ns > end) continue;
      if (is_lost_comm(life.image.comm)) continue;  // an earlier scan found this
      const EventTime from = std::max(begin, life.start_ns);
      put_end(from, pid, life);
      put_lost(from, pid, life.parent);
      append_exit(out_.additions, {pid, life.parent, pid, life.parent, life.exit_ns}, at(pid, pid, life.exit_ns));
      nameless_.insert(pid);
    }
  });
}

// No scan was possible: treat each of them as changed.
void Doubter::doubt_everybody() {
  now_.for_each([this](std::uint32_t pid, std::span<const Incarnation> lives) {
    const Incarnation& last = lives.back();
    const EventTime end = end_of(pid);
    if (!scope_.concerns(pid) || !last.alive() || last.start_ns > end || begin_of(pid) == end) return;
    doubt(pid, last);
  });
}

// If they had exited after the gap, the log would have it. What they were called in it is unknown: readers keep the
// name of a task after its EXIT, so that is not enough.
void Doubter::end_absent(bool all_listed) {
  now_.for_each([&](std::uint32_t pid, std::span<const Incarnation> lives) {
    const Incarnation& last = lives.back();
    if (!scope_.concerns(pid) || !last.alive() || scanned_.contains(pid) || last.start_ns > end_of(pid)) return;
    const EventTime begin = begin_of(pid), end = end_of(pid);
    if (begin == end && last.start_ns + kScanSlackNs >= asked_) return;
    if (all_listed) {
      const EventTime from = std::max(begin, last.start_ns);
      put_end(from, pid, last);
      unsure_.insert(pid);
      if (begin == end) return;
      put_lost(from, pid, last.parent);
      append_exit(out_.additions, {pid, last.parent, pid, last.parent, end}, at(pid, pid, end));
    } else if (!give_up_) {
      leave_open(pid, true);
    } else if (begin < end) {
      doubt(pid, last);
    }
  });
}

// Processes that were forked after the gap by a parent without a known name, and never got their own name.
void Doubter::repair_children(const std::vector<ScannedProcess>& scan) {
  for (const ScannedProcess& process : scan) {
    const auto lives = now_.of(process.pid);
    if (process.unread || lives.empty() || !lives.back().alive() || lives.back().start_ns <= end_of(process.pid))
      continue;
    const Incarnation& known = lives.back();
    if (process.started_ns + kStartToleranceNs < known.start_ns) continue;  // the scan saw who had the number before
    if (!nameless_.contains(known.parent) || renamed(process.pid).first_ns != 0) continue;
    if (!is_called(known.image.comm, process.comm)) continue;
    put_comm(known.start_ns, process.pid, process.pid, process.comm, true);
    put_maps(known.start_ns, process);
  }
}

// A name recorded in the gap may have been followed by another one that was lost.
void Doubter::doubt_names_in_between() {
  const auto all = log_.entries();
  auto entry = std::lower_bound(all.begin(), all.end(), scope_.first_begin_ns(),
                                [](const auto& one, EventTime time) { return one.time_ns < time; });
  for (; entry != all.end() && entry->time_ns <= scope_.last_end_ns(); ++entry) {
    if (entry->type != PERF_RECORD_COMM) continue;
    const auto comm = parse_comm(log_.record(*entry));
    if (comm && unsure_.contains(comm->pid) && entry->time_ns >= begin_of(comm->pid) &&
        entry->time_ns < end_of(comm->pid))
      put_lost_comm(entry->time_ns, comm->pid, comm->tid);
  }
}

Doubts Doubter::take() {
  out_.unsure = unsure_.size();
  return std::move(out_);
}

Doubts clear_up(const DoubtScope& scope, const Scan* scan, EventTime asked_ns, bool give_up, const RecordLog& log,
                const ProcessTable& table) {
  Doubter doubter(scope, asked_ns, give_up, log);
  doubter.learn(scan, table);
  doubter.doubt_the_ended();
  if (scan == nullptr) {
    doubter.doubt_everybody();
  } else {
    for (const ScannedProcess& process : scan->processes)
      if (scope.concerns(process.pid)) doubter.assess(process);
    doubter.end_absent(scan->all_listed);
    doubter.repair_children(scan->processes);
  }
  doubter.doubt_names_in_between();
  return doubter.take();
}

}  // namespace flight
