// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/scan.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <unordered_set>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

struct ScannedThread {
  std::uint32_t tid = 0;
  std::string_view comm;
};

// Its views are into the scan's bytes.
struct ScannedProcess {
  std::uint32_t pid = 0, parent = 0;
  EventTime started_ns = 0;
  std::string_view comm;
  std::vector<ScannedThread> threads;
  std::vector<Mmap2Record> maps;
};

class ScanReader {
 public:
  explicit ScanReader(KernelTable& kernel) : kernel_(kernel) {}

  std::vector<ScannedProcess> read(std::span<const std::byte> bytes) {
    for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
      bytes = bytes.subspan(record.size());
      take(record);
    }
    return std::move(processes_);
  }

 private:
  // Records of one process follow each other.
  ScannedProcess& process(std::uint32_t pid) {
    if (processes_.empty() || processes_.back().pid != pid) processes_.push_back({.pid = pid});
    return processes_.back();
  }

  void take(std::span<const std::byte> record) {
    switch (load<perf_event_header>(record.data()).type) {
      case PERF_RECORD_FORK:
        if (const auto fork = parse_task(record)) take_fork(*fork);
        return;
      case PERF_RECORD_COMM:
        if (const auto comm = parse_comm(record)) take_comm(*comm);
        return;
      case PERF_RECORD_MMAP2:
        if (const auto map = parse_mmap2(record); map && map->cpumode == PERF_RECORD_MISC_USER)
          process(map->pid).maps.push_back(*map);
        return;
      default:
        kernel_.apply(record);
    }
  }

  void take_fork(const TaskRecord& fork) {
    ScannedProcess& found = process(fork.pid);
    if (fork.tid != fork.pid) {
      found.threads.push_back({fork.tid, {}});
      return;
    }
    found.parent = fork.ppid;
    found.started_ns = fork.time_ns;
  }

  void take_comm(const CommRecord& comm) {
    ScannedProcess& found = process(comm.pid);
    if (comm.tid == comm.pid)
      found.comm = comm.name;
    else if (!found.threads.empty() && found.threads.back().tid == comm.tid)
      found.threads.back().comm = comm.name;
  }

  KernelTable& kernel_;
  std::vector<ScannedProcess> processes_;
};

class ScanMerger {
 public:
  ScanMerger(EventTime scanned_ns, bool lost, ProcessTable& table)
      : scanned_ns_(scanned_ns), lost_(lost), table_(table) {}

  void learn(const std::vector<ScannedProcess>& scan, const RecordLog& log);
  void merge(const ScannedProcess& process);
  void end_absent();
  [[nodiscard]] RecordBuffer take() { return std::move(additions_); }

 private:
  [[nodiscard]] Trailer trailer(std::uint32_t pid, std::uint32_t tid) const { return {pid, tid, scanned_ns_}; }
  void add_to_state(const ScannedProcess& process, EventTime start_ns);
  void complete(const ScannedProcess& process);
  void add_missing(const ScannedProcess& process, const Incarnation& known);
  void add_missing_threads(const ScannedProcess& process, const Incarnation& known);
  void end_threads(std::uint32_t pid, const Incarnation& known, const std::vector<ScannedThread>& but);
  void put_exit(std::uint32_t pid, std::uint32_t parent, std::uint32_t tid) {
    append_exit(additions_, {pid, parent, tid, parent, scanned_ns_}, trailer(pid, tid));
  }

  EventTime scanned_ns_;
  bool lost_;
  ProcessTable& table_;
  ProcessTable now_;  // what is known, the whole log replayed
  std::unordered_set<std::uint32_t> scanned_;
  RecordBuffer additions_;
};

void ScanMerger::learn(const std::vector<ScannedProcess>& scan, const RecordLog& log) {
  for (const ScannedProcess& process : scan) scanned_.insert(process.pid);
  table_.for_each([this](std::uint32_t pid, std::span<const Incarnation> incarnations) {
    if (incarnations.back().alive() || scanned_.contains(pid)) now_.borrow(pid, incarnations);
  });
  for (const RecordLog::Entry& entry : log.entries()) now_.apply(log.record(entry), entry.time_ns);
}

void ScanMerger::merge(const ScannedProcess& process) {
  if (process.pid == 0 || process.pid == kKernelPid) return;
  const auto incarnations = now_.of(process.pid);
  if (incarnations.empty()) return add_to_state(process, process.started_ns);
  const Incarnation& known = incarnations.back();
  // Later than that one began: another process of the same number, whose FORK was lost.
  if (process.started_ns > known.start_ns + kStartToleranceNs) return add_to_state(process, process.started_ns);
  if (!known.alive()) {
    // It exited while the scan was taken, or an earlier scan missed it.
    if (known.exit_ns + kScanSlackNs < scanned_ns_) add_to_state(process, known.exit_ns + 1);
    return;
  }
  if (known.origin == Origin::kInferred) return complete(process);
  if (known.start_ns <= scanned_ns_) add_missing(process, known);
}

