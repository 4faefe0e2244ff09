// SPDX-License-Identifier: Apache-2.0
#include "daemon/service.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "daemon/peer.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/version.hpp"
#include "libcore/store/headline.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

// A time that is told must be one that may be asked for: what is cut off is added.
constexpr std::chrono::microseconds kUpToNextMs(999);
constexpr std::chrono::milliseconds kStoreUseWait(300);  // a status is answered after this, whatever the disk does
constexpr EventTime kSlowWriteNs = 10'000'000'000;       // a snapshot that takes longer is told in the status

std::string_view what_next(int error_number) {
  if (is_full(error_number)) return " Make room there, for instance with `flightctl remove ID`, and ask again.";
  if (error_number == EACCES) return " The folder must belong to flightd's user and be writable for its group.";
  return "";
}

}  // namespace

Service::Service(asio::io_context& loop, RecorderThread& recorder, SnapshotWorker& worker, std::string folder,
                 const StoreConfig& store, std::vector<std::string> warnings)
    : loop_(loop),
      recorder_(recorder),
      worker_(worker),
      warnings_(std::move(warnings)),
      started_ns_(monotonic_now()),
      hourly_(loop),
      max_snapshot_bytes_(store.max_snapshot_bytes),
      catalogue_(folder),
      budget_(std::move(folder), store, [this] { return writing_.load(); }) {
  worker_.budget_with(
      [this](const std::string& trigger, std::uint64_t most_bytes) { return make_room(trigger, most_bytes); },
      [this] { keep_budget(); });
  worker_.watch(
      [this](const std::string& trigger) {
        asio::post(loop_,
                   [this, trigger] { events_.publish({.event = std::string(kSnapshotBegun), .trigger = trigger}); });
      },
      [this](const Result<Sidecar>& result) {
        writing_ = false;
        asio::post(loop_, [this, result] { snapshot_ended(result); });
      });
  keep_budget_hourly();
  learn_last_snapshot();
}

Service::~Service() { store_.join(); }

// The disk may hang: then the status tells what was known last, and says so.
void Service::get_status(Done done) {
  recorder_.status([this, done = std::move(done)](Status status) mutable {
    asio::post(loop_, [this, status = std::move(status), done = std::move(done)]() mutable {
      const std::uint64_t number = ++status_number_;
      waiting_statuses_[number] = [this, status = std::move(status), done = std::move(done)]() mutable {
        answer_status(std::move(status), done);
      };
      auto timer = std::make_shared<asio::steady_timer>(loop_, kStoreUseWait);
      timer->async_wait([this, number, timer](const boost::system::error_code&) {
        if (const auto late = waiting_statuses_.extract(number)) late.mapped()();
      });
      refresh_store_use();
    });
  });
}

void Service::refresh_store_use() {
  if (use_asked_ns_ != 0) return;
  use_asked_ns_ = monotonic_now();
  asio::post(store_, [this] {
    const StoreUse use{
        .usage = catalogue_.usage(), .max_bytes = budget_.max_use_bytes(), .warnings = budget_.warnings()};
    asio::post(loop_, [this, use] {
      store_use_ = use;
      use_asked_ns_ = 0;
      for (const auto& [number, answer] : std::exchange(waiting_statuses_, {})) answer();
      changed_();
    });
  });
}

void Service::answer_status(Status status, const Done& done) const {
  const EventTime now_ns = monotonic_now();
  status.version = kVersion;
  status.uptime_seconds = static_cast<double>(now_ns - started_ns_) / 1e9;
  status.snapshots = store_use_.usage.snapshots;
  status.store_bytes = store_use_.usage.bytes;
  status.store_max_bytes = store_use_.max_bytes;
  const ProcessUsage self = process_usage(::getpid());
  status.flightd = {.pid = ::getpid(), .cpu_seconds = self.cpu_seconds, .rss_bytes = self.rss_bytes};
  if (last_snapshot_) {
    const SidecarTimings& t = last_snapshot_->timings_us;
    status.last_snapshot = last_snapshot_->id;
    status.last = StatusLast{.time = last_snapshot_->time,
                             .trigger = last_snapshot_->trigger,
                             .queued_us = t.queued,
                             .freeze_us = t.freeze,
                             .walk_us = t.walk,
                             .merge_us = t.merge,
                             .write_us = t.write,
                             .total_us = t.total};
  }
  const auto since = [now_ns](EventTime from_ns) {
    return format_duration(std::chrono::nanoseconds(now_ns - from_ns));
  };
  if (!disk_trouble_.empty()) status.warnings.push_back(disk_trouble_);
  if (use_asked_ns_ != 0)
    status.warnings.push_back(fmt::format(
        "degraded (disk): {} has not answered for {}; how many snapshots there are is what was known before",
        catalogue_.folder(), since(use_asked_ns_)));
  if (const EventTime from_ns = worker_.writing_since_ns(); from_ns != 0 && now_ns > from_ns + kSlowWriteNs)
    status.warnings.push_back(
        fmt::format("degraded (disk): a snapshot has been under way to {} for {}; the recording goes on",
                    catalogue_.folder(), since(from_ns)));
  status.warnings.insert(status.warnings.end(), store_use_.warnings.begin(), store_use_.warnings.end());
  status.warnings.insert(status.warnings.end(), warnings_.begin(), warnings_.end());
  if (reloader_ != nullptr)
    status.warnings.insert(status.warnings.end(), reloader_->warnings().begin(), reloader_->warnings().end());
  done(to_json(status));
}

