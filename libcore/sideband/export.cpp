// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/export.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <unordered_map>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/notes.hpp"
#include "libcore/sideband/process_writer.hpp"

namespace flight {
namespace {

using Entries = std::span<const RecordLog::Entry>;

// Every record about a process has the pid first in its body; in FORK the parent's pid is next.
std::uint32_t pid_of(std::span<const std::byte> record) { return load<std::uint32_t>(record.data() + 8); }
std::uint32_t parent_of(std::span<const std::byte> fork) { return load<std::uint32_t>(fork.data() + 12); }

bool forks_process(const RecordLog& log, const RecordLog::Entry& entry) {
  if (entry.type != PERF_RECORD_FORK) return false;
  const auto record = log.record(entry);
  return pid_of(record) != parent_of(record);  // otherwise it is a thread
}

bool concerns_processes(const RecordLog::Entry& entry) {
  return entry.type == PERF_RECORD_FORK || entry.type == PERF_RECORD_EXIT || entry.type == PERF_RECORD_COMM ||
         entry.type == PERF_RECORD_MMAP2 || entry.type == kNoteRecord;
}

// Replays `before` for `wanted` and for the parents whose mappings they copied. Returns how many exited processes lost
// their mappings because of the memory limit.
std::uint64_t replay(ProcessTable& at_begin, const RecordLog& log, const ProcessTable& table, Entries before,
                     const std::unordered_set<std::uint32_t>& wanted) {
  std::unordered_set<std::uint32_t> needed = wanted;
  for (auto entry = before.rbegin(); entry != before.rend(); ++entry) {
    if (!forks_process(log, *entry)) continue;
    const auto record = log.record(*entry);
    if (needed.contains(pid_of(record))) needed.insert(parent_of(record));
  }
  for (const std::uint32_t pid : needed) at_begin.borrow(pid, table.of(pid));
  std::size_t done = 0;
  std::uint64_t without_maps = 0;
  for (const RecordLog::Entry& entry : before) {
    if (!concerns_processes(entry)) continue;
    const auto record = log.record(entry);
    if (needed.contains(pid_of(record))) at_begin.apply(record, entry.time_ns);
    if (++done % kBoundEvery == 0) without_maps += at_begin.strip(kMostReplayBytes).maps;
  }
  return without_maps;
}

// In a log that a checkpoint began: the executable of a process without its mapping (ProcessWriter).
bool is_empty_map(const RecordLog& log, const RecordLog::Entry& entry) {
  constexpr std::size_t kBytesOffset = 24;  // header 8, u32 pid, u32 tid, u64 address, u64 bytes
  return entry.type == PERF_RECORD_MMAP2 && entry.size >= kBytesOffset + sizeof(std::uint64_t) &&
         load<std::uint64_t>(log.record(entry).data() + kBytesOffset) == 0;
}

// Both are ascending; generated records come before the kernel's of the same time.
RecordBuffer merge(const RecordLog& log, Entries inside, ProcessWriter& writer) {
  const auto& late = writer.late();
  std::size_t bytes = 0;
  for (const auto& entry : inside) bytes += entry.size;
  for (const auto& entry : late) bytes += entry.size;
  RecordBuffer out;
  out.reserve(bytes);
  auto next = late.begin();
  const auto append = [&out](std::span<const std::byte> record) {
    out.insert(out.end(), record.begin(), record.end());
  };
  for (const RecordLog::Entry& entry : inside) {
    for (; next != late.end() && next->time_ns <= entry.time_ns; ++next) append(writer.record(*next));
    if (entry.type != kNoteRecord && !is_empty_map(log, entry)) append(log.record(entry));
  }
  for (; next != late.end(); ++next) append(writer.record(*next));
  return out;
}

// Whether samples from `begin_ns` on can belong to this process: it lives then, or it has just exited and its pid is
// not reused. Its EXIT is not written, because some readers then drop the name. If records are missing since then, the
// pid may have been reused.
bool is_there(std::span<const Incarnation> lives, std::size_t index, const ExportOrder& order) {
  const Incarnation& process = lives[index];
  if (process.alive() || process.exit_ns >= order.begin_ns) return true;
  const bool last = index + 1 == lives.size() || lives[index + 1].start_ns > order.begin_ns;
  return last && order.dying_ns > 0 && order.begin_ns - process.exit_ns <= order.dying_ns &&
         !order.gaps.between(process.exit_ns, order.begin_ns);
}

// The tids of threads of `pids` at that time: an earlier process with one of these numbers has no more samples.
std::unordered_set<std::uint32_t> tids_of(const ProcessTable& table, const std::vector<std::uint32_t>& pids,
                                          EventTime time_ns) {
  std::unordered_set<std::uint32_t> out;
  for (const std::uint32_t pid : pids)
    for (const Incarnation& process : table.of(pid))
      for (const Thread& thread : process.threads)
        if (thread.start_ns <= time_ns && (thread.exit_ns == 0 || thread.exit_ns >= time_ns)) out.insert(thread.tid);
  return out;
}

// As in TrackerExport, of `wanted`.
std::vector<TrackerExport::EarlyFork> early_forks(const ProcessTable& at_begin, const ProcessTable& table,
                                                  const std::unordered_set<std::uint32_t>& wanted, EventTime from_ns) {
  std::vector<TrackerExport::EarlyFork> out;
  std::unordered_set<std::uint32_t> seen = wanted;
  std::vector<std::uint32_t> next(wanted.begin(), wanted.end());
  while (!next.empty()) {
    const std::uint32_t pid = next.back();
    next.pop_back();
    const auto replayed = at_begin.of(pid);
    for (const Incarnation& process : replayed.empty() ? table.of(pid) : replayed) {
      if (process.origin != Origin::kFork || process.parent == 0 || process.start_ns < from_ns) continue;
      out.push_back({.pid = pid, .parent = process.parent, .time_ns = process.start_ns});
      if (seen.insert(process.parent).second) next.push_back(process.parent);
    }
  }
  return out;
}

// Threads without a name, of processes with samples. A scan inside the window has left a note there.
class UnnamedThreads {
 public:
  void add(std::uint32_t pid, std::uint64_t count) {
    if (count != 0) counts_[pid] = std::max(counts_[pid], count);
  }
  void add_notes(const RecordLog& log, Entries inside, const std::unordered_set<std::uint32_t>& pids) {
    for (const RecordLog::Entry& entry : inside) {
      const auto note = entry.type == kNoteRecord ? parse_note(log.record(entry)) : std::nullopt;
      if (note && note->kind == NoteKind::unnamed && pids.contains(note->pid)) add(note->pid, note->count);
    }
  }
  void fill(ForgottenFacts& out) const {
    out.unnamed_of = counts_.size();
    for (const auto& [pid, count] : counts_) out.unnamed += count;
  }

