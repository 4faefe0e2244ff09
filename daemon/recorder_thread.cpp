// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder_thread.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace flight {
namespace {

constexpr EventTime kTickNs = 100'000'000;
constexpr EventTime kNoteEveryNs = 1'000'000'000;
constexpr EventTime kScanEveryNs = 30'000'000'000;  // at most, while the ledger is stale
constexpr EventTime kRateNs = 10'000'000'000;
constexpr EventTime kStatusWaitNs = 700'000'000;  // with the tick and the way there and back: within a second
constexpr double kTypicalRecordBytes = 160;       // before the first snapshot has measured it

}  // namespace

Result<std::unique_ptr<RecorderThread>> RecorderThread::start(BrokerClient broker, std::shared_ptr<Attached> attached,
                                                              WallThread::Told told) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return sys_error(errno, "eventfd of the recorder thread");
  auto wall = WallThread::start(std::move(broker), std::move(attached), std::move(told));
  if (!wall) return pass(wall.error());
  std::unique_ptr<RecorderThread> out(new RecorderThread(std::move(*wall), std::move(wake)));
  out->thread_ = std::thread([recorder = out.get()] { recorder->run(); });
  return out;
}

RecorderThread::RecorderThread(std::unique_ptr<WallThread> wall, UniqueFd wake)
    : wall_(std::move(wall)), wake_(std::move(wake)) {
  follow_attached();
  oldest_held_ns_ = UINT64_MAX;
  for (const auto& ring : attached_->rings) oldest_held_ns_ = std::min(oldest_held_ns_.load(), ring->info().enabled_ns);
}

RecorderThread::~RecorderThread() {
  wall_->cut();
  post([this] { stopping_ = true; });
  thread_.join();
  wall_.reset();  // it posts tasks here
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

LedgerExport RecorderThread::export_window(EventTime begin_ns, EventTime end_ns,
                                           std::unordered_set<std::uint32_t> pids) {
  return ask([this, begin_ns, end_ns, pids = std::move(pids)] {
    drain();
    return ledger_.export_window(begin_ns, end_ns, pids);
  });
}

void RecorderThread::note_record_bytes(const std::string& channel, double bytes) {
  const std::lock_guard lock(mutex_);
  record_bytes_[channel] = bytes;
}

void RecorderThread::run() {
  ::pthread_setname_np(::pthread_self(), "recorder");
  drain();
  // Nobody is served before it is known what runs.
  const EventTime asked_ns = monotonic_now();
  take_scan(wall_->processes(), asked_ns);
  if (auto counts = wall_->counts()) last_counts_ = std::move(*counts);
  EventTime next_tick_ns = monotonic_now() + kTickNs;
  EventTime next_note_ns = 0;
  while (!stopping_) {
    wait_for_work(next_tick_ns);
    follow_attached();
    run_tasks();
    drain();
    const EventTime now_ns = monotonic_now();
    answer_statuses(nullptr, now_ns - kStatusWaitNs);
    if (now_ns >= next_note_ns) {
      note_heads(now_ns);
      next_note_ns = now_ns + kNoteEveryNs;
      if (ledger_.stats().stale && now_ns - last_scan_ns_ >= kScanEveryNs) scan();
    }
    if (now_ns >= next_tick_ns) next_tick_ns = now_ns + kTickNs;
  }
}

// A new set of rings: those that it shares with the old one keep their notes.
void RecorderThread::follow_attached() {
  std::shared_ptr<Attached> next = wall_->attached();
  if (next == attached_) return;
  std::vector<History> histories;
  for (const auto& ring : next->rings) {
    const auto old = attached_ ? std::find(attached_->rings.begin(), attached_->rings.end(), ring) : next->rings.end();
    if (attached_ && old != attached_->rings.end())
      histories.push_back(std::move(histories_[static_cast<std::size_t>(old - attached_->rings.begin())]));
    else
      histories.emplace_back(ring->info().ring_bytes, ring->info().enabled_ns);
  }
  if (attached_) drain();  // for the last time those that are not in the new set
  histories_ = std::move(histories);
  attached_ = std::move(next);
}

// Until a task, a sideband ring's watermark, or the tick.
void RecorderThread::wait_for_work(EventTime until_ns) {
  std::vector<pollfd> fds;
  fds.reserve(attached_->sideband.size() + 1);
  fds.push_back({.fd = wake_.get(), .events = POLLIN, .revents = 0});
  for (const auto& ring : attached_->sideband) fds.push_back({.fd = ring->fd(), .events = POLLIN, .revents = 0});
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
  for (const auto& ring : attached_->sideband) ring->drain(drained_);
  if (!drained_.empty()) ledger_.add(drained_);
}

void RecorderThread::scan() {
  last_scan_ns_ = monotonic_now();
  wall_->processes([this, asked_ns = last_scan_ns_](Result<std::string> records) {
    post([this, asked_ns, records = std::move(records)] { take_scan(records, asked_ns); });
  });
}

void RecorderThread::take_scan(const Result<std::string>& records, EventTime asked_ns) {
  last_scan_ns_ = asked_ns;
  if (!records) return;  // the ledger stays stale
  drain();
  const std::span<const char> text(*records);
  ledger_.add_scan(std::as_bytes(text), asked_ns);
}

void RecorderThread::note_heads(EventTime now_ns) {
  EventTime oldest = UINT64_MAX;
  EventTime shortest = UINT64_MAX;
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    histories_[i].note(now_ns, attached_->rings[i]->head());
    oldest = std::min(oldest, histories_[i].oldest_bound_ns());
    if (histories_[i].overwrites()) shortest = std::min(shortest, now_ns - histories_[i].oldest_ns());
  }
  oldest_held_ns_ = oldest;
  shortest_history_ns_ = shortest;
  if (!fold_held_ && oldest != UINT64_MAX) ledger_.fold(oldest);
}

