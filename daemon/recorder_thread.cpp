// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace flight {
namespace {

constexpr EventTime kTickNs = 100'000'000;
constexpr EventTime kNoteEveryNs = 1'000'000'000;
constexpr EventTime kScanEveryNs = 30'000'000'000;  // at most, while the ledger is stale
constexpr EventTime kRateNs = 10'000'000'000;
constexpr std::chrono::seconds kFileWait(30);  // for a disk to make an empty file
constexpr double kTypicalRecordBytes = 160;    // before the first snapshot has measured it

}  // namespace

Result<std::unique_ptr<RecorderThread>> RecorderThread::start(BrokerClient broker, Attached& attached,
                                                              Lost broker_lost) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return sys_error(errno, "eventfd of the recorder thread");
  std::unique_ptr<RecorderThread> out(
      new RecorderThread(std::move(broker), attached, std::move(broker_lost), std::move(wake)));
  out->thread_ = std::thread([recorder = out.get()] { recorder->run(); });
  return out;
}

RecorderThread::RecorderThread(BrokerClient broker, Attached& attached, Lost broker_lost, UniqueFd wake)
    : broker_(std::move(broker)), attached_(attached), broker_lost_(std::move(broker_lost)), wake_(std::move(wake)) {
  EventTime oldest = UINT64_MAX;
  for (const Ring& ring : attached_.rings) {
    histories_.emplace_back(ring.info().ring_bytes, ring.info().enabled_ns);
    oldest = std::min(oldest, ring.info().enabled_ns);
  }
  oldest_held_ns_ = oldest;
}

RecorderThread::~RecorderThread() {
  post([this] { stopping_ = true; });
  thread_.join();
}

void RecorderThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));  // EAGAIN: it is awake already
}

template <typename Call>
auto RecorderThread::ask(Call call) -> decltype(call()) {
  auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
  auto answer = task->get_future();
  post([task] { (*task)(); });
  return answer.get();
}

Result<Counts> RecorderThread::counts() {
  return ask([this] { return broker_.counts(); });
}

LedgerExport RecorderThread::export_window(EventTime begin_ns, EventTime end_ns,
                                           std::unordered_set<std::uint32_t> pids) {
  return ask([this, begin_ns, end_ns, pids = std::move(pids)] {
    drain();
    return ledger_.export_window(begin_ns, end_ns, pids);
  });
}

Result<PartialFile> RecorderThread::file() {
  constexpr std::chrono::seconds kNow(0);
  // What came too late for the one who asked: a file is as good as a new one, an error is an old story.
  if (file_under_way_.valid() && file_under_way_.wait_for(kNow) == std::future_status::ready)
    if (auto late = file_under_way_.get()) return late;
  if (!file_under_way_.valid()) {
    auto promise = std::make_shared<std::promise<Result<PartialFile>>>();
    file_under_way_ = promise->get_future();
    post([this, promise] {
      if (auto asked = broker_.ask_for_file(); !asked) return promise->set_value(pass(asked.error()));
      file_wanted_ = std::move(*promise);
    });
  }
  if (file_under_way_.wait_for(kFileWait) == std::future_status::ready) return file_under_way_.get();
  return fail(std::errc::timed_out, "the disk did not make an empty file within {} s", kFileWait.count());
}

void RecorderThread::note_record_bytes(const std::string& channel, double bytes) {
  const std::lock_guard lock(mutex_);
  record_bytes_[channel] = bytes;
}

void RecorderThread::run() {
  ::pthread_setname_np(::pthread_self(), "recorder");
  drain();
  scan();
  if (auto counts = broker_.counts()) last_counts_ = std::move(*counts);
  EventTime next_tick_ns = monotonic_now() + kTickNs;
  EventTime next_note_ns = 0;
  while (!stopping_) {
    wait_for_work(next_tick_ns);
    run_tasks();
    check_broker();
    deliver_file();
    drain();
    const EventTime now_ns = monotonic_now();
    if (now_ns >= next_note_ns) {
      note_heads(now_ns);
      next_note_ns = now_ns + kNoteEveryNs;
      if (ledger_.stats().stale && now_ns - last_scan_ns_ >= kScanEveryNs) scan();
    }
    if (now_ns >= next_tick_ns) next_tick_ns = now_ns + kTickNs;
  }
}

