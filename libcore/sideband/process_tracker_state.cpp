// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/process_tracker_state.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/base/units.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/sideband/kept_records.hpp"
#include "libcore/sideband/notes.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

// The rings of several CPUs are drained one after the other, every 100 ms. Until all of them were drained, older
// records than the present ones may still come.
constexpr EventTime kHoldBackNs = 500'000'000;
// A record gets its time a moment before it is in the ring.
constexpr EventTime kLateNs = 5'000'000;
// The rings are drained at least this often.
constexpr EventTime kDrainedWithinNs = 2'000'000'000;

// The number of processes that are called kLostName since some time in the gap, or since the window's beginning.
std::size_t lost_in(const TrackerExport& window, const SidebandGap& gap,
                    const std::unordered_set<std::uint32_t>* pids) {
  std::unordered_set<std::uint32_t> out;
  for (const RecordBuffer* records : {&window.prologue, &window.log}) {
    std::span<const std::byte> rest = *records;
    for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
      rest = rest.subspan(record.size());
      const auto comm = parse_comm(record);
      if (!comm || !comm->lost || (pids != nullptr && !pids->contains(comm->pid))) continue;
      const EventTime time_ns = parse_trailer(record)->time_ns;
      if (time_ns == 0 || (time_ns >= gap.begin_ns && time_ns <= gap.end_ns)) out.insert(comm->pid);
    }
  }
  return out.size();
}

}  // namespace

// Counts how the log will change the state, so that stats() need not replay it.
void ProcessTracker::State::count(const RecordLog::Entry& entry, std::uint64_t change) {
  if (entry.type != PERF_RECORD_FORK && entry.type != PERF_RECORD_EXIT) return;
  const auto task = parse_task(log.record(entry));
  if (!task || task->pid != task->tid) return;
  (entry.type == PERF_RECORD_FORK ? logged_forks : logged_exits) += change;
}

void ProcessTracker::State::append(std::span<const std::byte> records) {
  while (!records.empty()) {
    const auto record = next_record(records);
    if (record.empty()) {
      if (replaying) break;  // the last write was truncated; its ring still has the record
      gaps.add({.begin_ns = newest_ns, .end_ns = std::max(newest_ns + 1, drained_ns)});  // the rest is unknown
      break;
    }
    records = records.subspan(record.size());
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == PERF_RECORD_LOST) append_lost(record);
    if (type == kNoteRecord ? take_note(record) : !is_whole(type, record) || has_no_number(type, record)) continue;
    const Trailer trailer = *parse_trailer(record);
    count(log.append(record, static_cast<std::uint16_t>(type), trailer.time_ns), 1);
    if (trailer.id == 0) continue;  // written by flightd
    newest_ns = std::max(newest_ns, trailer.time_ns);
    if (last_of_cpu.size() < kMostCpus || last_of_cpu.contains(trailer.cpu)) last_of_cpu[trailer.cpu] = trailer.time_ns;
  }
  log.settle();
}

EventTime ProcessTracker::State::last_of(std::uint32_t cpu) const {
  const auto last = last_of_cpu.find(cpu);
  return last != last_of_cpu.end() ? last->second : drained_to_ns;
}

bool ProcessTracker::State::take_note(std::span<const std::byte> record) {
  const auto note = parse_note(record);
  if (!note) return true;
  const EventTime time_ns = parse_trailer(record)->time_ns;
  switch (note->kind) {
    case NoteKind::maps:
    case NoteKind::unnamed:
      return false;
    case NoteKind::images:
      images.add(time_ns, note->count);
      return true;
    case NoteKind::threads:
      threads.add(time_ns, note->count);
      return true;
    case NoteKind::replaced:
      replaced.add(time_ns, note->count);
      return true;
    case NoteKind::names:
      names.add(time_ns, note->count);
      return true;
    case NoteKind::strangers:
      strangers.add(time_ns, note->count);
      if (!replaying) gaps.add({.begin_ns = time_ns, .end_ns = time_ns});  // a scan finds what they would have shown
      return true;
    case NoteKind::flood:
    case NoteKind::renames:
      floods.add({.pid = note->pid,
                  .left_out = note->count,
                  .begin_ns = note->begin_ns != 0 ? note->begin_ns : time_ns,
                  .end_ns = time_ns,
                  .renames = note->kind == NoteKind::renames});
      return true;
    case NoteKind::cgroups:
      kernel.add_forgotten_cgroups(note->count);
      made_ns = std::max(made_ns, time_ns);
      return true;
  }
  return true;  // of a later flightd
}