void RecorderThread::reconnect(std::string path, std::function<void(Result<void>)> done) {
  wall_->reconnect(std::move(path), [this, done = std::move(done)](Result<void> found) {
    if (found) {
      gaps_.without_broker(wall_->lost_ns(), monotonic_now());
      post([this] { scan(); });
    }
    done(std::move(found));
  });
}

void RecorderThread::status(std::function<void(Status)> done) {
  post([this, done = std::move(done)] {
    statuses_.push_back({monotonic_now(), done});
    if (std::exchange(counts_asked_, true)) return;  // one answer for all that wait
    wall_->counts([this](Result<Counts> counts) {
      post([this, counts = std::move(counts)] {
        counts_asked_ = false;
        answer_statuses(counts ? &*counts : nullptr, monotonic_now());
      });
    });
  });
}

void RecorderThread::set_recording(bool recording, std::string who, std::function<void(Result<void>)> done) {
  wall_->set_recording(recording, [this, recording, who = std::move(who), done = std::move(done),
                                   before_ns = monotonic_now()](const Result<void>& switched) {
    post([this, recording, who, done, before_ns, switched] {
      if (switched && recording && gaps_.paused()) {
        gaps_.resume(monotonic_now());
        scan();  // who was started and who ended meanwhile
      }
      if (switched && !recording) gaps_.pause(before_ns, who);
      done(switched);
    });
  });
}

// All that were asked for until then.
void RecorderThread::answer_statuses(const Counts* counts, EventTime asked_until_ns) {
  const auto due = [&](const AskedStatus& asked) { return asked.asked_ns <= asked_until_ns; };
  for (const AskedStatus& asked : statuses_) {
    if (!due(asked)) continue;
    Status status;
    fill(status, counts);
    asked.done(std::move(status));
  }
  std::erase_if(statuses_, due);
}

void RecorderThread::fill(Status& status, const Counts* counts) {
  const EventTime now_ns = monotonic_now();
  note_heads(now_ns);
  status.recording = !broker_gone() && !gaps_.paused();
  for (std::size_t i = 0; i < attached_->rings.size(); ++i) {
    const ManifestRing& info = attached_->rings[i]->info();
    const double seconds = static_cast<double>(now_ns - histories_[i].oldest_ns()) / 1e9;
    status.rings.push_back(
        {.channel = info.channel, .cpu = info.cpu, .ring_bytes = info.ring_bytes, .history_seconds = seconds});
  }
  status.cpus = static_cast<int>(attached_->online_cpus());
  status.ring_bytes = attached_->ring_bytes();
  status.staging_bytes = attached_->staging.bytes();
  fill_channels(status, now_ns, counts, last_counts_);
  const Counts& known = counts != nullptr ? *counts : last_counts_;
  status.broker = {
      .pid = known.broker_pid, .cpu_seconds = known.broker_cpu_seconds, .rss_bytes = known.broker_rss_bytes};
  // Rates are over at least this long, however many clients ask how often.
  if (counts != nullptr && counts->time_ns - last_counts_.time_ns >= kRateNs) last_counts_ = *counts;
  warn(status);
}

void RecorderThread::warn(Status& status) const {
  status.warnings = attached_->manifest.warnings;
  if (std::string paused = gaps_.status_warning(); !paused.empty())
    status.warnings.insert(status.warnings.begin(), std::move(paused));
  if (!attached_->staging.locked())
    status.warnings.push_back("staging is not locked in memory (" + attached_->staging.lock_error() +
                              "): a snapshot under memory pressure can be late; raise LimitMEMLOCK");
  if (const LedgerStats stats = ledger_.stats(); stats.stale)
    status.warnings.emplace_back(
        "sideband records were lost: names of new processes can be missing until the next scan");
  const EventTime asked_ns = wall_->asked_ns();
  const EventTime now_ns = monotonic_now();
  if (broker_gone())
    status.warnings.emplace_back("flightd-broker is gone");
  else if (asked_ns != 0 && now_ns - std::min(asked_ns, now_ns) >= kStatusWaitNs)
    status.warnings.push_back(fmt::format(
        "flightd-broker has not answered for {:.1f} s: it goes on recording, but a snapshot has to wait for "
        "it, and what is told here of rates and of the broker is old",
        static_cast<double>(now_ns - asked_ns) / 1e9));
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
  for (std::size_t i = 0; i < attached_->rings.size(); ++i) {
    const std::string& name = attached_->rings[i]->info().channel;
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
    for (std::size_t i = 0; i < attached_->rings.size(); ++i)
      if (attached_->rings[i]->info().channel == channel.name) bytes_per_second += histories_[i].bytes_per_second();
    const auto measured = record_bytes.find(channel.name);
    const double bytes_each = measured != record_bytes.end() ? measured->second : kTypicalRecordBytes;
    double counted = 0;
    std::size_t samplers = 0;
    std::vector<bool> samples;  // which of the rows have a frequency
    for (const ManifestEvent& event : attached_->manifest.events) {
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
