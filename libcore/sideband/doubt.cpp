// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/doubt.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libcore/sideband/scan.hpp"
#include "libcore/sideband/scanned_changes.hpp"

namespace flight {
namespace {

// The name of a task in the log after the gap.
struct Renamed {
  EventTime first_ns = 0;  // 0: never
  EventTime exec_ns = 0;
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
  Doubts out_;
};

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

void Doubter::leave_open(std::uint32_t pid, bool in_doubt) {
  const EventTime begin = begin_of(pid), end = end_of(pid);
  out_.unread.left.insert_or_assign(
      pid, Unread::Left{.begin_ns = begin, .end_ns = end, .in_doubt = in_doubt && begin < end});
}

void Doubter::doubt(std::uint32_t pid, const Incarnation& known) {
  const EventTime from = std::max(begin_of(pid), known.start_ns);
  put_end(from, pid, known);
  put_lost(from, pid, known.parent);
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

}  // namespace

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
