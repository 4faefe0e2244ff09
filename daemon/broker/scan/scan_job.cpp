// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_job.hpp"

#include <utility>

#include "daemon/broker/scan/scan_records.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/thread.hpp"

namespace flight::broker {
namespace {

// A user other than root gets this fraction of the space, before the rest is used.
constexpr std::size_t kUserShares = 4;
// Symbols get at most this fraction of the space, on top of it.
constexpr std::size_t kSymbolShares = 4;
constexpr std::size_t kCgroupShares = 4;
// The interval at which a thread checks again whether other mappings have been read.
constexpr std::chrono::milliseconds kAskAgain{20};

}  // namespace

void ProcessScan::Job::run(void (Job::*part)()) {
  const std::chrono::nanoseconds before = thread_cpu_time();
  (this->*part)();
  if (reads.used) reads.used(thread_cpu_time() - before);
}

// Only the first thread does this: reading names is cheap, and everything else follows.
void ProcessScan::Job::list() {
  const auto pids = list_processes();
  {
    const std::lock_guard lock(mutex);
    if (!pids) {
      list_error = propagate(pids.error());
    } else {
      entries.resize(pids->size());
      for (std::size_t i = 0; i < entries.size(); ++i) entries[i].stat.pid = (*pids)[i];
      unread = entries.size() + 1 + (has_symbols ? 0 : 1);  // the cgroups, and the symbols
    }
    listed = true;
  }
  if (list_error) name_all();
  {
    const std::lock_guard lock(mutex);
    named = true;
    newest = Clock::now();
  }
  changed.notify_all();
  if (list_error) list_the_cgroups();
  work();
}

void ProcessScan::Job::name_all() {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ProcessStat stat;
    const Presence presence = reads.stat(entries[i].stat.pid, stat);
    const EventTime now_ns = monotonic_now();
    const std::lock_guard lock(mutex);
    if (taken) return;
    Entry& entry = entries[i];
    if (presence == Presence::unknown) {
      --unread;  // the entry stays as it is
      continue;
    }
    if (presence == Presence::gone) {
      entry.progress = Progress::done;
      --unread;
      continue;
    }
    entry.stat = std::move(stat);
    entry.progress = Progress::named;
    entry.read_ns = now_ns;
    if (entry.stat.is_kernel_thread && entry.stat.thread_count <= 1) {
      write_process(entry, {}, 0);
      entry.progress = Progress::done;
      --unread;
    } else {
      users[entry.stat.uid].left.push_back(i);
    }
  }
}

void ProcessScan::Job::list_the_cgroups() {
  RecordBuffer found;
  CgroupList list = list_cgroups(kMostListedCgroups, limits.bytes / kCgroupShares);
  for (const CgroupInfo& cgroup : list.found) append_cgroup(found, {.id = cgroup.id, .path = cgroup.path}, trailer);
  const std::lock_guard lock(mutex);
  if (taken) return;
  cgroups_cut = list.is_cut;
  cgroups_unread = std::move(list.unread);
  write(found);
  settle();
}

void ProcessScan::Job::read_symbols() {
  Trailer at = trailer;
  at.time_ns = monotonic_now();
  const auto code = reads.symbols();
  // If the kernel shows no addresses, the kernel's maps have a warning (kernel_watch.hpp).
  const SymbolRecords symbols =
      code && code->has_addresses ? symbol_records(*code, at, limits.bytes / kSymbolShares) : SymbolRecords();
  const std::lock_guard lock(mutex);
  if (taken) return;
  if (symbols) write(*symbols);
  answer.symbols = symbols;
  has_symbols = true;
  changed.notify_all();
  if (listed && list_error) settle();
}