// The kernel reports a loss with the first record that fits again, in the same ring.
void ProcessTracker::State::append_lost(std::span<const std::byte> record) {
  const auto fields = lost_fields(record);
  const auto trailer = parse_trailer(record);
  if (!fields || !trailer) return;
  SidebandGap gap{.begin_ns = 0, .end_ns = trailer->time_ns, .lost = fields->lost, .unsure = 0, .who = {}};
  if (trailer->reserved == kOpenGap || trailer->reserved == kSettledGap) {
    gap.begin_ns = std::min(fields->id, gap.end_ns);
    if (trailer->reserved == kSettledGap) return gaps.add_settled(std::move(gap));
  } else if (trailer->reserved == kUnreadInGap) {
    return gaps.add_unread(trailer->pid, std::min(fields->id, gap.end_ns), gap.end_ns);
  } else {
    lost += fields->lost;
    if (const auto known = full.extract(trailer->cpu); !known.empty())
      return gaps.count(known.mapped().first, known.mapped().second, fields->lost);
    gap.begin_ns = std::min(trailer->reserved == kLostSince ? fields->id : last_of(trailer->cpu), gap.end_ns);
  }
  gaps.add(std::move(gap));
}

bool ProcessTracker::State::has(std::span<const std::byte> record) const {
  const auto trailer = parse_trailer(record);
  if (!trailer) return false;
  const auto entries = log.entries();
  auto known = std::lower_bound(entries.begin(), entries.end(), trailer->time_ns,
                                [](const auto& entry, EventTime time) { return entry.time_ns < time; });
  for (; known != entries.end() && known->time_ns == trailer->time_ns; ++known) {
    const auto other = log.record(*known);
    if (std::equal(record.begin(), record.end(), other.begin(), other.end())) return true;
  }
  return false;
}

// Call it before the table has the record.
void ProcessTracker::State::count_fork(const RecordLog::Entry& entry) {
  if (entry.type != PERF_RECORD_FORK) return;
  const auto record = log.record(entry);
  const auto task = parse_task(record);
  if (!task || task->pid != task->tid || parse_trailer(record)->id == 0) return;
  const FindForker find = [this](std::uint32_t pid, EventTime time_ns) { return forker_in(table, pid, time_ns); };
  const MayMove may_move = [this](EventTime from_ns, EventTime to_ns) {
    return made_ns >= from_ns || gaps.between(from_ns, to_ns);
  };
  forks.add(entry.time_ns, forker_of(task->ppid, entry.time_ns, find, may_move));
  newest_fork_ns = std::max(newest_fork_ns, entry.time_ns);
}

std::vector<ForkCount> ProcessTracker::State::forks_between(const RecordLog& records, EventTime begin_ns,
                                                            EventTime end_ns) const {
  std::vector<ForkCount> out = forks.all();
  std::erase_if(out, [&](const ForkCount& one) { return one.end_ns <= begin_ns || one.begin_ns > end_ns; });
  const auto recent = forks_in(records, table, gaps, made_ns, begin_ns, end_ns);
  out.insert(out.end(), recent.begin(), recent.end());
  return out;
}

void ProcessTracker::State::fold_front(std::size_t count_records, bool early) {
  std::size_t done = 0;
  for (const RecordLog::Entry& entry : log.entries().first(count_records)) {
    const auto record = log.record(entry);
    count(entry, ~std::uint64_t{0});  // -1
    count_fork(entry);
    table.apply(record, entry.time_ns);
    if (const std::uint64_t gone = table.take_replaced(); early) replaced.add(entry.time_ns, gone);
    kernel.apply(record);
    if (entry.type == PERF_RECORD_CGROUP) made_ns = std::max(made_ns, entry.time_ns);
    if (++done % kBoundEvery == 0) shrink();
  }
  if (count_records > 0) folded_ns = std::max(folded_ns, log.entries()[count_records - 1].time_ns);
  log.drop_front(count_records);
}

