// SPDX-License-Identifier: Apache-2.0
// How the worker takes one snapshot: it freezes the rings, and has them written with what is known about them.
#include <algorithm>
#include <utility>

#include "daemon/snapshots/cpu_gaps.hpp"
#include "daemon/snapshots/lost_counts.hpp"
#include "daemon/snapshots/names.hpp"
#include "daemon/snapshots/worker.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

// Maps the staged rings of `old` to indices in the manifest of `newer`; nullopt: some are missing there.
std::optional<std::vector<std::size_t>> rings_in(const Attached& newer, const Attached& old) {
  std::vector<std::size_t> out;
  for (const auto& ring : old.rings) {
    const auto at = std::find(newer.rings.begin(), newer.rings.end(), ring);
    if (at == newer.rings.end()) return std::nullopt;
    out.push_back(newer.channel_rings[static_cast<std::size_t>(at - newer.rings.begin())]);
  }
  return out;
}

}  // namespace

std::shared_ptr<Attached> SnapshotWorker::follow_attached() {
  std::shared_ptr<Attached> next = recorder_.attached();
  if (next == attached_) return nullptr;
  BlackoutLog blackouts(next->rings.size());
  if (attached_)
    for (std::size_t i = 0; i < next->rings.size(); ++i) {
      const auto old = std::find(attached_->rings.begin(), attached_->rings.end(), next->rings[i]);
      if (old != attached_->rings.end())
        blackouts[i] = std::move(blackouts_[static_cast<std::size_t>(old - attached_->rings.begin())]);
    }
  blackouts_ = std::move(blackouts);
  return std::exchange(attached_, std::move(next));
}

// Captures every ring.
EventTime SnapshotWorker::freeze(const Job& job) {
  const std::shared_ptr<Attached> replaced = follow_attached();  // released at the end
  recorder_.hold_fold(true);
  recorder_.clock().look();  // what it shows at the freeze
  const EventTime frozen_ns = monotonic_now();
  urgent_.end();  // copying large rings takes tenths of a second
  freezer_.freeze(attached_->staging, job.capture);
  return frozen_ns;
}

// What is written beside the records: who asked, and what is missing or wrong, as far as it is known at the freeze.
SnapshotOrder SnapshotWorker::order_of(const Job& job, const Manifest& manifest, EventTime frozen_ns,
                                       EventTime recorded_until_ns, const ClockHistory& clock) const {
  SnapshotOrder order{.trigger = job.trigger,
                      .test = job.test,
                      .reason = job.reason,
                      .recording = std::string(to_string(recorder_.recording_state(counts_.delivery))),
                      .fired = job.fired,
                      .metrics = callbacks_.metrics(),
                      .requests = {},
                      .window = job.window,
                      .requested_ns = job.requested_ns,
                      .pauses = recorder_.gaps().pauses(),
                      .compression = job.config.compression,
                      .compression_level = job.config.compression_level,
                      .warnings = cpu_gap_warnings(manifest, job.window.begin_ns, frozen_ns, clock)};
  for (std::string& gap : recorder_.gaps().warnings(job.window.begin_ns, std::min(job.window.end_ns, frozen_ns),
                                                    recorder_.oldest_held_ns()))
    order.warnings.push_back(std::move(gap));
  for (const ManifestEvent& event : manifest.events)
    if (!event.closed && !event.why.empty() && !event.expected)
      order.warnings.push_back(replaced_text(event.channel, event.why, event.name));
  order.warnings.insert(order.warnings.end(), manifest.missing.begin(), manifest.missing.end());
  if (order.recording == to_string(RecordingState::silent))
    order.errors.emplace_back("no sampling event delivered samples although CPUs were busy");
  if (std::string rings = recorder_.attach_warning(); !rings.empty()) order.warnings.push_back(std::move(rings));
  order.requests = askers_of(job.askers, recorder_);
  if (recorder_.broker_gone())
    order.errors.push_back(fmt::format("flightd-broker is gone: nothing after {} is in this snapshot",
                                       to_rfc3339(clock.wall_at(recorded_until_ns))));
  if (job.cut_short_ns > 0)
    order.warnings.push_back(
        fmt::format("flightd was stopped: this snapshot ends {} before the end of the requested `post`",
                    format_duration(std::chrono::nanoseconds(job.cut_short_ns))));
  return order;
}

