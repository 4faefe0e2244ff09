// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/process_tracker.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/checkpoint.hpp"
#include "libcore/sideband/doubt_scope.hpp"
#include "libcore/sideband/export.hpp"
#include "libcore/sideband/notes.hpp"
#include "libcore/sideband/process_tracker_state.hpp"
#include "libcore/sideband/process_writer.hpp"
#include "libcore/sideband/scan.hpp"
#include "libcore/sideband/scan_time.hpp"

namespace flight {
namespace {

EventTime oldest_of(std::span<const std::byte> records) {
  EventTime oldest_ns = Revisions::kNever;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (load<perf_event_header>(record.data()).type == kNoteRecord) continue;  // no file gets it
    if (const auto trailer = parse_trailer(record)) oldest_ns = std::min(oldest_ns, trailer->time_ns);
  }
  return oldest_ns;
}

}  // namespace

ProcessTracker::ProcessTracker(TrackerLimits limits) : state_(std::make_unique<State>(limits)) {}
ProcessTracker::ProcessTracker(ProcessTracker&&) noexcept = default;
ProcessTracker& ProcessTracker::operator=(ProcessTracker&&) noexcept = default;
ProcessTracker::~ProcessTracker() = default;

void ProcessTracker::add(std::span<const std::byte> records, EventTime drained_ns) {
  state_->drained_ns = std::max(state_->drained_ns, drained_ns);
  state_->drained_to_ns = state_->newest_ns;
  state_->append(records);
  state_->fold_early();
  state_->shrink();
}

void ProcessTracker::add_full(std::uint32_t cpu, EventTime begin_ns, EventTime end_ns) {
  State& state = *state_;
  begin_ns = std::min(begin_ns, end_ns);
  if (state.full.size() >= kMostCpus) state.full.clear();
  auto& known = state.full.try_emplace(cpu, begin_ns, end_ns).first->second;
  known.second = end_ns;
  state.gaps.add({.begin_ns = begin_ns, .end_ns = end_ns, .full = true});
}

void ProcessTracker::add_gap(EventTime begin_ns, EventTime end_ns) {
  state_->gaps.add({.begin_ns = begin_ns, .end_ns = std::max(begin_ns, end_ns)});
}

void ProcessTracker::add_gap_until(EventTime end_ns) { add_gap(std::min(state_->newest_ns, end_ns), end_ns); }

void ProcessTracker::blame(std::string who) { state_->gaps.blame(std::move(who)); }

EventTime ProcessTracker::add_scan(std::span<const std::byte> records, EventTime asked_ns,
                                   const std::unordered_set<std::uint32_t>& wanted, const ClockHistory& clock,
                                   EventTime read_ns) {
  State& state = *state_;
  // If it began later, it is still of the request: what Intake drops from then on can be newer (Intake::looking).
  const EventTime began_ns = scan_time(records);
  const EventTime scanned_ns = began_ns != 0 ? std::min(began_ns, asked_ns) : asked_ns;
  const DoubtScope scope(state.gaps.pending(), state.gaps.unread(), scanned_ns);
  EventTime changed_ns = scope.first_begin_ns() < scope.last_end_ns() ? scope.first_begin_ns() : Revisions::kNever;
  ScanMerge merged = merge_scan(records, scanned_ns, state.gaps, state.symbol_gap, state.known_from_ns, state.log,
                                clock, state.table, state.kernel);
  if (merged.old_bpf) state.old_bpf = merged.old_bpf;
  if (merged.settled) {
    state.gaps.settle(scanned_ns, merged.unsure, std::move(merged.unread));
    state.scan_read_ns = read_ns;
    state.partly_read = std::move(merged.partly_read);
  }
  if (!merged.settled) changed_ns = Revisions::kNever;
  changed_ns = std::min(changed_ns, oldest_of(merged.additions));
  if (changed_ns != Revisions::kNever) state.revisions.add(changed_ns);
  state.unsure += merged.unsure;
  if (merged.settled && !state.gaps.unread().in_doubt()) {
    state.living.found_living(scanned_ns);
    state.threads.found_living(scanned_ns);
  }
  state.table.mark_sampled(wanted, 0, scanned_ns);
  state.append(merged.additions);
  state.fold_early();
  state.shrink();
  return scanned_ns;
}