// The log is over its limit although the horizon is further back: its oldest half becomes state, with its times.
void ProcessTracker::State::fold_early() {
  while (log.bytes() > limits.log_bytes) {
    const auto entries = log.entries();
    const std::size_t enough = entries.size() - entries.size() / 2;
    const EventTime newest = entries.back().time_ns;
    const EventTime held_back = newest > kHoldBackNs ? newest - kHoldBackNs : 0;
    const EventTime cut = drained_ns != 0 ? drained_ns - std::min(drained_ns, kLateNs) : held_back;
    const auto safe = std::upper_bound(entries.begin(), entries.end(), cut,
                                       [](EventTime time, const auto& entry) { return time < entry.time_ns; });
    std::size_t some = std::min(enough, static_cast<std::size_t>(safe - entries.begin()));
    if (some == 0) {
      // With so many records in so little time, late records may be assigned wrongly. So request a scan.
      gaps.add({.begin_ns = newest, .end_ns = newest});
      some = enough;
    }
    fold_front(some, true);
  }
}

EventTime ProcessTracker::State::names_from_ns(EventTime begin_ns) const {
  EventTime from_ns = known_from_ns > begin_ns ? known_from_ns : 0;
  if (evicted.since(begin_ns) > 0) from_ns = std::max(from_ns, evicted.until_ns() + 1);
  if (living.since(begin_ns) > 0) from_ns = std::max(from_ns, living.until_ns());
  return from_ns;
}

// Cgroups: the reader of the samples reports those that are missing (libcore/snapshot/unknown_cgroups.hpp).
void ProcessTracker::State::warn_of_forgotten(TrackerExport& window) const {
  const ForgottenFacts& facts = window.forgotten;
  if (facts.maps > 0)
    window.warnings.push_back(
        fmt::format("names: {} of {} {} forgotten (at most {} are kept for a process, fewer if memory is short): "
                    "their code has no symbols",
                    counted(facts.maps, "executable mapping"), counted(facts.of_processes, "process"),
                    was_or_were(facts.maps), kMaxMapsPerProcess));
  if (facts.images > 0)
    window.warnings.push_back(
        fmt::format("names: what living processes were before {} was forgotten (limit reached): in this window they "
                    "have no names until then: {}",
                    counted(facts.images, "exec"), advice()));
  if (facts.threads > 0)
    window.warnings.push_back(
        fmt::format("names: {} of living processes {} forgotten (limit reached); in this window they have no names: {}",
                    counted(facts.threads, "thread"), was_or_were(facts.threads), advice()));
  if (facts.replaced > 0)
    window.warnings.push_back(fmt::format(
        "names: {} {} replaced by others and forgotten (limit reached): until then, code there has no names "
        "in this window: {}",
        counted(facts.replaced, "executable mapping"), was_or_were(facts.replaced), advice()));
  if (facts.names > 0)
    window.warnings.push_back(
        fmt::format("names: {} that tasks had before they were renamed {} forgotten (limit reached): until then, all "
                    "tasks of their processes are called {} in this window: {}",
                    counted(facts.names, "name"), was_or_were(facts.names), kLostName, advice()));
  if (facts.unnamed > 0)
    window.warnings.push_back(fmt::format(
        "names: {} of {} {}: flightd looks up at most {} threads of a process, and these began before it or "
        "while records were lost",
        counted(facts.unnamed, "thread"), counted(facts.unnamed_of, "process"),
        facts.unnamed == 1 ? "has no name, only a number" : "have no names, only numbers", kMostThreads));
  if (facts.symbols > 0)
    window.warnings.push_back(fmt::format(
        "names: {} of the kernel's generated code {} forgotten (limit reached, the oldest first): this code "
        "has no names",
        counted(facts.symbols, "symbol"), was_or_were(facts.symbols)));
}

