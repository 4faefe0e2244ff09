// SPDX-License-Identifier: Apache-2.0
// What the process tracker gives to files: a window of a snapshot, and piece after piece of a recording.
//
// A recording has written the names of earlier rounds when a scan corrects them, so the log's records are not enough:
//
//              gap known      scan                    the part gets
//   ──round──┬────round──┬─────┼──round──             1  all processes again, called kLostName, and no new names
//            1           .     2                      2  all processes again, as the scan confirms or corrects them
//
// Where the scan comes before the next round, there is only 2.
#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/doubt.hpp"
#include "libcore/sideband/export.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/process_tracker_state.hpp"

namespace flight {
namespace {

// The processes of `unread` whose names are in doubt until the next scan.
Unread in_doubt(const Unread& unread) {
  Unread out;
  for (const auto& [pid, left] : unread.left)
    if (left.in_doubt) out.left.emplace(pid, left);
  return out;
}

// `symbols`: the gap after which no list of symbols was read.
RecordLog with_doubts(const RecordLog& log, const ProcessTable& table, const DoubtScope& scope,
                      const KernelTable& kernel, const std::optional<SymbolGap>& symbols) {
  RecordLog out;
  const auto append = [&out](std::span<const std::byte> record, EventTime time_ns) {
    out.append(record, static_cast<std::uint16_t>(load<perf_event_header>(record.data()).type), time_ns);
  };
  for (const RecordLog::Entry& entry : log.entries()) append(log.record(entry), entry.time_ns);
  Doubts doubts = clear_up(scope, nullptr, ~EventTime{0}, true, log, table);
  if (symbols) end_symbols(*symbols, log, kernel, doubts.additions);
  std::span<const std::byte> rest = doubts.additions;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    append(record, parse_trailer(record)->time_ns);
  }
  out.settle();
  return out;
}

void append_whole(RecordBuffer& out, std::span<const std::byte> record) {
  out.insert(out.end(), record.begin(), record.end());
}

bool is_symbol_end(const KsymbolRecord& symbol) { return (symbol.flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) != 0; }

// The records without what says what a process or a symbol is, from `from_ns` on.
RecordBuffer without_names(std::span<const std::byte> records, EventTime from_ns) {
  RecordBuffer out;
  out.reserve(records.size());
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    const auto trailer = parse_trailer(record);
    if (!trailer || trailer->time_ns < from_ns) {
      append_whole(out, record);
    } else if (const auto comm = parse_comm(record)) {
      append_comm(out, {.pid = comm->pid, .tid = comm->tid, .name = kLostName, .exec = comm->exec, .lost = true},
                  *trailer);
    } else if (const auto symbol = parse_ksymbol(record)) {
      if (is_symbol_end(*symbol)) append_whole(out, record);
    } else if (const auto map = parse_mmap2(record); !map || map->cpumode != PERF_RECORD_MISC_USER) {
      append_whole(out, record);
    }
  }
  return out;
}

// What ended in [from_ns, until_ns]: the file may have been written before that was known, and readers keep the name of
// a task after its EXIT. What the state has beside it gets its name again a moment later.
RecordBuffer ended_between(const RecordLog& log, EventTime from_ns, EventTime until_ns) {
  RecordBuffer out;
  const auto all = log.entries();
  auto entry = std::lower_bound(all.begin(), all.end(), from_ns,
                                [](const auto& one, EventTime time) { return one.time_ns < time; });
  for (; entry != all.end() && entry->time_ns <= until_ns; ++entry) {
    if (entry->type == PERF_RECORD_EXIT) {
      if (const auto task = parse_task(log.record(*entry)))
        append_comm(out, {.pid = task->pid, .tid = task->tid, .name = kLostName, .lost = true},
                    {task->pid, task->tid, until_ns});
    } else if (entry->type == PERF_RECORD_KSYMBOL) {
      if (const auto symbol = parse_ksymbol(log.record(*entry)); symbol && is_symbol_end(*symbol))
        append_ksymbol(out, *symbol, {.time_ns = until_ns});
    }
  }
  return out;
}

// A state in the middle of a file: a reader acts at once on a record of time 0, and may then have samples that it has
// not handled yet. So each record gets the state's time; all but FORK one nanosecond later, since not every reader
// keeps the order of equal times.
void set_times(RecordBuffer& state, EventTime at_ns) {
  constexpr std::size_t kTimeFromEnd = sizeof(Trailer) - offsetof(Trailer, time_ns);
  std::size_t end = 0;
  for (auto record = next_record(state); !record.empty();
       record = next_record(std::span<const std::byte>(state).subspan(end))) {
    const bool fork = load<perf_event_header>(record.data()).type == PERF_RECORD_FORK;
    const EventTime time_ns = fork ? at_ns : at_ns + 1;
    end += record.size();
    std::memcpy(state.data() + end - kTimeFromEnd, &time_ns, sizeof time_ns);
  }
}

}  // namespace