// Users take turns, so that a user with many processes does not use up the time of all.
std::optional<ProcessScan::Job::Order> ProcessScan::Job::pick_of(bool within_share, bool& waits) {
  auto user = users.upper_bound(last_user);
  for (std::size_t i = 0; i < users.size(); ++i, ++user) {
    if (user == users.end()) user = users.begin();
    auto& [uid, of_user] = *user;
    const bool within = uid == 0 || of_user.bytes < limits.bytes / kUserShares;
    if (of_user.left.empty() || within != within_share) continue;
    const std::size_t index = of_user.left.front();
    auto may = MapsReaders::Answer::no;
    const bool has_space = bytes < limits.bytes;
    if (has_space) may = readers->begin(entries[index].stat.pid, uid, thread_count, limits.process);
    if (may == MapsReaders::Answer::later) {
      waits = true;
      continue;
    }
    of_user.left.pop_front();
    last_user = uid;
    return Order{.index = index,
                 .mappings = may == MapsReaders::Answer::yes,
                 .why = has_space ? ScanMiss::late : ScanMiss::memory};
  }
  return std::nullopt;
}

std::optional<ProcessScan::Job::Order> ProcessScan::Job::pick() {
  bool waits = false;
  auto order = pick_of(true, waits);
  if (!order && !waits) order = pick_of(false, waits);
  return order;
}

void ProcessScan::Job::read_one(const Order& order, std::unique_lock<std::mutex>& lock) {
  ProcessInfo info;
  static_cast<ProcessStat&>(info) = entries[order.index].stat;
  const Trailer at = trailer_of(entries[order.index]);
  entries[order.index].progress = Progress::reading;
  newest = Clock::now();
  lock.unlock();
  read_threads(info);
  RecordBuffer rest;
  append_threads(rest, info, at);
  const std::size_t thread_bytes = rest.size();
  append_executable(rest, info, at);
  lock.lock();
  entries[order.index].threads = rest;
  const bool has_mappings = !info.maps_task.empty();
  if (order.mappings && has_mappings) {
    lock.unlock();
    reads.mappings(info);
    rest.resize(thread_bytes);
    append_mappings(rest, info, at);
    info.mappings = {};
    lock.lock();
  }
  if (order.mappings) readers->end(info.pid);
  if (taken) return;
  Entry& entry = entries[order.index];
  const bool fits = bytes + rest.size() <= limits.bytes;
  const bool partly = !fits || info.threads_cut || (!order.mappings && has_mappings);
  if (!fits) rest = std::move(entry.threads);
  if (bytes + rest.size() > limits.bytes) rest.clear();
  bytes += rest.size();
  users[entry.stat.uid].bytes += rest.size();
  write_process(entry, rest, partly ? kScanPartly : 0);
  if (partly || info.mappings_cut)
    miss(entry, !fits ? ScanMiss::memory : !order.mappings && has_mappings ? order.why : ScanMiss::cut);
  misses.leave_out(info.threads_left_out);
  entry.threads = {};
  entry.progress = Progress::done;
  settle();
  changed.notify_one();
}

void ProcessScan::Job::write(std::span<const std::byte> records) {
  if (!written) return;
  written = write_all(memfd.get(), records);
  memfd_bytes += records.size();
}

// `rest`: the records of its threads and mappings.
void ProcessScan::Job::write_process(const Entry& entry, std::span<const std::byte> rest, std::uint32_t mark) {
  RecordBuffer leader;
  append_leader(leader, entry.stat, trailer_of(entry), mark);
  if (mark != kScanUnread) append_unread_program(leader, entry.stat, rest, trailer_of(entry));
  write(leader);
  write(rest);
  ++processes_written;
}

// With the mutex locked.
void ProcessScan::Job::settle() {
  if (--unread != 0) return;
  changed.notify_all();
  wake();
}

void ProcessScan::Job::work() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, limits.whole, [this] { return named || taken; });
  while (named && !taken && list_error) {
    if (const auto order = pick())
      read_one(*order, lock);
    else if (!has_left())
      return;
    else
      changed.wait_for(lock, kAskAgain);
  }
}

// Names may take the whole time. For threads and mappings each process has its own deadline from the start of its read:
// while one thread works, the other processes are read.
bool ProcessScan::Job::done(Clock::time_point now) const {
  if (now - begun >= limits.whole) return true;
  return named && (!list_error || unread == 0 || (has_symbols && now - newest >= limits.process));
}

}  // namespace flight::broker
