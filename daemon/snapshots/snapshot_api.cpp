// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/snapshot_api.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/snapshots/call_error.hpp"
#include "daemon/snapshots/window.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight::daemon {

namespace asio = boost::asio;

SnapshotApi::SnapshotApi(asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker, StoreService& store,
                         EventHub& events)
    : loop_(loop), recorder_(recorder), worker_(worker), store_(store), events_(events) {
  learn_last();
}

void SnapshotApi::take(const Caller& caller, const SnapshotParameters& parameters, ControlBackend::Progress progress,
                       ControlBackend::Done done) {
  const ClockTriple now = recorder_.clock().look();
  const EventTime now_ns = now.monotonic_ns;
  auto window = parse_window(
      parameters, {.now = now, .clock = recorder_.clock().history(), .oldest_held_ns = recorder_.oldest_held_ns()});
  if (!window) return done(tl::unexpected(window.error()));
  SnapshotRequest request;
  request.who = {.uid = caller.uid,
                 .pid = caller.pid,
                 .comm = caller.comm,
                 .time = to_rfc3339(now.wall),
                 .reason = parameters.reason};
  request.has_ended = caller.has_ended;
  request.window = *window;
  request.requested_ns = now_ns;
  request.due_ns = now_ns + parameters.post_usec.value_or(0) * 1000;
  if (parameters.capture) request.capture = *parameters.capture == "live" ? CaptureMode::live : CaptureMode::pause;
  request.progress = [this, progress = std::move(progress)](std::string_view step, unsigned percent) {
    asio::post(loop_, [progress, step = std::string(step), percent] { progress(step, percent); });
  };
  submit(std::move(request), [this, done = std::move(done)](const Result<Sidecar>& result) {
    if (result) return done(to_json_line(*result));
    done(tl::unexpected(call_error(result.error())));
  });
}

void SnapshotApi::take_by_signal(std::uint32_t uid, std::int32_t pid) {
  SnapshotRequest request;
  request.trigger = "signal";
  request.who = {.uid = uid, .pid = pid, .comm = "", .time = to_rfc3339(wall_now()), .reason = "SIGUSR2"};
  request.requested_ns = request.due_ns = monotonic_now();
  submit(std::move(request), [](const Result<Sidecar>&) {});
}

void SnapshotApi::submit(SnapshotRequest request, std::function<void(const Result<Sidecar>&)> done) {
  request.done = [this, done = std::move(done)](const Result<Sidecar>& result) {
    asio::post(loop_, [done, result] { done(result); });
  };
  worker_.request(std::move(request));
}

CallError SnapshotApi::call_error(const Error& error) const {
  return snapshot_call_error(error, recorder_.broker_gone());
}

// After a restart the status must show the last snapshot of the previous flightd.
void SnapshotApi::learn_last() {
  store_.find_newest([this](const Sidecar& sidecar) {
    const WallTime now = wall_now();
    const auto at = parse_time(sidecar.window.end, now);
    if (!at || last_) return;
    // The wall clock may have been set since then. For a snapshot of another boot there is no other clock.
    const auto ago = static_cast<std::uint64_t>(std::max<std::int64_t>((now - *at).count(), 0));
    const bool of_this_boot = sidecar.boot_id == recorder_.attached()->manifest.boot_id;
    last_ = {.id = sidecar.id,
             .time = sidecar.window.end,
             .trigger = sidecar.trigger,
             .boottime_ns =
                 of_this_boot ? recorder_.clock().history().boottime_at(sidecar.window.end_ns) : boottime_now() - ago,
             .timings_us = sidecar.timings_us};
    events_.status_changed();
  });
}

std::chrono::nanoseconds SnapshotApi::age_of_last() const {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(boottime_now() - last_->boottime_ns));
}

void SnapshotApi::ended(const Result<Sidecar>& result) {
  const bool was_degraded = !disk_trouble_.empty();
  if (result) {
    last_ = {.id = result->id,
             .time = to_rfc3339(wall_now()),
             .trigger = result->trigger,
             .boottime_ns = boottime_now(),
             .timings_us = result->timings_us};
    disk_trouble_.clear();
    descriptor_trouble_.clear();
    store_.keep_budget();
    store_.refresh_use();
    return events_.snapshot_finished(*result, was_degraded);
  }
  const Error& error = result.error();
  if (error.code == std::errc::operation_canceled) return events_.status_changed();
  const bool broker_gone = recorder_.broker_gone();
  const std::string what = error.what + descriptor_advice(error);
  if (!broker_gone) {
    std::string trouble = fmt::format("at {} a snapshot could not be written: {}", to_rfc3339(wall_now()), what);
    if (lacks_descriptors(error))
      descriptor_trouble_ = std::move(trouble);
    else if (error.code != BrokerThread::kBrokerSilent)  // the status says so itself while it lasts
      disk_trouble_ = "degraded (disk): " + trouble;
  }
  events_.snapshot_failed(
      {.what = what, .broker_gone = broker_gone, .new_disk_trouble = was_degraded ? std::string() : disk_trouble_});
}

}  // namespace flight::daemon