// Until a task, the broker, a sideband ring's watermark, or the tick.
void RecorderThread::wait_for_work(EventTime until_ns) {
  std::vector<pollfd> fds;
  fds.reserve(attached_.sideband.size() + 2);
  fds.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
  fds.push_back({.fd = broker_gone_ ? -1 : broker_.fd(), .events = POLLIN, .revents = 0});
  for (const SidebandRing& ring : attached_.sideband) fds.push_back({.fd = ring.fd(), .events = POLLIN, .revents = 0});
  const EventTime now_ns = monotonic_now();
  const EventTime left_ns = until_ns > now_ns ? until_ns - now_ns : 0;
  const timespec timeout{.tv_sec = static_cast<time_t>(left_ns / 1'000'000'000),
                         .tv_nsec = static_cast<long>(left_ns % 1'000'000'000)};
  if (::ppoll(fds.data(), fds.size(), &timeout, nullptr) > 0 && (fds[0].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
  }
}

void RecorderThread::run_tasks() {
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void RecorderThread::drain() {
  drained_.clear();
  for (SidebandRing& ring : attached_.sideband) ring.drain(drained_);
  if (!drained_.empty()) ledger_.add(drained_);
}

void RecorderThread::scan() {
  last_scan_ns_ = monotonic_now();
  const auto records = broker_.processes();
  if (!records) return;  // the ledger stays stale, and check_broker tells if the wall broke
  drain();
  const std::span<const char> text(*records);
  ledger_.add_scan(std::as_bytes(text), last_scan_ns_);
}

void RecorderThread::note_heads(EventTime now_ns) {
  EventTime oldest = UINT64_MAX;
  EventTime shortest = UINT64_MAX;
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    histories_[i].note(now_ns, attached_.rings[i].head());
    oldest = std::min(oldest, histories_[i].oldest_bound_ns());
    if (histories_[i].overwrites()) shortest = std::min(shortest, now_ns - histories_[i].oldest_ns());
  }
  oldest_held_ns_ = oldest;
  shortest_history_ns_ = shortest;
  if (!fold_held_ && oldest != UINT64_MAX) ledger_.fold(oldest);
}

void RecorderThread::check_broker() {
  if (broker_gone_) return;
  if (auto changed = broker_.take_changed(); !changed) {
    broker_gone_ = true;  // told in the status, and in what a client is answered
    broker_lost_(changed.error());
  }
}

void RecorderThread::deliver_file() {
  if (!file_wanted_) return;
  auto file = broker_.take_file();
  if (!file && broker_gone_) file.emplace(fail(std::errc::connection_reset, "flightd-broker is gone"));
  if (!file) return;
  file_wanted_->set_value(std::move(*file));
  file_wanted_.reset();
}

void RecorderThread::status(std::function<void(Status)> done) {
  post([this, done = std::move(done)] {
    Status status;
    fill(status);
    done(std::move(status));
  });
}

void RecorderThread::fill(Status& status) {
  const EventTime now_ns = monotonic_now();
  note_heads(now_ns);
  status.recording = !broker_gone_;
  for (std::size_t i = 0; i < attached_.rings.size(); ++i) {
    const ManifestRing& info = attached_.rings[i].info();
    const double seconds = static_cast<double>(now_ns - histories_[i].oldest_ns()) / 1e9;
    status.rings.push_back(
        {.channel = info.channel, .cpu = info.cpu, .ring_bytes = info.ring_bytes, .history_seconds = seconds});
  }
  status.cpus = static_cast<int>(attached_.sideband.size());
  status.ring_bytes = attached_.ring_bytes();
  status.staging_bytes = attached_.staging.bytes();
  auto counts = broker_.counts();
  fill_channels(status, now_ns, counts ? &*counts : nullptr, last_counts_);
  if (counts) {
    status.broker = {
        .pid = counts->broker_pid, .cpu_seconds = counts->broker_cpu_seconds, .rss_bytes = counts->broker_rss_bytes};
    // Rates are over at least this long, however many clients ask how often.
    if (counts->time_ns - last_counts_.time_ns >= kRateNs) last_counts_ = std::move(*counts);
  }
  status.warnings = attached_.manifest.warnings;
  if (!attached_.staging.locked())
    status.warnings.push_back("staging is not locked in memory (" + attached_.staging.lock_error() +
                              "): a snapshot under memory pressure can be late; raise LimitMEMLOCK");
  if (const LedgerStats stats = ledger_.stats(); stats.stale)
    status.warnings.emplace_back(
        "sideband records were lost: names of new processes can be missing until the next scan");
  if (broker_gone_) status.warnings.emplace_back("flightd-broker is gone");
}

// Tracepoints are counted to the event; what samples is told by the bytes it leaves in the ring.
void RecorderThread::fill_channels(Status& status, EventTime now_ns, const Counts* now, const Counts& before) {
  std::map<std::uint64_t, std::uint64_t> old_values;
  for (const EventCount& count : before.events) old_values[count.id] = count.value;
  std::map<std::uint64_t, std::uint64_t> deltas;
  if (now != nullptr)
    for (const EventCount& count : now->events) deltas[count.id] = count.value - old_values[count.id];
  const EventTime first_ns = before.time_ns != 0 ? before.time_ns : oldest_held_ns_.load();
  const double elapsed = std::max(static_cast<double>(now_ns - std::min(first_ns, now_ns)) / 1e9, 1e-3);

  std::map<std::string, double> record_bytes;
  {
    const std::lock_guard lock(mutex_);
    record_bytes = record_bytes_;
  }
  for (std::size_t i = 0; i < attached_.rings.size(); ++i) {
    const std::string& name = attached_.rings[i].info().channel;
    auto channel = std::find_if(status.channels.begin(), status.channels.end(),
                                [&](const StatusChannel& row) { return row.name == name; });
    const double seconds = status.rings[i].history_seconds;
    if (channel == status.channels.end()) {
      status.channels.push_back(
          {.name = name, .events = {}, .history_min_seconds = seconds, .history_max_seconds = seconds});
    } else {
      channel->history_min_seconds = std::min(channel->history_min_seconds, seconds);
      channel->history_max_seconds = std::max(channel->history_max_seconds, seconds);
    }
  }
  for (StatusChannel& channel : status.channels) {
    double bytes_per_second = 0;
    for (std::size_t i = 0; i < attached_.rings.size(); ++i)
      if (attached_.rings[i].info().channel == channel.name) bytes_per_second += histories_[i].bytes_per_second();
    const auto measured = record_bytes.find(channel.name);
    const double bytes_each = measured != record_bytes.end() ? measured->second : kTypicalRecordBytes;
    double counted = 0;
    std::size_t samplers = 0;
    std::vector<bool> samples;  // which of the rows have a frequency
    for (const ManifestEvent& event : attached_.manifest.events) {
      if (event.channel != channel.name || event.closed) continue;
      StatusEvent& row = channel.events.emplace_back(StatusEvent{.event = event.name});
      samples.push_back(event.attr.freq != 0);
      if (samples.back()) {
        ++samplers;
        continue;
      }
      std::uint64_t delta = 0;
      for (const ManifestId& id : event.ids) delta += deltas[id.id];
      row.per_second = static_cast<double>(delta) / elapsed /
                       static_cast<double>(std::max<std::uint64_t>(event.attr.sample_period, 1));
      row.bytes_per_second = std::min(row.per_second * bytes_each, bytes_per_second);
      counted += row.bytes_per_second;
    }
    for (std::size_t i = 0; i < channel.events.size(); ++i) {
      StatusEvent& row = channel.events[i];
      if (!samples[i]) continue;
      row.bytes_per_second = std::max(bytes_per_second - counted, 0.0) / static_cast<double>(samplers);
      row.per_second = row.bytes_per_second / bytes_each;
    }
  }
}

}  // namespace flight