 private:
  std::unordered_map<std::uint32_t, std::uint64_t> counts_;
};

// Of the process, not of one of its threads. Empty: what is known of it began later.
Comm comm_at(const Incarnation& process, const ProcessAt& then) {
  const auto [image, to_ns] = image_at(process, then.time_ns);
  Comm comm{};
  for (const PastNames::Since& one : process.names.of(then.pid, image->from_ns, to_ns, image->comm))
    if (one.since_ns <= then.time_ns) comm = one.comm;
  return comm;
}

}  // namespace

TrackerExport export_of(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel,
                        const ExportOrder& order) {
  const EventTime begin_ns = order.begin_ns;
  const EventTime end_ns = order.end_ns;
  const Entries all = log.entries();
  const auto first = std::lower_bound(all.begin(), all.end(), begin_ns,
                                      [](const auto& entry, EventTime time) { return entry.time_ns < time; });
  const auto last = std::upper_bound(first, all.end(), end_ns,
                                     [](EventTime time, const auto& entry) { return time < entry.time_ns; });
  const Entries before(all.begin(), first);
  const Entries inside(first, last);

  std::unordered_set<std::uint32_t> wanted = order.pids;
  std::unordered_set<std::uint32_t> shown = order.pids;  // whose mappings are those of samples
  for (auto entry = inside.rbegin(); entry != inside.rend(); ++entry) {
    if (!forks_process(log, *entry)) continue;
    const auto record = log.record(*entry);
    wanted.insert(parent_of(record));
    if (shown.contains(pid_of(record))) shown.insert(parent_of(record));
  }

  ProcessTable at_begin;
  at_begin.forget(begin_ns - std::min(begin_ns, order.dying_ns));
  const std::uint64_t without_maps = replay(at_begin, log, table, before, wanted);
  KernelTable kernel_at_begin = kernel;
  kernel_at_begin.forget(begin_ns);
  TrackerExport out;
  for (const RecordLog::Entry& entry : before) {
    if (concerns_processes(entry)) continue;
    kernel_at_begin.apply(log.record(entry));
    if (entry.type == PERF_RECORD_CGROUP) out.cgroup_made_ns = std::max(out.cgroup_made_ns, entry.time_ns);
  }
  out.early_forks = early_forks(at_begin, table, wanted, begin_ns - std::min(begin_ns, kShortLivedNs));

  BuildIds build_ids;
  kernel_at_begin.append_cgroups(out.prologue);
  ProcessWriter writer(begin_ns, end_ns, out.prologue, &build_ids, order.most_bytes, &out.mapped_ns);
  kernel_at_begin.for_each_change(
      [&writer](EventTime time_ns, const KsymbolRecord& symbol) { writer.write_symbol(time_ns, symbol); });
  std::vector<std::uint32_t> in_order(wanted.begin(), wanted.end());
  std::sort(in_order.begin(), in_order.end());
  const auto taken = tids_of(at_begin, in_order, begin_ns);
  UnnamedThreads unnamed;
  for (const std::uint32_t pid : in_order) {
    const auto lives = at_begin.of(pid);
    for (std::size_t i = 0; i < lives.size(); ++i) {
      if (!is_there(lives, i, order) || (!lives[i].alive() && lives[i].exit_ns < begin_ns && taken.contains(pid)))
        continue;
      writer.write(pid, lives[i]);
      if (order.pids.contains(pid) && lives[i].start_ns <= end_ns) unnamed.add(pid, lives[i].unnamed_threads);
    }
    const std::uint64_t forgotten = writer.take_forgotten();
    if (forgotten == 0) continue;
    out.partial_maps.insert(pid);
    if (!shown.contains(pid)) continue;
    ++out.forgotten.of_processes;
    out.forgotten.maps += forgotten;
  }
  out.left_out = writer.left_out() + without_maps;
  out.programs = writer.take_programs();
  out.forgotten.symbols = kernel_at_begin.forgotten_symbols();
  out.forgotten.cgroups = kernel_at_begin.forgotten_cgroups();
  unnamed.add_notes(log, inside, order.pids);
  unnamed.fill(out.forgotten);
  out.log = merge(log, inside, writer);
  for (const RecordLog::Entry& entry : inside) {
    if (entry.type != PERF_RECORD_MMAP2) continue;
    const auto map = parse_mmap2(log.record(entry));
    if (map && map->bytes == 0)
      out.programs.push_back({.pid = map->pid, .from_ns = entry.time_ns, .path = std::string(map->name)});
    else if (map)
      build_ids.add(map->build_id, map->name);
  }
  out.build_ids = build_ids.take();
  return out;
}

std::unordered_set<std::uint32_t> pids_in(const RecordLog& log, const ProcessTable& table) {
  std::unordered_set<std::uint32_t> out;
  table.for_each([&out](std::uint32_t pid, std::span<const Incarnation>) { out.insert(pid); });
  for (const RecordLog::Entry& entry : log.entries())
    if (concerns_processes(entry)) out.insert(pid_of(log.record(entry)));
  return out;
}

void append_between(const RecordLog& log, EventTime after_ns, EventTime until_ns, RecordBuffer& out) {
  const Entries all = log.entries();
  auto entry = std::upper_bound(all.begin(), all.end(), after_ns,
                                [](EventTime time, const auto& one) { return time < one.time_ns; });
  for (; entry != all.end() && entry->time_ns <= until_ns; ++entry) {
    if (entry->type == kNoteRecord || is_empty_map(log, *entry)) continue;
    const auto record = log.record(*entry);
    out.insert(out.end(), record.begin(), record.end());
  }
}

std::vector<std::string> comms_in(const RecordLog& log, const ProcessTable& table, std::span<const ProcessAt> asked) {
  std::unordered_set<std::uint32_t> wanted;
  for (const ProcessAt& one : asked) wanted.insert(one.pid);
  ProcessTable now;
  static_cast<void>(replay(now, log, table, log.entries(), wanted));
  std::vector<std::string> out;
  for (const ProcessAt& one : asked) {
    const Incarnation* process = now.find(one.pid, one.time_ns);
    const Comm then = process != nullptr ? comm_at(*process, one) : Comm{};
    out.emplace_back(is_lost_comm(then) ? std::string_view() : name_of(then));
  }
  return out;
}

}  // namespace flight