void ProcessTracker::fold(EventTime horizon_ns) {
  const EventTime forgotten_ns = horizon_ns - std::min(horizon_ns, state_->limits.dying_ns);
  state_->table.forget(forgotten_ns);
  state_->kernel.forget(horizon_ns);
  state_->evicted.forget(forgotten_ns);
  state_->evicted_maps.forget(forgotten_ns);
  state_->living.forget(forgotten_ns);
  state_->images.forget(forgotten_ns);
  state_->threads.forget(forgotten_ns);
  state_->replaced.forget(forgotten_ns);
  state_->names.forget(forgotten_ns);
  state_->strangers.forget(forgotten_ns);
  state_->floods.forget(forgotten_ns);
  const auto entries = state_->log.entries();
  const auto end = std::lower_bound(entries.begin(), entries.end(), horizon_ns,
                                    [](const auto& entry, EventTime time) { return entry.time_ns < time; });
  state_->fold_front(static_cast<std::size_t>(end - entries.begin()), false);
  state_->gaps.forget(forgotten_ns);  // the forks above needed them
  state_->forks.forget(horizon_ns);
  state_->shrink();
}

CheckpointOmissions ProcessTracker::checkpoint(std::size_t most_state_bytes,
                                               const std::function<void(std::span<const std::byte>)>& write) const {
  RecordBuffer gaps;
  for (const SidebandGap& gap : state_->gaps.all())
    append_lost(gaps, {gap.begin_ns, gap.lost}, {.time_ns = gap.end_ns, .reserved = kSettledGap});
  if (const auto& gap = state_->gaps.pending(); gap && gap->begin_ns < gap->end_ns)
    append_lost(gaps, {gap->begin_ns, 0}, {.time_ns = gap->end_ns, .reserved = kOpenGap});
  for (const auto& [pid, left] : state_->gaps.unread().left)
    if (left.in_doubt)
      append_lost(gaps, {left.begin_ns, 0}, {.pid = pid, .tid = pid, .time_ns = left.end_ns, .reserved = kUnreadInGap});
  // The next flightd scans, which finds the living ones again.
  const auto until = [this](const Forgotten& some) {
    return some.until_ns() == Forgotten::kLiving ? state_->newest_ns : some.until_ns();
  };
  const auto put_note = [&](NoteKind kind, const Forgotten& some) {
    if (const std::uint64_t count = some.since(0); count > 0)
      append_note(gaps, {.kind = kind, .count = count}, {.time_ns = until(some)});
  };
  put_note(NoteKind::images, state_->images);
  put_note(NoteKind::threads, state_->threads);
  put_note(NoteKind::replaced, state_->replaced);
  put_note(NoteKind::names, state_->names);
  put_note(NoteKind::strangers, state_->strangers);
  for (const Floods::Flood& flood : state_->floods.all())
    append_note(gaps,
                {.kind = flood.renames ? NoteKind::renames : NoteKind::flood,
                 .pid = flood.pid,
                 .count = flood.left_out,
                 .begin_ns = flood.begin_ns},
                {.time_ns = flood.end_ns});
  write(gaps);
  CheckpointOmissions out = write_checkpoint(state_->log, state_->table, state_->kernel, most_state_bytes, write);
  const State& state = *state_;
  TrackerLosses& losses = out.losses;
  losses.evicted += state.evicted.since(0);
  losses.evicted_until_ns = std::max(losses.evicted_until_ns, state.evicted.until_ns());
  losses.evicted_maps = state.evicted_maps.since(0);
  losses.evicted_maps_until_ns = state.evicted_maps.until_ns();
  losses.known_from_ns = state.known_from_ns;
  // Only the forks in the log are written.
  losses.forks_from_ns = std::max(state.forks_from_ns, state.newest_fork_ns != 0 ? state.newest_fork_ns + 1 : 0);
  return out;
}

void ProcessTracker::append_state(std::uint32_t pid, RecordBuffer& out) const {
  ProcessWriter writer(0, ~EventTime{0}, out, nullptr);
  for (const Incarnation& process : state_->table.of(pid)) writer.write(pid, process);
  writer.flush();
}

void ProcessTracker::replay(std::span<const std::byte> records, const TrackerLosses& losses) {
  state_->replaying = true;
  add(records);
  state_->replaying = false;
  // A checkpoint's state does not say when cgroups were made.
  for (const RecordLog::Entry& entry : state_->log.entries()) {
    if (parse_trailer(state_->log.record(entry))->id == 0) continue;
    state_->made_ns = std::max(state_->made_ns, entry.time_ns);
    break;
  }
  state_->evicted.add(losses.evicted_until_ns, losses.evicted);
  state_->evicted_maps.add(losses.evicted_maps_until_ns, losses.evicted_maps);
  state_->known_from_ns = std::max(state_->known_from_ns, losses.known_from_ns);
  state_->forks_from_ns = std::max(state_->forks_from_ns, losses.forks_from_ns);
  add_gap(state_->newest_ns, state_->newest_ns);  // nothing is known to be missing, but a scan is needed
}

