// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan.hpp"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "daemon/broker/scan/maps_readers.hpp"
#include "daemon/broker/scan/scan_misses.hpp"
#include "daemon/broker/scan/scan_records.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/thread.hpp"

namespace flight::broker {
namespace {

using Clock = std::chrono::steady_clock;

// A user other than root gets this fraction of the space, before the rest is used.
constexpr std::size_t kShares = 4;
// Symbols get at most this fraction of the space, on top of it.
constexpr std::size_t kSymbolShares = 4;
constexpr std::size_t kCgroupShares = 4;
// The interval at which a thread checks again whether other mappings have been read.
constexpr std::chrono::milliseconds kAskAgain{20};

}  // namespace

// Shared with the threads, which may outlive the scan.
struct ProcessScan::Job {
  // Of all scans.
  static std::shared_ptr<MapsReaders> shared_readers() {
    static const auto kReaders = std::make_shared<MapsReaders>();
    return kReaders;
  }

  enum class Progress { listed, named, reading, done };
  struct Entry {
    ProcessStat stat;  // the parts read so far; the pid is always known
    Progress progress = Progress::listed;
    EventTime read_ns = 0;
    RecordBuffer threads;  // and the executable, while its mappings are being read
  };
  struct Order {
    std::size_t index = 0;
    bool mappings = true;           // false: only the threads,
    ScanMiss why = ScanMiss::late;  // for this reason
  };

  Trailer trailer;
  ScanLimits limits;
  ScanReads reads;
  std::function<void()> wake;
  std::size_t thread_count = 0;
  Clock::time_point begun = Clock::now();
  std::shared_ptr<MapsReaders> readers = shared_readers();

  std::mutex mutex;
  std::condition_variable changed;
  bool listed = false, named = false, taken = false;
  SymbolRecords known_symbols;  // of an earlier scan
  bool cgroups_cut = false;
  bool has_symbols = false;  // they are known, were read, or could not be
  Result<void> list_error;
  std::vector<Entry> entries;
  struct User {
    std::deque<std::size_t> left;  // named processes whose threads or mappings are still to be read
    std::size_t bytes = 0;         // of the processes that have been read
  };
  std::map<uid_t, User> users;
  uid_t last_user = 0;
  std::size_t unread = 0, bytes = 0;
  Clock::time_point newest;  // the begin of the latest read

  UniqueFd memfd;
  std::size_t memfd_bytes = 0;
  Result<void> written;
  ScanAnswer answer;
  std::uint64_t processes_written = 0;  // to the memfd
  ScanMisses misses;