Result<Sidecar> SnapshotWorker::take(Job& job) {
  if (const std::string refusal = recorder_.refusal(); !refusal.empty() && recorder_.attached()->rings.empty()) {
    urgent_.end();
    return fail(std::errc::no_message_available, "nothing is recorded: {}", refusal);
  }
  const std::string reads_rings = callbacks_.recording_id();
  const bool not_paused = !reads_rings.empty() && job.capture == CaptureMode::pause;
  if (not_paused) job.capture = CaptureMode::live;
  const EventTime frozen_ns = freeze(job);
  const EventTime recorded_until_ns = recorder_.recorded_until_ns();
  after_step(Step::frozen);
  const ClockHistory clock = recorder_.clock().history();
  const auto release = [this](void*) { recorder_.hold_fold(false); };
  const std::unique_ptr<void, decltype(release)> hold(this, release);

  for (std::size_t i = 0; i < attached_->rings.size(); ++i) {
    const RingCapture& cut = attached_->staging.result(i);
    if (cut.pause_begin_ns != 0) blackouts_[i].push_back({cut.pause_begin_ns, cut.pause_end_ns});
  }
  bool exact = attached_->manifest.lost_exact;
  const std::vector<std::uint64_t> lost = count_lost(job, attached_->manifest, attached_->channel_rings, exact);
  after_step(Step::counted);
  // Read in parallel while space is made. A module of the window that was unloaded since then is known from earlier
  // reads.
  auto kernel = recorder_.refresh_kernel();
  forget_old_blackouts();
  // A CPU may have come back just before the freeze: only a newer set contains its new events. The broker sends
  // *changed* before its reply, so the newer set is already here.
  const std::shared_ptr<Attached> newest = recorder_.attached();
  const auto newest_rings = rings_in(*newest, *attached_);
  const Manifest& manifest = newest_rings ? newest->manifest : attached_->manifest;

  SnapshotOrder order = order_of(job, manifest, frozen_ns, recorded_until_ns, clock);
  if (not_paused)
    order.notes.push_back(fmt::format(
        "its rings were copied live, without a pause, because recording {} reads them: it would miss what is written "
        "meanwhile",
        reads_rings));
  writing_since_ns_ = monotonic_now();
  const auto max_bytes = callbacks_.make_room(job.trigger, attached_->ring_bytes());
  if (!max_bytes) return propagate(max_bytes.error());
  order.max_bytes = *max_bytes;
  if (std::string store = callbacks_.store_warning(); !store.empty()) order.warnings.push_back(std::move(store));
  bool asked = false;
  const auto make_more_room = [&](std::uint64_t needed_bytes) {
    return !std::exchange(asked, true) && callbacks_.make_more_room(job.trigger, needed_bytes);
  };
  order.make_room = make_more_room;
  order.synced = callbacks_.synced;
  const std::size_t more = job.config.layout == "directory" ? workers_->size() : 0;
  auto output = job.trigger == kBrokerLost ? files_.take_spare() : files_.make(more);
  if (!output && job.trigger != kBrokerLost && is_full(output.error().errno_value()) && make_more_room(0))
    output = files_.make(more);
  if (!output) return propagate(output.error());

  kernel_ = take_kernel(recorder_, std::move(kernel), order.warnings);
  const HostFacts host = host_.again();
  const RecordingFacts recording{.manifest = manifest,
                                 .channel_rings = newest_rings ? *newest_rings : attached_->channel_rings,
                                 .events = newest_rings ? newest->events : attached_->events,
                                 .host = host,
                                 .kernel = kernel_->names,
                                 .kallsyms = kernel_->file(manifest.boot_id)};
  const CaptureFacts capture{.staging = attached_->staging,
                             .frozen_ns = frozen_ns,
                             .recorded_until_ns = recorded_until_ns,
                             .mode = job.capture,
                             .blackouts = blackouts_,
                             .lost = lost,
                             .lost_exact = exact,
                             .clock = clock};
  const TrackerQuery tracker = [this, once = order.max_bytes == 0](EventTime begin_ns, EventTime end_ns,
                                                                   const std::unordered_set<std::uint32_t>& pids,
                                                                   const std::unordered_set<std::uint64_t>& cgroups) {
    auto window = recorder_.export_window(begin_ns, end_ns, pids, cgroups);
    name_files(recorder_, window);
    if (once) recorder_.hold_fold(false);  // also if the disk takes long from here on
    return window;
  };
  const OnProgress progress = [&job](std::string_view step, unsigned percent) {
    for (const SnapshotRequest& asker : job.askers)
      if (asker.progress) asker.progress(step, percent);
  };
  Result<Sidecar> result = fail(std::errc::io_error, "the snapshot was not written");
  workers_->merge([&] {
    result = write_snapshot(order, recording, capture, std::move(*output), tracker, *workers_, memory_, progress);
  });
  return result;
}

// If the broker does not reply, the result is 0 for each ring and not exact.
std::vector<std::uint64_t> SnapshotWorker::count_lost(const Job& job, const Manifest& manifest,
                                                      const std::vector<std::size_t>& channel_rings, bool& exact) {
  auto counts = recorder_.counts(kCountsWait);
  if (!counts) {
    exact = false;
    // It makes the files, too.
    if (counts.error().code == std::errc::timed_out)
      for (const SnapshotRequest& asker : job.askers)
        if (asker.progress) asker.progress("waiting for flightd-broker", 0);
    return std::vector<std::uint64_t>(channel_rings.size(), 0);
  }
  auto out = lost_between(counts_, *counts, manifest, channel_rings);
  counts_ = std::move(*counts);
  return out;
}

// Removes blackouts that no ring reaches back to: no file can contain them.
void SnapshotWorker::forget_old_blackouts() {
  const EventTime oldest_ns = recorder_.oldest_held_ns();
  for (auto& ring : blackouts_)
    std::erase_if(ring, [&](const Blackout& blackout) { return blackout.end_ns < oldest_ns; });
}

}  // namespace flight::daemon