void ScanMerger::add_to_state(const ScannedProcess& process, EventTime start_ns) {
  Incarnation found;
  found.start_ns = found.image.from_ns = start_ns;
  found.parent = process.parent;
  found.origin = Origin::kScan;
  found.image.comm = to_comm(process.comm);
  found.image.maps = table_.make_maps(process.maps, start_ns);
  for (const ScannedThread& thread : process.threads)
    found.threads.push_back({thread.tid, to_comm(thread.comm), start_ns, 0});
  std::sort(found.threads.begin(), found.threads.end(), [](const Thread& a, const Thread& b) { return a.tid < b.tid; });
  found.live_threads = static_cast<std::uint32_t>(found.threads.size());
  table_.add(process.pid, std::move(found));
}

// Something of it was recorded before the first scan: what the scan knows lies below that.
void ScanMerger::complete(const ScannedProcess& process) {
  const auto folded = table_.of(process.pid);
  // Where it is only in the log, the log will be applied to what is put below it.
  if (folded.empty() || folded.back().origin != Origin::kInferred) return add_to_state(process, process.started_ns);
  // A copy: what it is copied from is removed with the next line.
  const Incarnation partly = folded.back();  // NOLINT(performance-unnecessary-copy-initialization)
  table_.remove(process.pid, partly.start_ns);
  add_to_state(process, std::min(process.started_ns, partly.start_ns));
  table_.change(process.pid, partly.start_ns, [&](Incarnation& whole) {
    whole.parent = process.parent;
    if (!name_of(partly.image.comm).empty()) whole.image.comm = partly.image.comm;
    if (!partly.image.maps) return;
    for (const ProcessMap& map : partly.image.maps->all()) writable(whole.image.maps, table_.meter()).insert(map);
  });
}

void ScanMerger::add_missing(const ScannedProcess& process, const Incarnation& known) {
  std::vector<const Mmap2Record*> missing;
  for (const Mmap2Record& map : process.maps)
    if (!known.image.maps || !known.image.maps->covers(map.address, map.bytes, map.name)) missing.push_back(&map);
  const bool none_known = missing.size() == process.maps.size() && known.image.maps != nullptr;
  const bool execed = lost_ && !missing.empty() && none_known;  // its exec was lost: nothing of the old is left
  if (execed || (lost_ && name_of(known.image.comm) != process.comm))
    append_comm(additions_, {process.pid, process.pid, process.comm, execed}, trailer(process.pid, process.pid));
  for (const Mmap2Record* map : missing) append_mmap2(additions_, *map, trailer(process.pid, process.pid));
  add_missing_threads(process, known);
  if (lost_) end_threads(process.pid, known, process.threads);
}

void ScanMerger::add_missing_threads(const ScannedProcess& process, const Incarnation& known) {
  for (const ScannedThread& thread : process.threads) {
    if (const Thread* there = known.find_thread(thread.tid); there != nullptr) continue;
    const Trailer at = trailer(process.pid, thread.tid);
    append_fork(additions_, {process.pid, process.pid, thread.tid, process.pid, scanned_ns_}, at);
    append_comm(additions_, {process.pid, thread.tid, thread.comm}, at);
  }
}

void ScanMerger::end_threads(std::uint32_t pid, const Incarnation& known, const std::vector<ScannedThread>& but) {
  for (const Thread& thread : known.threads) {
    if (thread.exit_ns != 0 || thread.start_ns + kScanSlackNs >= scanned_ns_) continue;
    const bool runs =
        std::any_of(but.begin(), but.end(), [&](const ScannedThread& other) { return other.tid == thread.tid; });
    if (!runs) put_exit(pid, pid, thread.tid);
  }
}

void ScanMerger::end_absent() {
  if (!lost_ || scanned_.empty()) return;
  now_.for_each([this](std::uint32_t pid, std::span<const Incarnation> incarnations) {
    const Incarnation& last = incarnations.back();
    if (!last.alive() || scanned_.contains(pid) || last.start_ns + kScanSlackNs >= scanned_ns_) return;
    for (const Thread& thread : last.threads)
      if (thread.exit_ns == 0) put_exit(pid, pid, thread.tid);
    put_exit(pid, last.parent, pid);
  });
}

}  // namespace

RecordBuffer merge_scan(std::span<const std::byte> scan, EventTime scanned_ns, bool lost, const RecordLog& log,
                        ProcessTable& table, KernelTable& kernel) {
  const std::vector<ScannedProcess> processes = ScanReader(kernel).read(scan);
  ScanMerger merger(scanned_ns, lost, table);
  merger.learn(processes, log);
  for (const ScannedProcess& process : processes) merger.merge(process);
  merger.end_absent();
  return merger.take();
}

}  // namespace flight
