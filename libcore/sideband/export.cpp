// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/export.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

// Sampled forks of a process with thousands of mappings could otherwise multiply them without bound. Beyond this,
// processes have names only.
constexpr std::size_t kMaxWrittenBytes = 128U << 20U;

using Entries = std::span<const RecordLog::Entry>;

// Distinct pairs of build-id and name.
class BuildIds {
 public:
  void add(const BuildId& id, std::string_view name) {
    if (id.size == 0) return;
    key_.assign(id.bytes.begin(), id.bytes.begin() + id.size);
    key_ += name;
    if (seen_.insert(key_).second) found_.push_back({id, std::string(name)});
  }
  [[nodiscard]] std::vector<LedgerExport::UserBuildId> take() { return std::move(found_); }

 private:
  std::string key_;
  std::unordered_set<std::string> seen_;
  std::vector<LedgerExport::UserBuildId> found_;
};

// Writes processes: what was so at the window's beginning goes to the prologue, what came later goes to its time.
class ProcessWriter {
 public:
  ProcessWriter(EventTime begin_ns, EventTime end_ns, RecordBuffer& prologue, BuildIds& build_ids)
      : begin_(begin_ns), end_(end_ns), prologue_(prologue), build_ids_(build_ids) {}

  struct Late {
    EventTime time_ns = 0;
    std::size_t offset = 0, size = 0;
  };

  void write(std::uint32_t pid, const Incarnation& process);
  // Ascending in time; equal times in the order of writing.
  [[nodiscard]] const std::vector<Late>& late();
  [[nodiscard]] std::span<const std::byte> record(const Late& late) const {
    return std::span(late_bytes_).subspan(late.offset, late.size);
  }

 private:
  // `append(buffer, trailer)` writes one record that became true at `time_ns`.
  template <typename Append>
  void put(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, const Append& append) {
    if (time_ns > end_) return;
    if (time_ns <= begin_) return append(prologue_, Trailer{});
    const std::size_t offset = late_bytes_.size();
    append(late_bytes_, Trailer{pid, tid, time_ns});
    late_.push_back({time_ns, offset, late_bytes_.size() - offset});
  }
  void put_task(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid);
  void put_exit(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid);
  void put_comm(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, const Comm& comm, bool exec);
  void write_image(std::uint32_t pid, const Image& image, bool first);

  EventTime begin_, end_;
  RecordBuffer& prologue_;
  BuildIds& build_ids_;
  RecordBuffer late_bytes_;
  std::vector<Late> late_;
};

// FORK_EXEC: the reader must not clone the parent's maps, they follow.
void ProcessWriter::put_task(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid) {
  put(time_ns, pid, tid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_fork(out, {pid, parent, tid, parent, trailer.time_ns, true}, trailer);
  });
}

void ProcessWriter::put_exit(EventTime time_ns, std::uint32_t pid, std::uint32_t parent, std::uint32_t tid) {
  if (time_ns <= begin_) return;  // alive, or the leader of threads that live on
  put(time_ns, pid, tid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_exit(out, {pid, parent, tid, parent, trailer.time_ns, false}, trailer);
  });
}

void ProcessWriter::put_comm(EventTime time_ns, std::uint32_t pid, std::uint32_t tid, const Comm& comm, bool exec) {
  if (name_of(comm).empty()) return;  // not known: the reader shows the number
  put(time_ns, pid, tid, [&](RecordBuffer& out, const Trailer& trailer) {
    append_comm(out, {pid, tid, name_of(comm), exec}, trailer);
  });
}

void ProcessWriter::write_image(std::uint32_t pid, const Image& image, bool first) {
  put_comm(image.from_ns, pid, pid, image.comm, !first);
  if (!image.maps || prologue_.size() + late_bytes_.size() > kMaxWrittenBytes) return;
  for (const ProcessMap& map : image.maps->all()) {
    const EventTime since = std::max(map.since_ns, image.from_ns);
    if (since > end_) continue;
    const MappedFile& file = *map.file;
    const Mmap2Record record{pid,
                             pid,
                             map.address,
                             map.bytes,
                             map.page_offset,
                             file.build_id,
                             file.major,
                             file.minor,
                             file.inode,
                             file.inode_generation,
                             map.protection,
                             map.flags,
                             PERF_RECORD_MISC_USER,
                             file.name};
    put(since, pid, pid, [&](RecordBuffer& out, const Trailer& trailer) { append_mmap2(out, record, trailer); });
    build_ids_.add(file.build_id, file.name);
  }
}

void ProcessWriter::write(std::uint32_t pid, const Incarnation& process) {
  if (process.start_ns > end_ || (!process.alive() && process.exit_ns < begin_)) return;
  put_task(process.start_ns, pid, process.parent, pid);
  bool first = true;
  for (std::size_t i = 0; i < process.past.size(); ++i) {
    const Image& next = i + 1 < process.past.size() ? process.past[i + 1] : process.image;
    if (next.from_ns <= begin_) continue;
    write_image(pid, process.past[i], first);
    first = false;
  }
  write_image(pid, process.image, first);
  for (const Thread& thread : process.threads) {
    if (thread.exit_ns != 0 && thread.exit_ns < begin_) continue;
    put_task(thread.start_ns, pid, pid, thread.tid);
    put_comm(thread.start_ns, pid, thread.tid, thread.comm, false);
    put_exit(thread.exit_ns, pid, pid, thread.tid);
  }
  put_exit(process.leader_exit_ns != 0 ? process.leader_exit_ns : process.exit_ns, pid, process.parent, pid);
}

const std::vector<ProcessWriter::Late>& ProcessWriter::late() {
  std::stable_sort(late_.begin(), late_.end(), [](const Late& a, const Late& b) { return a.time_ns < b.time_ns; });
  return late_;
}

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

}  // namespace

LedgerExport export_of(const RecordLog& log, const ProcessTable& table, const KernelTable& kernel, EventTime begin_ns,
                       EventTime end_ns, const std::unordered_set<std::uint32_t>& pids) {
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
  at_begin.forget(begin_ns);
  replay(at_begin, log, table, before, wanted);
  KernelTable kernel_at_begin = kernel;
  for (const RecordLog::Entry& entry : before)
    if (!concerns_processes(entry)) kernel_at_begin.apply(log.record(entry));

  LedgerExport out;
  BuildIds build_ids;
  kernel_at_begin.append_to(out.prologue);
  ProcessWriter writer(begin_ns, end_ns, out.prologue, build_ids);
  std::vector<std::uint32_t> in_order(wanted.begin(), wanted.end());
  std::sort(in_order.begin(), in_order.end());
  for (const std::uint32_t pid : in_order)
    for (const Incarnation& process : at_begin.of(pid)) writer.write(pid, process);
  out.log = merge(log, inside, writer);
  for (const RecordLog::Entry& entry : inside)
    if (entry.type == PERF_RECORD_MMAP2)
      if (const auto map = parse_mmap2(log.record(entry))) build_ids.add(map->build_id, map->name);
  out.build_ids = build_ids.take();
  return out;
}

}  // namespace flight
