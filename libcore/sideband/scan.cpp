// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/scan.hpp"

#include <algorithm>
#include <unordered_set>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/doubt.hpp"
#include "libcore/sideband/scanned.hpp"
#include "libcore/sideband/scanned_changes.hpp"

namespace flight {
namespace {

class ScanMerger {
 public:
  ScanMerger(EventTime scanned_ns, ProcessTable& table) : scanned_ns_(scanned_ns), table_(table) {}

  void learn(const std::vector<ScannedProcess>& scan, const RecordLog& log);
  void merge(const ScannedProcess& process);
  void add_to_state(const ScannedProcess& process, EventTime start_ns);
  void complete(const ScannedProcess& process);
  [[nodiscard]] RecordBuffer take() { return std::move(additions_); }

 private:
  [[nodiscard]] Trailer trailer(std::uint32_t pid, std::uint32_t tid) const { return {pid, tid, scanned_ns_}; }
  void add_missing(const ScannedProcess& process, const Incarnation& known);
  [[nodiscard]] std::shared_ptr<const MappedFile> program_of(const ScannedProcess& process);

  EventTime scanned_ns_;
  ProcessTable& table_;
  ProcessTable now_;  // the current state: the whole log was replayed
  RecordBuffer additions_;
};

void ScanMerger::learn(const std::vector<ScannedProcess>& scan, const RecordLog& log) {
  std::unordered_set<std::uint32_t> scanned;
  for (const ScannedProcess& process : scan) scanned.insert(process.pid);
  table_.for_each([&](std::uint32_t pid, std::span<const Incarnation> incarnations) {
    if (incarnations.back().alive() || scanned.contains(pid)) now_.borrow(pid, incarnations);
  });
  std::size_t done = 0;
  for (const RecordLog::Entry& entry : log.entries()) {
    now_.apply(log.record(entry), entry.time_ns);
    if (++done % kBoundEvery == 0) now_.strip(kMostReplayBytes);
  }
}

void ScanMerger::merge(const ScannedProcess& process) {
  if (process.pid == 0 || process.pid == kKernelPid) return;
  const auto incarnations = now_.of(process.pid);
  if (incarnations.empty()) return add_to_state(process, process.started_ns);
  const Incarnation& known = incarnations.back();
  // It started later than the known one: another process with the same number, whose FORK was lost.
  if (process.started_ns > known.start_ns + kStartToleranceNs) return add_to_state(process, process.started_ns);
  if (!known.alive()) {
    // It exited while the scan ran, or an earlier scan missed it.
    if (known.exit_ns + kScanSlackNs < scanned_ns_) return add_to_state(process, known.exit_ns + 1);
    if (known.origin == Origin::kInferred) complete(process);  // until then it is the one that the scan found
    return;
  }
  if (known.origin == Origin::kInferred) return complete(process);
  if (known.start_ns > scanned_ns_) return;
  add_missing(process, known);
  // It was forked by a process whose executable was not known, and has executed nothing since then.
  const auto folded = table_.of(process.pid);
  const bool has_program = known.image.program && known.image.program->name != kUnreadProgram;
  if (has_program || folded.empty() || folded.back().image.from_ns != known.image.from_ns) return;
  table_.change(process.pid, known.start_ns, [&](Incarnation& whole) { whole.image.program = program_of(process); });
}

std::shared_ptr<const MappedFile> ScanMerger::program_of(const ScannedProcess& process) {
  const auto map = parse_mmap2(process.program);
  return map ? table_.make_map(*map, 0).file : nullptr;
}

void ScanMerger::add_to_state(const ScannedProcess& process, EventTime start_ns) {
  Incarnation found;
  found.start_ns = found.image.from_ns = start_ns;
  found.parent = process.parent;
  found.origin = Origin::kScan;
  found.image.comm = to_comm(process.comm);
  found.image.maps = table_.make_maps(std::vector(process.maps.begin(), process.maps.end()), start_ns);
  found.image.program = program_of(process);
  for (const ScannedThread& thread : process.threads)
    found.threads.push_back({thread.tid, to_comm(thread.comm), start_ns, 0});
  std::sort(found.threads.begin(), found.threads.end(), [](const Thread& a, const Thread& b) { return a.tid < b.tid; });
  found.live_threads = static_cast<std::uint32_t>(found.threads.size());
  found.unnamed_threads = static_cast<std::uint32_t>(std::min<std::uint64_t>(process.threads_left_out, UINT32_MAX));
  table_.add(process.pid, std::move(found));
}

// Records of it exist from before the first scan: the scan's facts go below them.
void ScanMerger::complete(const ScannedProcess& process) {
  const auto folded = table_.of(process.pid);
  // If it is only in the log, the log is applied on top of the new state.
  if (folded.empty() || folded.back().origin != Origin::kInferred) return add_to_state(process, process.started_ns);
  // A copy, because the next line removes the original.
  const Incarnation partly = folded.back();  // NOLINT(performance-unnecessary-copy-initialization)
  table_.remove(process.pid, partly.start_ns);
  add_to_state(process, std::min(process.started_ns, partly.start_ns));
  table_.change(process.pid, partly.start_ns, [&](Incarnation& whole) {
    whole.parent = process.parent;
    whole.exit_ns = partly.exit_ns;
    if (!name_of(partly.image.comm).empty()) whole.image.comm = partly.image.comm;
    if (partly.image.program) whole.image.program = partly.image.program;
    if (!partly.image.maps) return;
    for (const ProcessMap& map : partly.image.maps->all())
      if (map.file->name != kLostName || map.since_ns > scanned_ns_)
        writable(whole.image.maps, table_.meter()).insert(map);
  });
}

void ScanMerger::add_missing(const ScannedProcess& process, const Incarnation& known) {
  for (const Mmap2Record& map : process.maps)
    if (!known.image.maps || !known.image.maps->covers(map))
      append_mmap2(additions_, map, trailer(process.pid, process.pid));
  for (const ScannedThread& thread : process.threads) {
    if (known.find_thread(thread.tid) != nullptr) continue;
    const Trailer at = trailer(process.pid, thread.tid);
    append_fork(additions_, {process.pid, process.pid, thread.tid, process.pid, scanned_ns_}, at);
    append_comm(additions_, {process.pid, thread.tid, thread.comm}, at);
  }
  note_unnamed_threads(process, known, scanned_ns_, additions_);
}

ScanMerge merge_processes(const Scan& scan, EventTime scanned_ns, const Gaps& gaps, const RecordLog& log,
                          ProcessTable& table) {
  const DoubtScope scope(gaps.pending(), gaps.unread(), scanned_ns);
  const bool give_up = gaps.gives_up() && !scope.concerns_all();
  ScanMerger merger(scanned_ns, table);
  ScanMerge out{.additions = {}, .unsure = 0, .unread = {}, .settled = true, .old_bpf = {}, .partly_read = {}};
  for (const ScannedProcess& process : scan.processes)
    if (process.unread || process.partly) out.partly_read.insert(process.pid);
  if (!scope.concerns_nobody()) {
    Doubts doubts = clear_up(scope, &scan, scanned_ns, give_up, log, table);
    for (const ScannedProcess& process : doubts.unknown) {
      // Its name during the gap is unknown; before the gap it was unknown, too.
      const EventTime end_ns = scope.end_ns(process.pid);
      const EventTime since_ns = scope.begin_ns(process.pid) == end_ns ? 0 : end_ns;
      merger.add_to_state(process, std::max(process.started_ns, since_ns));
    }
    for (const ScannedProcess& process : doubts.incomplete) merger.complete(process);
    out.additions = std::move(doubts.additions);
    out.unsure = doubts.unsure;
    out.unread = std::move(doubts.unread);
  }
  if (scope.concerns_all()) return out;
  merger.learn(scan.processes, log);
  for (const ScannedProcess& process : scan.processes) {
    if (scope.concerns(process.pid)) continue;
    if ((process.unread || process.partly) && !give_up)
      out.unread.left.try_emplace(process.pid, Unread::Left{.in_doubt = false});
    if (!process.unread) merger.merge(process);
  }
  const RecordBuffer missing = merger.take();
  out.additions.insert(out.additions.end(), missing.begin(), missing.end());
  return out;
}

}  // namespace

ScanMerge merge_scan(std::span<const std::byte> bytes, EventTime scanned_ns, const Gaps& gaps,
                     std::optional<SymbolGap>& symbol_gap, EventTime known_from_ns, const RecordLog& log,
                     const ClockHistory& clock, ProcessTable& table, KernelTable& kernel) {
  const Scan scan = read_scan(bytes, clock, kernel);
  if (scan.processes.empty()) return {};
  ScanMerge out = merge_processes(scan, scanned_ns, gaps, log, table);
  if (const auto& gap = gaps.pending(); gap && gap->begin_ns < gap->end_ns) {
    if (!symbol_gap) symbol_gap = SymbolGap{.begin_ns = gap->begin_ns, .end_ns = gap->end_ns};
    symbol_gap->begin_ns = std::min(symbol_gap->begin_ns, gap->begin_ns);
    symbol_gap->end_ns = std::max(symbol_gap->end_ns, gap->end_ns);
  }
  if (!scan.symbols) return out;
  std::optional<SymbolGap> before = symbol_gap;
  if (before && before->begin_ns > scan.symbols->read_ns) before.reset();
  if (before) before->end_ns = std::min(before->end_ns, scan.symbols->read_ns);
  out.old_bpf = merge_symbols(*scan.symbols, before, known_from_ns, log, kernel, out.additions);
  if (symbol_gap && symbol_gap->end_ns <= scan.symbols->read_ns)
    symbol_gap.reset();
  else if (symbol_gap)
    symbol_gap->begin_ns = std::max(symbol_gap->begin_ns, scan.symbols->read_ns);
  return out;
}

}  // namespace flight