// Which names are unknown because of the gaps, and why.
void ProcessTracker::State::warn_of_gaps(TrackerExport& window, EventTime begin_ns, EventTime end_ns,
                                         const DoubtScope* doubts,
                                         const std::unordered_set<std::uint32_t>* pids) const {
  for (const SidebandGap& gap : gaps.all()) {
    if (gap.begin_ns > end_ns || gap.end_ns + limits.dying_ns < begin_ns) continue;
    window.gaps.push_back(gap);
    if (gap.end_ns < begin_ns) continue;
    const double seconds = static_cast<double>(gap.end_ns - gap.begin_ns) / 1e9;
    if (gap.lost == 0 && !gap.full) {
      // Meanwhile there were no samples, but there were some between its end and the scan, and while the rings were
      // paused one after the other.
      const bool is_open = doubts != nullptr && doubts->concerns_all();  // the reason is below
      const std::size_t count = is_open ? 0 : lost_in(window, gap, pids);
      if (count > 0)
        window.warnings.push_back(fmt::format(
            "names: nothing was recorded for {:.3f} s: {} {} called {}, because {} ended or changed "
            "meanwhile, or ended before flightd could look up what runs",
            seconds, counted(count, "process"), count == 1 ? "is" : "are", kLostName, count == 1 ? "it" : "they"));
      continue;
    }
    window.warnings.push_back(fmt::format(
        "names: {} within {:.3f} s{}: {} without a certain name {} called {}, and other processes of that time have "
        "none",
        gap.lost == 0 ? "sideband records may have been lost"
                      : fmt::format("{} {} lost", counted(gap.lost, "sideband record"), was_or_were(gap.lost)),
        seconds, gap.who.empty() ? "" : "; " + gap.who, counted(gap.unsure, "process"), gap.unsure == 1 ? "is" : "are",
        kLostName));
  }
  if (doubts != nullptr)
    window.warnings.push_back(
        fmt::format("names: what ran after records were lost, or after a time without recording, could not be looked "
                    "up in time: {} that had run before {} called {} until the next look at the processes",
                    doubts->concerns_all() ? "all processes" : counted(doubts->unread_count(), "process"),
                    !doubts->concerns_all() && doubts->unread_count() == 1 ? "is" : "are", kLostName));
}

// Adds the warnings that limit the trust in this window's names.
void ProcessTracker::State::warn(TrackerExport& window, EventTime begin_ns, EventTime end_ns, const DoubtScope* doubts,
                                 const std::unordered_set<std::uint32_t>& pids) const {
  warn_of_gaps(window, begin_ns, end_ns, doubts, &pids);
  if (known_from_ns > begin_ns)
    window.warnings.push_back(
        fmt::format("names: there is no data of an earlier flightd about processes: those that exited earlier than "
                    "{:.1f} s before the end of this window have no names, and their forks are not counted",
                    static_cast<double>(end_ns - std::min(end_ns, known_from_ns)) / 1e9));
  if (const std::uint64_t count = evicted.since(begin_ns); count > 0)
    window.warnings.push_back(
        fmt::format("names: {} that had exited {} forgotten (limit reached); in this window they have no names: {}",
                    counted(count, "process"), was_or_were(count), advice()));
  if (const std::uint64_t count = living.since(begin_ns); count > 0)
    window.warnings.push_back(
        fmt::format("names: {} {} forgotten while {} alive (limit reached); {} no names until the next look at the "
                    "processes: {}",
                    counted(count, "process"), was_or_were(count), count == 1 ? "it was" : "they were",
                    count == 1 ? "it has" : "they have", advice()));
  if (const std::uint64_t count = evicted_maps.since(begin_ns); count > 0)
    window.warnings.push_back(
        fmt::format("names: the mappings of {} that had exited were forgotten (limit reached): in this window these "
                    "processes have names, but no symbols",
                    counted(count, "process")));
  warn_of_forgotten(window);
  if (const std::uint64_t count = strangers.between(begin_ns, end_ns + kDrainedWithinNs); count > 0)
    window.warnings.push_back(
        fmt::format("names: {} had an unknown event id and {} dropped: names may be missing until the next look at the "
                    "processes",
                    counted(count, "sideband record"), was_or_were(count)));
  if (window.left_out > 0)
    window.warnings.push_back(
        fmt::format("names: the executable mappings of {} were left out: all mappings would take more than {} MiB",
                    counted(window.left_out, "process"), limits.export_bytes >> 20U));
  if (const std::string_view text = text_of(old_bpf.value_or(OldBpf::listed)); !text.empty())
    (old_bpf == OldBpf::not_listed ? window.notes : window.warnings).emplace_back(text);
}

void ProcessTracker::State::shrink() {
  const std::size_t rest = limits.state_bytes - std::min(limits.state_bytes, kernel.bytes());
  const auto gone = table.shrink(rest);
  evicted.add(gone.until_ns, gone.processes);
  living.add(Forgotten::kLiving, gone.living);
  evicted_maps.add(gone.maps_until_ns, gone.maps);
  images.add(gone.images_until_ns, gone.images);
  threads.add(gone.threads_until_ns, gone.threads);
  const PastNames::Lost lost_names = table.take_lost_names();
  names.add(lost_names.until_ns, lost_names.count);
}

}  // namespace flight