CallResult<WindowRequest> Service::window_of(const SnapshotParameters& parameters, EventTime now_ns) const {
  WindowRequest out;
  if (parameters.last_usec && parameters.since)
    return tl::unexpected(invalid_parameter("since", "last_usec and since exclude each other"));
  if (parameters.last_usec) {
    const std::uint64_t last_ns = std::min(*parameters.last_usec, UINT64_MAX / 1000) * 1000;
    out.begin_ns = now_ns > last_ns ? now_ns - last_ns : 1;
  }
  const WallTime now = wall_now();
  const ClockPair clock = ClockPair::now();
  const auto read = [&](const std::string& text, const char* name) -> CallResult<EventTime> {
    auto time = parse_time(text, now);
    if (!time) return tl::unexpected(invalid_parameter(name, time.error().what));
    return std::max<EventTime>(clock.event_at(*time), 1);
  };
  if (parameters.since) {
    auto begin = read(*parameters.since, "since");
    if (!begin) return tl::unexpected(begin.error());
    out.begin_ns = *begin;
    const EventTime oldest_ns = recorder_.oldest_held_ns();
    if (out.begin_ns < oldest_ns)
      return tl::unexpected(invalid_parameter(
          "since", fmt::format("{} is no longer held: the oldest time held is {} ({} ago)", *parameters.since,
                               to_rfc3339(clock.wall_at(oldest_ns) + kUpToNextMs),
                               format_duration(std::chrono::nanoseconds(now_ns - std::min(now_ns, oldest_ns))))));
    if (out.begin_ns > now_ns + parameters.post_usec.value_or(0) * 1000)
      return tl::unexpected(invalid_parameter("since", fmt::format("{} lies in the future", *parameters.since)));
  }
  if (parameters.until) {
    auto end = read(*parameters.until, "until");
    if (!end) return tl::unexpected(end.error());
    out.end_ns = *end;
    if (out.end_ns <= std::max(out.begin_ns, recorder_.oldest_held_ns()))
      return tl::unexpected(invalid_parameter(
          "until", fmt::format("nothing is held that lies before {}: the oldest time held is {}", *parameters.until,
                               to_rfc3339(clock.wall_at(recorder_.oldest_held_ns())))));
  }
  return out;
}

void Service::take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) {
  const EventTime now_ns = monotonic_now();
  auto window = window_of(parameters, now_ns);
  if (!window) return done(tl::unexpected(window.error()));
  SnapshotRequest request;
  request.who = {.uid = caller.uid,
                 .pid = caller.pid,
                 .comm = caller.comm,
                 .time = to_rfc3339(wall_now()),
                 .reason = parameters.reason};
  request.window = *window;
  request.requested_ns = now_ns;
  request.due_ns = now_ns + parameters.post_usec.value_or(0) * 1000;
  if (parameters.capture) request.capture = *parameters.capture == "live" ? CaptureMode::live : CaptureMode::pause;
  request.progress = [this, progress = std::move(progress)](std::string_view step, unsigned percent) {
    asio::post(loop_, [progress, step = std::string(step), percent] { progress(step, percent); });
  };
  submit(std::move(request), [this, done = std::move(done)](const Result<Sidecar>& result) {
    if (result) return done(to_json_line(*result));
    done(tl::unexpected(to_call_error(result.error(), recorder_.broker_gone())));
  });
}

