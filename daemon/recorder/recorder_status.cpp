// SPDX-License-Identifier: Apache-2.0
// The recorder's part of the status. It reads no ring data: histories come from the notes of the heads.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "daemon/recorder/cpu_notes.hpp"
#include "daemon/recorder/event_rates.hpp"
#include "daemon/recorder/recorder_thread.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/version.hpp"
#include "libcore/sysinfo/cpus.hpp"

namespace flight::daemon {
namespace {

constexpr EventTime kRateNs = 10'000'000'000;
constexpr EventTime kStatusWaitNs = 700'000'000;       // with the tick and both hand-overs: less than a second
constexpr EventTime kLossReportedNs = 60'000'000'000;  // the status reports lost records for this time
constexpr double kTypicalRecordBytes = 160;            // until a snapshot has measured it

}  // namespace

void RecorderThread::status(std::function<void(Status)> done) {
  tasks_.post([this, done = std::move(done)] {
    statuses_.push_back({monotonic_now(), done});
    if (std::exchange(counts_asked_, true)) return;  // one reply for all waiting requests
    broker_thread_->counts([this](Result<Counts> counts) {
      tasks_.post([this, counts = std::move(counts)] {
        counts_asked_ = false;
        answer_statuses(counts ? &*counts : nullptr, monotonic_now());
      });
    });
  });
}

// Answers the requests for which the broker did not reply in time.
void RecorderThread::answer_late_statuses(EventTime now_ns) { answer_statuses(nullptr, now_ns - kStatusWaitNs); }

// Answers all requests made until then.
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

RecordingState RecorderThread::recording_state(Delivery delivery) const {
  if (broker_gone()) return RecordingState::off;
  if (gaps_.paused()) return RecordingState::paused;
  switch (delivery) {
    case Delivery::on:
      return RecordingState::on;
    case Delivery::silent:
      return RecordingState::silent;
    case Delivery::unproven:
      return RecordingState::unproven;
  }
  return RecordingState::unproven;
}

void RecorderThread::fill(Status& status, const Counts* counts) {
  const EventTime now_ns = monotonic_now();
  note_heads(now_ns);
  status.paused = gaps_.paused();
  status.recording = recording_state(counts != nullptr ? counts->delivery : last_counts_.delivery);
  for (std::size_t i = 0; i < attached_->rings.size(); ++i) {
    const ManifestRing& info = attached_->rings[i]->info();
    const double seconds = static_cast<double>(now_ns - histories_[i].oldest_ns()) / 1e9;
    status.rings.push_back(
        {.channel = info.channel, .cpu = info.cpu, .ring_bytes = info.ring_bytes, .history_seconds = seconds});
  }
  status.cpus = static_cast<int>(attached_->online_cpus());
  status.ring_bytes = attached_->ring_bytes();
  status.staging_bytes = attached_->staging.bytes();
  const TrackerStats tracker = tracker_.stats();
  status.tracker_bytes = tracker.log_bytes + tracker.state_bytes + (checkpoint_ ? checkpoint_->bytes() : 0);
  status.tracker_max_bytes = tracker_bytes(beside_.bytes);
  fill_channels(status, now_ns, counts, last_counts_);
  const Counts& known = counts != nullptr ? *counts : last_counts_;
  status.broker = {.pid = known.broker_pid,
                   .cpu_seconds = known.broker_cpu_seconds,
                   .rss_bytes = known.broker_rss_bytes,
                   .uptime_seconds = known.broker_uptime_seconds};
  status.build_ids_waiting = known.build_ids_waiting;
  // Rates are averages over at least this long, however often clients ask.
  if (counts != nullptr && counts->time_ns - last_counts_.time_ns >= kRateNs) last_counts_ = *counts;
  warn(status);
  note_unseen(status, known);
  if (status.build_ids_waiting > 0)
    status.notes.push_back(
        fmt::format("the build-ids of {} are read later: flightd-broker reads them with 1 % of a CPU over time",
                    counted(status.build_ids_waiting, "mapped file")));
  warn_of_short_histories(status);
}

// `recording` is that of all channels together.
void RecorderThread::note_unseen(Status& status, const Counts& known) const {
  if (status.recording == RecordingState::off || status.recording == RecordingState::paused) return;
  for (const std::string& unseen : known.unseen) {
    const std::size_t colon = unseen.find(": ");
    if (colon == std::string::npos)
      status.notes.push_back(fmt::format(
          "channel '{}': no sample has come yet, and its events need not occur: nothing shows that they are recorded",
          unseen));
    else
      status.notes.push_back(fmt::format(
          "channel '{}': no sample of {} has come yet, and it need not occur: nothing shows that it is recorded",
          unseen.substr(0, colon), unseen.substr(colon + 2)));
  }
}

// Warns of rings that are full but do not reach back as far as configured: for each channel its shortest ring and
// busiest event.
void RecorderThread::warn_of_short_histories(Status& status) const {
  for (const StatusChannel& channel : status.channels) {
    const auto wanted = wanted_ns_.find(channel.name);
    if (wanted == wanted_ns_.end() || wanted->second == 0) continue;
    const StatusRing* shortest = nullptr;
    for (std::size_t i = 0; i < status.rings.size(); ++i) {
      const StatusRing& ring = status.rings[i];
      if (ring.channel != channel.name || !histories_[i].overwrites()) continue;
      if (shortest == nullptr || ring.history_seconds < shortest->history_seconds) shortest = &ring;
    }
    const double wanted_seconds = static_cast<double>(wanted->second) / 1e9;
    if (shortest == nullptr || shortest->history_seconds >= wanted_seconds || channel.events.empty()) continue;
    const auto loudest = std::max_element(
        channel.events.begin(), channel.events.end(),
        [](const StatusEvent& a, const StatusEvent& b) { return a.bytes_per_second < b.bytes_per_second; });
    status.warnings.push_back(
        fmt::format("channel '{}': the ring of CPU {} holds {:.1f} s, less than its min_history of {:.1f} s; {} writes "
                    "most, {}/s on all CPUs: give the channel a larger ring, or that event a filter or a lower rate",
                    channel.name, shortest->cpu, shortest->history_seconds, wanted_seconds, loudest->event,
                    format_bytes(static_cast<std::uint64_t>(std::max(loudest->bytes_per_second, 0.0)))));
  }
}

void RecorderThread::warn_of_names(Status& status) const {
  const TrackerStats stats = tracker_.stats();
  const EventTime now_ns = monotonic_now();
  if (!tracker_.gaps().empty()) {
    const SidebandGap& gap = tracker_.gaps().back();
    if ((gap.lost > 0 || gap.full) && now_ns - std::min(gap.end_ns, now_ns) < kLossReportedNs)
      status.warnings.push_back(fmt::format(
          "{} {} s ago{}: names that are not certain are shown as {}{}",
          gap.lost == 0 ? "sideband records may have been lost"
                        : fmt::format("{} {} lost", counted(gap.lost, "sideband record"), was_or_were(gap.lost)),
          (now_ns - std::min(gap.end_ns, now_ns)) / 1'000'000'000, gap.who.empty() ? "" : " (" + gap.who + ")",
          kLostName, stats.stale ? ", until a scan has finished" : ""));
  }
  // Until no ring holds samples of these processes any more.
  if (stats.evicted > 0)
    status.warnings.push_back(fmt::format(
        "{} that had exited{} forgotten (limit reached), {} kept: {}", counted(stats.evicted, "process"),
        stats.evicted_until_ns > now_ns ? ""
                                        : fmt::format(" (the last {} ago)", format_duration(std::chrono::nanoseconds(
                                                                                now_ns - stats.evicted_until_ns))),
        counted(stats.exited, "process"), tracker_.memory_advice()));
  if (stats.living > 0)
    status.warnings.push_back(
        fmt::format("{} {} forgotten while alive (limit reached): no names until the next look at "
                    "the processes: {}",
                    counted(stats.living, "process"), was_or_were(stats.living), tracker_.memory_advice()));
  if (stats.strangers > 0)
    status.warnings.push_back(fmt::format("{} had an unknown event id and {} dropped",
                                          counted(stats.strangers, "sideband record"), was_or_were(stats.strangers)));
  if (cut_ > 0)
    status.notes.push_back(
        fmt::format("{} had a wrong size, as the kernel writes it beside another perf session, and {} repaired",
                    counted(cut_, "sideband record"), was_or_were(cut_)));
  const EventTime lately_ns = now_ns - std::min(now_ns, kLossReportedNs);
  for (std::string& flood : tracker_.flood_warnings(lately_ns, now_ns)) status.warnings.push_back(std::move(flood));
}

void RecorderThread::warn(Status& status) const {
  status.warnings = attached_->manifest.warnings;
  const std::vector<ManifestGap>& gaps = attached_->manifest.gaps;
  const bool any_gone = std::any_of(gaps.begin(), gaps.end(), [](const ManifestGap& gap) { return gap.end_ns == 0; });
  status.notes = any_gone ? notes_with_times(attached_->manifest, clock_.history()) : attached_->manifest.notes;
  if (std::string paused = gaps_.status_warning(); !paused.empty())
    status.warnings.insert(status.warnings.begin(), std::move(paused));
  if (!attached_->staging.locked())
    status.warnings.push_back("staging is not locked in memory (" + attached_->staging.lock_error() +
                              "): a snapshot under memory pressure can be late; raise LimitMEMLOCK");
  warn_of_names(status);
  if (std::string rings = attach_warning(); !rings.empty()) status.warnings.push_back(std::move(rings));
  if (std::string scan = scan_warning(); !scan.empty()) status.warnings.push_back(std::move(scan));
  if (std::string kernel = broker_thread_->kernel_warning(); !kernel.empty())
    status.warnings.push_back(std::move(kernel));
  if (checkpoint_ && !checkpoint_->trouble().empty()) status.warnings.push_back(checkpoint_->trouble());
  if (const std::string& version = attached_->manifest.version; version != kVersion)
    status.warnings.push_back(fmt::format(
        "flightd-broker is version {}, flightd {}: `systemctl kill flightd-broker` updates it and keeps the history",
        version, kVersion));
  const EventTime asked_ns = broker_thread_->asked_ns();
  const EventTime now_ns = monotonic_now();
  if (const std::string refusal = broker_thread_->refusal(); !refusal.empty())
    status.errors.push_back("nothing is recorded: " + refusal);
  else if (broker_gone())
    status.errors.emplace_back("flightd-broker is gone: nothing is recorded");
  else if (status.recording == RecordingState::silent)
    status.errors.emplace_back("no sampling event delivers samples although CPUs are busy: snapshots have none");
  else if (asked_ns != 0 && now_ns - std::min(asked_ns, now_ns) >= kStatusWaitNs)
    status.warnings.push_back(fmt::format(
        "flightd-broker has not answered for {:.1f} s: its events continue to record unless it was stopped; a snapshot "
        "must wait for it or for the next broker, and the rates and broker figures shown here are outdated",
        static_cast<double>(now_ns - asked_ns) / 1e9));
}

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
  // Without a ring: none of its CPUs was online so far.
  for (const ManifestEvent& event : attached_->manifest.events)
    if (!event.channel.empty() && std::none_of(status.channels.begin(), status.channels.end(),
                                               [&](const StatusChannel& row) { return row.name == event.channel; }))
      status.channels.push_back({.name = event.channel, .events = {}});
  for (StatusChannel& channel : status.channels) {
    const auto cpus = recorded_cpus(attached_->manifest, channel.name);
    channel.cpus = format_cpu_list({cpus.begin(), cpus.end()});
    const auto measured = record_bytes.find(channel.name);
    const double bytes_each = measured != record_bytes.end() ? measured->second : kTypicalRecordBytes;
    // An event can be counted and write nothing (libcore/recorder/delivery.hpp): then its rate is 0.
    std::set<int> empty_on;
    for (std::size_t i = 0; i < attached_->rings.size(); ++i)
      if (const ManifestRing& ring = attached_->rings[i]->info(); ring.channel == channel.name && histories_[i].empty())
        empty_on.insert(ring.cpu);
    std::map<int, double> counted_on;  // by CPU
    double counted = 0, most_sampled = 0;
    std::vector<double> frequencies;  // of the rows; 0: an event with a period
    for (const ManifestEvent& event : attached_->manifest.events) {
      if (event.channel != channel.name || event.closed || is_omitted(event)) continue;
      StatusEvent& row = channel.events.emplace_back(StatusEvent{.event = event.name});
      frequencies.push_back(event.attr.freq != 0 ? static_cast<double>(event.attr.sample_freq) : 0);
      most_sampled += frequencies.back();
      if (event.attr.freq != 0) continue;
      const auto period = static_cast<double>(std::max<std::uint64_t>(event.attr.sample_period, 1));
      for (const ManifestId& id : event.ids) {
        if (empty_on.contains(id.cpu)) continue;
        const double here = static_cast<double>(deltas[id.id]) / elapsed / period;
        row.per_second += here;
        counted_on[id.cpu] += here;
      }
      counted += row.per_second;
    }
    std::vector<RingFlow> flows;
    for (std::size_t i = 0; i < attached_->rings.size(); ++i)
      if (const ManifestRing& ring = attached_->rings[i]->info(); ring.channel == channel.name)
        flows.push_back(
            {.bytes_per_second = histories_[i].bytes_per_second(), .counted_per_second = counted_on[ring.cpu]});
    const ChannelFlow flow = split_flow(flows, bytes_each, most_sampled);
    for (std::size_t i = 0; i < channel.events.size(); ++i) {
      StatusEvent& row = channel.events[i];
      if (frequencies[i] > 0) {
        row.per_second = flow.sampled_per_second * frequencies[i] / most_sampled;
        row.bytes_per_second = flow.sampled_bytes * frequencies[i] / most_sampled;
      } else if (counted > 0) {
        row.bytes_per_second = flow.counted_bytes * row.per_second / counted;
      }
    }
  }
}

}  // namespace flight::daemon