  void run(void (Job::*part)());
  void list();
  void name_all();
  void list_the_cgroups();
  void read_symbols();
  void work();
  std::optional<Order> pick();
  std::optional<Order> pick_of(bool within_share, bool& waits);
  [[nodiscard]] bool has_left() const {
    return std::any_of(users.begin(), users.end(), [](const auto& user) { return !user.second.left.empty(); });
  }
  void read_one(const Order& order, std::unique_lock<std::mutex>& lock);
  void settle();
  void write_process(const Entry& entry, std::span<const std::byte> rest, std::uint32_t mark);
  void write(std::span<const std::byte> records);
  void miss(const Entry& entry, ScanMiss reason) { misses.add(reason, entry.stat.pid, entry.stat.comm); }
  [[nodiscard]] bool done(Clock::time_point now) const;
  [[nodiscard]] Trailer trailer_of(const Entry& entry) const {
    Trailer out = trailer;
    out.pid = out.tid = entry.stat.pid;
    if (entry.read_ns != 0) out.time_ns = entry.read_ns;
    return out;
  }
};

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
  const CgroupList list = list_cgroups(kMostListedCgroups, limits.bytes / kCgroupShares);
  for (const CgroupInfo& cgroup : list.found) append_cgroup(found, {.id = cgroup.id, .path = cgroup.path}, trailer);
  const std::lock_guard lock(mutex);
  if (taken) return;
  cgroups_cut = list.is_cut;
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
    const bool within = uid == 0 || of_user.bytes < limits.bytes / kShares;
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

Result<ProcessScan> ProcessScan::begin(const BlockingThreads& threads, const Manifest& manifest, ScanLimits limits,
                                       ScanReads reads, std::function<void()> wake, SymbolRecords symbols) {
  auto job = std::make_shared<Job>();
  auto memfd = open_memfd("flightd-processes");
  if (!memfd) return propagate(memfd.error());
  job->memfd = std::move(*memfd);
  if (!manifest.events.empty() && !manifest.events[0].ids.empty()) {
    job->trailer.id = manifest.events[0].ids[0].id;
    job->trailer.cpu = static_cast<std::uint32_t>(manifest.events[0].ids[0].cpu);
  }
  job->trailer.time_ns = monotonic_now();
  job->limits = limits;
  job->reads = std::move(reads);
  job->wake = wake ? std::move(wake) : threads.waker();
  job->thread_count = threads.count();
  const bool reads_symbols = symbols == nullptr;
  job->known_symbols = std::move(symbols);
  job->has_symbols = !reads_symbols;
  // The first task lists and names the processes; the others wait for that.
  const auto post = [&](void (Job::*part)()) { return threads.post([job, part] { job->run(part); }); };
  if (!post(&Job::list))
    return fail(std::errc::device_or_resource_busy,
                "all {} threads that read other processes hang: what runs now is not known", threads.count());
  if (reads_symbols && !post(&Job::read_symbols)) {
    const std::lock_guard lock(job->mutex);
    job->has_symbols = true;  // none: no thread is free
    if (job->listed && job->list_error) job->settle();
  }
  for (std::size_t i = 1; i < threads.count(); ++i) static_cast<void>(post(&Job::work));
  return ProcessScan(std::move(job));
}

bool ProcessScan::finished() const {
  const std::lock_guard lock(job_->mutex);
  return job_->done(Clock::now());
}

void ProcessScan::wait() const {
  std::unique_lock lock(job_->mutex);
  while (!job_->done(Clock::now())) job_->changed.wait_for(lock, kLookEvery);
}

Result<ScanAnswer> ProcessScan::take() {
  const std::lock_guard lock(job_->mutex);
  Job& job = *job_;
  job.taken = true;
  job.changed.notify_all();
  if (!job.listed) return fail(std::errc::timed_out, "/proc could not be listed in time");
  if (!job.list_error) return wrap(job.list_error.error(), "scan the running processes");
  ScanAnswer& out = job.answer;
  for (const Job::Entry& entry : job.entries) {
    if (entry.progress == Job::Progress::done) continue;
    const bool unread = entry.progress == Job::Progress::listed;
    job.write_process(entry, entry.threads, unread ? kScanUnread : kScanPartly);
    job.miss(entry, ScanMiss::late);
    job.misses.unread += unread ? 1 : 0;
  }
  // Not at the beginning: a flightd of another version can take the first record's time for the scan's.
  if (job.known_symbols) {
    job.write(*job.known_symbols);
    out.symbols = job.known_symbols;
  }
  Trailer end = job.trailer;
  end.reserved = kScanAllListed;
  RecordBuffer last;
  append_lost(last, {.id = job.processes_written, .lost = 0}, end);
  job.write(last);
  if (!job.written) return wrap(job.written.error(), "keep what runs now");
  if (auto sealed = seal_memfd(job.memfd.get()); !sealed) return propagate(sealed.error());
  auto records = Mapping::open_sealed(job.memfd.get(), job.memfd_bytes);
  if (!records) return propagate(records.error());
  out.records = std::move(*records);
  out.memfd = std::move(job.memfd);
  out.incomplete = job.misses.count();
  out.unread = job.misses.unread;
  out.warning = job.misses.warning(job.limits.bytes);
  if (job.cgroups_cut)
    out.warning += std::string(out.warning.empty() ? "" : "; ") +
                   "there are more cgroups than can be listed (limit of memory.max reached), so some units are unknown";
  return std::move(out);
}

}  // namespace flight::broker
