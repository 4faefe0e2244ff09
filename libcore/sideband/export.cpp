// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/export.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/process_writer.hpp"

namespace flight {
namespace {

using Entries = std::span<const RecordLog::Entry>;

// Of every record that concerns processes, the pid comes first in the body; in FORK the parent's is the next.
std::uint32_t pid_of(std::span<const std::byte> record) { return load<std::uint32_t>(record.data() + 8); }
std::uint32_t parent_of(std::span<const std::byte> fork) { return load<std::uint32_t>(fork.data() + 12); }

bool forks_process(const RecordLog& log, const RecordLog::Entry& entry) {
  if (entry.type != PERF_RECORD_FORK) return false;
  const auto record = log.record(entry);
  return pid_of(record) != parent_of(record);  // else it is a thread
}

bool concerns_processes(const RecordLog::Entry& entry) {
  return entry.type == PERF_RECORD_FORK || entry.type == PERF_RECORD_EXIT || entry.type == PERF_RECORD_COMM ||
         entry.type == PERF_RECORD_MMAP2;
}

// Replays `before` for `wanted`, and for those whose maps they were forked with.
void replay(ProcessTable& at_begin, const RecordLog& log, const ProcessTable& table, Entries before,
            const std::unordered_set<std::uint32_t>& wanted) {
  std::unordered_set<std::uint32_t> needed = wanted;
  for (auto entry = before.rbegin(); entry != before.rend(); ++entry) {
    if (!forks_process(log, *entry)) continue;
    const auto record = log.record(*entry);
    if (needed.contains(pid_of(record))) needed.insert(parent_of(record));
  }
  for (const std::uint32_t pid : needed) at_begin.borrow(pid, table.of(pid));
  for (const RecordLog::Entry& entry : before) {
    if (!concerns_processes(entry)) continue;
    const auto record = log.record(entry);
    if (needed.contains(pid_of(record))) at_begin.apply(record, entry.time_ns);
  }
}

// Both are ascending; what we write comes before the kernel's own of the same time.
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
    append(log.record(entry));
  }
  for (; next != late.end(); ++next) append(writer.record(*next));
  return out;
}

// Whether samples from `begin_ns` on can be of this one: it lives then, or it has just ended and nobody has its number
// yet. The reader is not told that it ended: some take its name away then.
bool is_there(std::span<const Incarnation> lives, std::size_t index, EventTime begin_ns, EventTime dying_ns) {
  const Incarnation& process = lives[index];
  if (process.alive() || process.exit_ns >= begin_ns) return true;
  const bool last = index + 1 == lives.size() || lives[index + 1].start_ns > begin_ns;
  return last && dying_ns > 0 && begin_ns - process.exit_ns <= dying_ns;
}

}  // namespace

LedgerExport export_of(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel, EventTime begin_ns,
                       EventTime end_ns, EventTime dying_ns, const std::unordered_set<std::uint32_t>& pids) {
  const Entries all = log.entries();
  const auto first = std::lower_bound(all.begin(), all.end(), begin_ns,
                                      [](const auto& entry, EventTime time) { return entry.time_ns < time; });
  const auto last = std::upper_bound(first, all.end(), end_ns,
                                     [](EventTime time, const auto& entry) { return time < entry.time_ns; });
  const Entries before(all.begin(), first);
  const Entries inside(first, last);

  std::unordered_set<std::uint32_t> wanted = pids;
  for (const RecordLog::Entry& entry : inside)
    if (forks_process(log, entry)) wanted.insert(parent_of(log.record(entry)));

  ProcessTable at_begin;
  at_begin.forget(begin_ns - std::min(begin_ns, dying_ns));
  replay(at_begin, log, table, before, wanted);
  KernelTable kernel_at_begin = kernel;
  for (const RecordLog::Entry& entry : before)
    if (!concerns_processes(entry)) kernel_at_begin.apply(log.record(entry));

  LedgerExport out;
  BuildIds build_ids;
  kernel_at_begin.append_to(out.prologue);
  ProcessWriter writer(begin_ns, end_ns, out.prologue, &build_ids);
  std::vector<std::uint32_t> in_order(wanted.begin(), wanted.end());
  std::sort(in_order.begin(), in_order.end());
  for (const std::uint32_t pid : in_order) {
    const auto lives = at_begin.of(pid);
    for (std::size_t i = 0; i < lives.size(); ++i)
      if (is_there(lives, i, begin_ns, dying_ns)) writer.write(pid, lives[i]);
  }
  out.log = merge(log, inside, writer);
  for (const RecordLog::Entry& entry : inside)
    if (entry.type == PERF_RECORD_MMAP2)
      if (const auto map = parse_mmap2(log.record(entry))) build_ids.add(map->build_id, map->name);
  out.build_ids = build_ids.take();
  return out;
}

std::vector<std::string> comms_in(const RecordLog& log, const ProcessTable& table, std::span<const ProcessAt> asked) {
  std::unordered_set<std::uint32_t> wanted;
  for (const ProcessAt& one : asked) wanted.insert(one.pid);
  ProcessTable now;
  replay(now, log, table, log.entries(), wanted);
  std::vector<std::string> out;
  for (const ProcessAt& one : asked) {
    const Incarnation* process = now.find(one.pid, one.time_ns);
    const Image* then = process != nullptr ? &process->image : nullptr;
    if (process != nullptr)
      for (auto past = process->past.rbegin(); past != process->past.rend() && then->from_ns > one.time_ns; ++past)
        then = &*past;
    out.emplace_back(then != nullptr ? name_of(then->comm) : "");
  }
  return out;
}

}  // namespace flight