void ProcessTracker::know_from(EventTime from_ns) {
  state_->known_from_ns = std::max(state_->known_from_ns, from_ns);
  state_->forks_from_ns = std::max(state_->forks_from_ns, from_ns);
}

void ProcessTracker::drop_known(RecordBuffer& records) const {
  RecordBuffer unknown;
  std::span<const std::byte> rest = records;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    if (!state_->has(record)) unknown.insert(unknown.end(), record.begin(), record.end());
  }
  records = std::move(unknown);
}

bool ProcessTracker::lacks(const std::unordered_set<std::uint32_t>& pids) const {
  if (state_->living.until_ns() != Forgotten::kLiving) return false;
  std::vector<ProcessAt> unknown;
  for (const std::uint32_t pid : pids)
    if (pid != 0 && pid != UINT32_MAX && state_->table.of(pid).empty()) unknown.push_back({pid, state_->newest_ns});
  if (unknown.empty()) return false;
  const std::vector<std::string> names = comms_of(unknown);  // of those that began a moment ago
  return std::any_of(names.begin(), names.end(), [](const std::string& name) { return name.empty(); });
}

std::vector<std::string> ProcessTracker::comms_of(std::span<const ProcessAt> asked) const {
  return comms_in(state_->log, state_->table, asked);
}

void ProcessTracker::date_forker_cgroups(TrackerExport& window) const {
  if (window.forker_cgroups.empty()) return;
  for (const RecordLog::Entry& entry : state_->log.entries()) {
    if (entry.type != PERF_RECORD_CGROUP) continue;
    const auto made = parse_cgroup(state_->log.record(entry));
    if (!made) continue;
    for (auto& [pid, cgroup] : window.forker_cgroups)
      if (cgroup.path == made->path) cgroup.since_ns = entry.time_ns;
  }
}

std::unordered_set<std::uint32_t> ProcessTracker::pids() const { return pids_in(state_->log, state_->table); }

void ProcessTracker::mark_sampled(EventTime begin_ns, EventTime end_ns, const std::unordered_set<std::uint32_t>& pids,
                                  const std::unordered_set<std::uint64_t>& cgroups) {
  state_->table.mark_sampled(pids, begin_ns, end_ns);
  state_->kernel.mark_sampled(cgroups);
}

std::vector<std::string> ProcessTracker::flood_warnings(EventTime begin_ns, EventTime end_ns) const {
  return state_->floods.texts(begin_ns, end_ns, [this](std::span<const Floods::Flood> floods) {
    std::vector<ProcessAt> asked;
    for (const Floods::Flood& flood : floods) asked.push_back({flood.pid, flood.end_ns});
    return comms_of(asked);
  });
}

std::string_view ProcessTracker::memory_advice() const { return state_->advice(); }
bool ProcessTracker::stale() const { return state_->gaps.stale(); }
bool ProcessTracker::has_open_gap() const { return state_->gaps.pending().has_value(); }
bool ProcessTracker::wants_scan() const { return state_->gaps.wants_scan(); }
std::uint64_t ProcessTracker::lost() const { return state_->lost; }
std::span<const SidebandGap> ProcessTracker::gaps() const { return state_->gaps.all(); }

TrackerStats ProcessTracker::stats() const {
  const State& state = *state_;
  TrackerStats stats;
  const std::uint64_t seen = state.table.alive() + state.logged_forks;
  stats.processes = seen - std::min(seen, state.logged_exits);
  stats.exited = state.table.dead() + state.logged_exits;
  stats.evicted = state.evicted.since(0);
  stats.evicted_until_ns = state.evicted.until_ns();
  stats.living = state.living.between(Forgotten::kLiving, Forgotten::kLiving);
  stats.forgotten = {.replaced = state.replaced.since(0),
                     .names = state.names.since(0),
                     .images = state.images.since(0),
                     .threads = state.threads.since(0),
                     .symbols = state.kernel.forgotten_symbols(),
                     .cgroups = state.kernel.forgotten_cgroups()};
  stats.strangers = state.strangers.since(0);
  stats.stale = state.gaps.stale();
  stats.lost = state.lost;
  stats.unsure = state.unsure;
  stats.log_bytes = state.log.bytes();
  stats.state_bytes = state.table.bytes() + state.kernel.bytes();
  return stats;
}

}  // namespace flight
