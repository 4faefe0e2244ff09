// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/ledger.hpp"

#include <linux/perf_event.h>

#include <algorithm>

#include "libcore/perf/record.hpp"
#include "libcore/sideband/checkpoint.hpp"
#include "libcore/sideband/export.hpp"
#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/process_writer.hpp"
#include "libcore/sideband/record_log.hpp"
#include "libcore/sideband/scan.hpp"

namespace flight {
namespace {

// The rings of several CPUs are drained one after the other, every 100 ms: until they all have been, records older
// than those that we have may still come.
constexpr EventTime kHoldBackNs = 500'000'000;

// Whether a record of this type is kept, and is what it says: all that is in the log can be read.
bool is_whole(std::uint32_t type, std::span<const std::byte> record) {
  switch (type) {
    case PERF_RECORD_COMM:
      return parse_comm(record).has_value();
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      return parse_task(record).has_value();
    case PERF_RECORD_MMAP2:
      return parse_mmap2(record).has_value();
    case PERF_RECORD_KSYMBOL:
      return parse_ksymbol(record).has_value();
    case PERF_RECORD_CGROUP:
      return parse_cgroup(record).has_value();
    case PERF_RECORD_BPF_EVENT:
      return record.size() >= 24 + sizeof(Trailer);
    default:
      return false;
  }
}

}  // namespace

struct Ledger::State {
  LedgerLimits limits;
  RecordLog log;
  ProcessTable table;
  KernelTable kernel;
  std::uint64_t logged_forks = 0, logged_exits = 0;  // of processes, in the log
  std::uint64_t evicted = 0;
  bool stale = false;

  [[nodiscard]] bool has(std::span<const std::byte> record) const;
  void append(std::span<const std::byte> records);
  void count(const RecordLog::Entry& entry, std::uint64_t change);
  void fold_front(std::size_t count);
  void fold_early();
  void shrink();
};

// Counts what the log will make of the state, so that stats() need not replay it.
void Ledger::State::count(const RecordLog::Entry& entry, std::uint64_t change) {
  if (entry.type != PERF_RECORD_FORK && entry.type != PERF_RECORD_EXIT) return;
  const auto task = parse_task(log.record(entry));
  if (!task || task->pid != task->tid) return;
  (entry.type == PERF_RECORD_FORK ? logged_forks : logged_exits) += change;
}

void Ledger::State::append(std::span<const std::byte> records) {
  while (!records.empty()) {
    const auto record = next_record(records);
    if (record.empty()) {
      stale = true;  // no way to know what the rest was
      break;
    }
    records = records.subspan(record.size());
    const auto type = load<perf_event_header>(record.data()).type;
    if (type == PERF_RECORD_LOST) stale = true;
    if (!is_whole(type, record)) continue;
    count(log.append(record, static_cast<std::uint16_t>(type), parse_trailer(record)->time_ns), 1);
  }
  log.settle();
}

bool Ledger::State::has(std::span<const std::byte> record) const {
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

void Ledger::State::fold_front(std::size_t count_records) {
  for (const RecordLog::Entry& entry : log.entries().first(count_records)) {
    const auto record = log.record(entry);
    count(entry, ~std::uint64_t{0});  // -1
    table.apply(record, entry.time_ns);
    kernel.apply(record);
  }
  log.drop_front(count_records);
}

// The log is over its bound although the horizon is further back: its oldest half becomes state, with its times.
void Ledger::State::fold_early() {
  while (log.bytes() > limits.log_bytes) {
    const auto entries = log.entries();
    const std::size_t enough = entries.size() - entries.size() / 2;
    const EventTime newest = entries.back().time_ns;
    const EventTime cut = newest > kHoldBackNs ? newest - kHoldBackNs : 0;
    const auto safe = std::upper_bound(entries.begin(), entries.end(), cut,
                                       [](EventTime time, const auto& entry) { return time < entry.time_ns; });
    std::size_t some = std::min(enough, static_cast<std::size_t>(safe - entries.begin()));
    if (some == 0) {
      // So much in so little time: what comes late for it may be misjudged, so look at what runs again.
      stale = true;
      some = enough;
    }
    fold_front(some);
  }
}

void Ledger::State::shrink() {
  const std::size_t rest = limits.state_bytes - std::min(limits.state_bytes, kernel.bytes());
  evicted += table.shrink(rest);
}

Ledger::Ledger(LedgerLimits limits) : state_(std::make_unique<State>()) { state_->limits = limits; }
Ledger::Ledger(Ledger&&) noexcept = default;
Ledger& Ledger::operator=(Ledger&&) noexcept = default;
Ledger::~Ledger() = default;

void Ledger::add(std::span<const std::byte> records) {
  state_->append(records);
  state_->fold_early();
  state_->shrink();
}

void Ledger::add_scan(std::span<const std::byte> records, EventTime scanned_ns) {
  const RecordBuffer additions =
      merge_scan(records, scanned_ns, state_->stale, state_->log, state_->table, state_->kernel);
  state_->stale = false;
  add(additions);
}

void Ledger::fold(EventTime horizon_ns) {
  state_->table.forget(horizon_ns - std::min(horizon_ns, state_->limits.dying_ns));
  const auto entries = state_->log.entries();
  const auto end = std::lower_bound(entries.begin(), entries.end(), horizon_ns,
                                    [](const auto& entry, EventTime time) { return entry.time_ns < time; });
  state_->fold_front(static_cast<std::size_t>(end - entries.begin()));
  state_->shrink();
}

LedgerCheckpoint Ledger::checkpoint(std::size_t most_state_bytes,
                                    const std::function<void(std::span<const std::byte>)>& write) const {
  return write_checkpoint(state_->log, state_->table, state_->kernel, most_state_bytes, write);
}

void Ledger::append_state(std::uint32_t pid, RecordBuffer& out) const {
  ProcessWriter writer(0, ~EventTime{0}, out, nullptr);
  for (const Incarnation& process : state_->table.of(pid)) writer.write(pid, process);
  writer.flush();
}

void Ledger::replay(std::span<const std::byte> records, std::uint64_t evicted) {
  add(records);
  state_->evicted += evicted;
  state_->stale = true;  // who ended before anybody drained the rings again
}

void Ledger::drop_known(RecordBuffer& records) const {
  RecordBuffer unknown;
  std::span<const std::byte> rest = records;
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    if (!state_->has(record)) unknown.insert(unknown.end(), record.begin(), record.end());
  }
  records = std::move(unknown);
}

std::vector<std::string> Ledger::comms_of(std::span<const ProcessAt> asked) const {
  return comms_in(state_->log, state_->table, asked);
}

LedgerExport Ledger::export_window(EventTime begin_ns, EventTime end_ns,
                                   const std::unordered_set<std::uint32_t>& pids) const {
  LedgerExport window =
      export_of(state_->log, state_->table, state_->kernel, begin_ns, end_ns, state_->limits.dying_ns, pids);
  window.stats = stats();
  return window;
}

LedgerStats Ledger::stats() const {
  const State& state = *state_;
  LedgerStats stats;
  const std::uint64_t seen = state.table.alive() + state.logged_forks;
  stats.processes = seen - std::min(seen, state.logged_exits);
  stats.exited = state.table.dead() + state.logged_exits;
  stats.evicted = state.evicted;
  stats.stale = state.stale;
  stats.log_bytes = state.log.bytes();
  stats.state_bytes = state.table.bytes() + state.kernel.bytes();
  return stats;
}

}  // namespace flight