// How an Error of a snapshot reads to its askers.
CallError Service::to_call_error(const Error& error, bool broker_gone) {
  if (error.code == std::errc::operation_canceled) return stopping();
  const int number = error.errno_value();
  if (broker_gone)
    return write_failed(
        number, "",
        fmt::format(
            "flightd-broker is gone: nothing was kept of this snapshot, and nothing is recorded until there is a "
            "broker again; what was held then is in the snapshot 'broker-lost', if there was room ({})",
            error.what));
  const std::string what =
      fmt::format("{}. Nothing was kept of this snapshot; the recording goes on.{}", error.what, what_next(number));
  return is_full(number) ? store_full(what) : write_failed(number, "", what);
}

void Service::take_by_signal(std::uint32_t uid, std::int32_t pid, std::function<void(const Result<Sidecar>&)> done) {
  SnapshotRequest request;
  request.trigger = "signal";
  request.who = {.uid = uid, .pid = pid, .comm = "", .time = to_rfc3339(wall_now()), .reason = "SIGUSR2"};
  request.requested_ns = request.due_ns = monotonic_now();
  submit(std::move(request), std::move(done));
}

void Service::submit(SnapshotRequest request, std::function<void(const Result<Sidecar>&)> done) {
  request.done = [this, done = std::move(done)](const Result<Sidecar>& result) {
    asio::post(loop_, [done, result] { done(result); });
  };
  worker_.request(std::move(request));
}

// After a restart a status must not read as if nothing had ever been captured.
void Service::learn_last_snapshot() {
  asio::post(store_, [this] {
    const auto text = catalogue_.describe("latest");
    const auto sidecar = text ? parse_sidecar(*text) : Result<Sidecar>(pass(text.error()));
    if (!sidecar) return;
    const auto at = parse_time(sidecar->window.end, wall_now());
    if (!at) return;
    const LastSnapshot last{.id = sidecar->id,
                            .time = sidecar->window.end,
                            .trigger = sidecar->trigger,
                            .at = *at,
                            .timings_us = sidecar->timings_us};
    asio::post(loop_, [this, last] {
      if (last_snapshot_) return;
      last_snapshot_ = last;
      if (changed_) changed_();
    });
  });
}

// Once for each snapshot, however many asked for it, and before they are answered.
void Service::snapshot_ended(const Result<Sidecar>& result) {
  const bool was_degraded = !disk_trouble_.empty();
  if (result) {
    last_snapshot_ = {.id = result->id,
                      .time = to_rfc3339(wall_now()),
                      .trigger = result->trigger,
                      .at = wall_now(),
                      .timings_us = result->timings_us};
    disk_trouble_.clear();
  } else if (result.error().code != std::errc::operation_canceled && !recorder_.broker_gone()) {
    disk_trouble_ = fmt::format("degraded (disk): at {} a snapshot could not be written: {}", to_rfc3339(wall_now()),
                                result.error().what);
  }
  if (result) keep_budget();
  if (result) refresh_store_use();
  if (told_) told_(result);
  if (result) {
    events_.publish({.event = std::string(kSnapshotFinished),
                     .id = result->id,
                     .trigger = result->trigger,
                     .reason = result->reason,
                     .path = result->path,
                     .message = headline(*result)});
    if (was_degraded) events_.publish({.event = std::string(kRecovered), .message = "snapshots can be written again"});
    return;
  }
  if (result.error().code == std::errc::operation_canceled) return;
  events_.publish({.event = std::string(kSnapshotFailed), .message = result.error().what});
  if (!was_degraded && !disk_trouble_.empty())
    events_.publish({.event = std::string(kDegraded), .message = disk_trouble_});
}

void Service::set_recording(const Caller& caller, bool recording, Done done) {
  const std::string who = name_of(caller);
  recorder_.set_recording(recording, who, [this, recording, who, done = std::move(done)](const Result<void>& switched) {
    asio::post(loop_, [this, recording, who, done, switched] {
      if (!switched)
        return done(tl::unexpected(write_failed(
            switched.error().errno_value(), "",
            fmt::format("recording could not be {}: {}", recording ? "resumed" : "paused", switched.error().what))));
      if (triggers_ != nullptr) triggers_->set_recording(recording);
      if (std::exchange(recording_, recording) != recording) {
        spdlog::log(recording ? spdlog::level::info : spdlog::level::warn, "recording {} by {}",
                    recording ? "resumed" : "paused", who);
        events_.publish({.event = std::string(recording ? kRecordingResumed : kRecordingPaused),
                         .message = fmt::format("by {}", who)});
        changed_();
      }
      done("{}");
    });
  });
}

void Service::monitor(Listener listener) {
  events_.add(std::move(listener),
              {.event = std::string(kMonitoring), .message = disk_trouble_, .recording = recording_});
}

}  // namespace flight