ProcessTracker::State::View::View(const State& state, EventTime end_ns)
    : state_(state),
      unread_(in_doubt(state.gaps.unread())),
      scope_(state.gaps.pending(), unread_, ~EventTime{0}),
      doubtful_(scope_.first_begin_ns() < scope_.last_end_ns() && scope_.first_begin_ns() <= end_ns) {}

// The log itself is not changed: a scan may still confirm these processes.
const RecordLog& ProcessTracker::State::View::log() {
  if (!doubtful_) return state_.log;
  if (!doubted_) doubted_ = with_doubts(state_.log, state_.table, scope_, state_.kernel, state_.unlisted());
  return *doubted_;
}

TrackerExport ProcessTracker::State::export_window(View& view, EventTime begin_ns, EventTime end_ns,
                                                   const std::unordered_set<std::uint32_t>& pids) const {
  const ExportOrder order{.begin_ns = begin_ns,
                          .end_ns = end_ns,
                          .dying_ns = limits.dying_ns,
                          .pids = pids,
                          .most_bytes = limits.export_bytes,
                          .gaps = gaps};
  TrackerExport window = export_of(view.log(), table, kernel, order);
  window.forks = forks_between(view.log(), begin_ns, end_ns);
  window.cgroup_made_ns = std::max(window.cgroup_made_ns, made_ns);
  window.forgotten.images = images.since(begin_ns);
  window.forgotten.threads = threads.since(begin_ns);
  window.forgotten.replaced = replaced.since(begin_ns);
  window.forgotten.names = names.since(begin_ns);
  window.names_from_ns = names_from_ns(begin_ns);
  if (!gaps.stale()) window.maps_from_ns = scan_read_ns;
  window.partial_maps.insert(partly_read.begin(), partly_read.end());
  if (forks_from_ns > begin_ns) window.forks_from_ns = forks_from_ns;
  warn(window, begin_ns, end_ns, view.doubts(), pids);
  return window;
}

TrackerExport ProcessTracker::export_window(EventTime begin_ns, EventTime end_ns,
                                            const std::unordered_set<std::uint32_t>& pids) const {
  State::View view(*state_, end_ns);
  TrackerExport window = state_->export_window(view, begin_ns, end_ns, pids);
  window.stats = stats();
  window.stats.evicted = state_->evicted.since(begin_ns);
  for (std::string& flood : flood_warnings(begin_ns, end_ns)) window.warnings.push_back(std::move(flood));
  return window;
}

std::uint64_t ProcessTracker::revision() const { return state_->revisions.number(); }

bool ProcessTracker::all_in_doubt(EventTime until_ns) const { return state_->open_gap(until_ns) != nullptr; }

ProcessTracker::Next ProcessTracker::export_next(EventTime after_ns, EventTime until_ns, FileNames& file) const {
  const State& state = *state_;
  const SidebandGap* open = state.open_gap(until_ns);
  const EventTime changed_ns = state.revisions.changed_from_ns(file.revision);
  const bool enters = open != nullptr && !file.all_lost;
  const bool leaves = open == nullptr && file.all_lost;
  const bool too_late = !file.all_lost && changed_ns <= after_ns;
  State::View view(state, until_ns);
  Next out;
  out.whole = state.folded_ns > after_ns || leaves || too_late || (enters && open->begin_ns <= after_ns);
  if (out.whole) {
    out.state = state.export_window(view, after_ns, until_ns, pids());
    for (std::string& flood : flood_warnings(after_ns, until_ns)) out.state.warnings.push_back(std::move(flood));
    if (open != nullptr && open->begin_ns <= after_ns) {
      out.state.prologue = without_names(out.state.prologue, 0);
      out.state.mapped_ns.clear();
    }
    set_times(out.state.prologue, after_ns);
    const EventTime from_ns = open != nullptr ? std::min(changed_ns, open->begin_ns) : changed_ns;
    RecordBuffer ended = ended_between(view.log(), from_ns, after_ns);
    append_whole(ended, out.state.prologue);
    out.state.prologue = std::move(ended);
  } else {
    state.append_piece(view, after_ns, until_ns, enters, out.state);
  }
  if (open != nullptr) out.state.log = without_names(out.state.log, open->begin_ns);
  file.all_lost = open != nullptr;
  if (open == nullptr) file.revision = state.revisions.number();
  return out;
}

// While all names are lost, children and renamed ones are so without the records of the doubts.
void ProcessTracker::State::append_piece(View& view, EventTime after_ns, EventTime until_ns, bool enters,
                                         TrackerExport& out) const {
  const bool all_lost = open_gap(until_ns) != nullptr;
  const DoubtScope* doubts = view.doubts();
  const bool in_log = enters || (!all_lost && doubts != nullptr && after_ns < doubts->last_end_ns());
  append_between(in_log ? view.log() : log, after_ns, until_ns, out.log);
  if (in_log || (!all_lost && gaps.between(after_ns, until_ns))) warn_of_gaps(out, after_ns, until_ns, doubts, nullptr);
}

}  // namespace flight
