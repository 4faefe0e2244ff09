// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/trigger_api.hpp"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <memory>
#include <utility>

#include "daemon/control/peer.hpp"
#include "daemon/log/log.hpp"

namespace flight::daemon {
namespace {

namespace asio = boost::asio;

CallError refused(const std::string& name, const Error& error) {
  if (error.code == std::errc::no_such_file_or_directory) return no_such_trigger(name, error.what);
  if (error.code == std::errc::operation_canceled) return stopping();
  return invalid_parameter("name", error.what);
}

CallError held_back(const Decision& decision) {
  if (decision.by == SuppressedBy::disabled)
    return trigger_disabled(decision.trigger, fmt::format("the trigger {} is switched off; `flightctl triggers enable "
                                                          "{}` enables it",
                                                          decision.trigger, decision.trigger));
  const std::string until = to_rfc3339(decision.until);
  return suppressed(decision.trigger, until,
                    fmt::format("the trigger {} is suppressed until {} ({}); `flightctl snapshot` is never suppressed",
                                decision.trigger, until, to_string(decision.by)));
}

ListedTrigger listed(TriggerThread::Listed trigger) {
  TriggerRow& row = trigger.row;
  ListedTrigger out{.name = std::move(row.name),
                    .kind = std::move(trigger.kind),
                    .condition = std::move(row.condition),
                    .enabled = row.enabled,
                    .state = std::move(row.state),
                    .note = std::move(row.note),
                    .value = row.value,
                    .last_fired = {},
                    .last_snapshot = {},
                    .fired = row.fired,
                    .suppressed = row.suppressed,
                    .last_recording = {},
                    .recordings = row.recordings,
                    .recordings_failed = row.recordings_failed};
  if (row.fired_at) out.last_fired = to_rfc3339(*row.fired_at);
  if (!row.snapshot.empty()) out.last_snapshot = std::move(row.snapshot);
  if (!row.recording.empty()) out.last_recording = std::move(row.recording);
  return out;
}

SnapshotRequest request_of(const Decision& decision) {
  SnapshotRequest request;
  request.trigger = decision.trigger;
  request.fired = decision.fired;
  request.capture = decision.capture;
  request.requested_ns = monotonic_now();
  request.due_ns = request.requested_ns + static_cast<EventTime>(decision.post.count());
  const auto last_ns = static_cast<EventTime>(decision.last.count());
  if (last_ns > 0) request.window.begin_ns = request.requested_ns > last_ns ? request.requested_ns - last_ns : 1;
  return request;
}

}  // namespace

void TriggerApi::take(const Decision& decision) {
  log::info("trigger {} fired: {}", decision.trigger, decision.reason);
  events_.trigger_fired(decision.trigger, decision.reason);
  if (!recording_.on() || recorder_.broker_gone()) {
    log::warn("trigger {}: no snapshot is taken because nothing is recorded now", decision.trigger);
    if (decision.record.count() > 0) triggers_.note_unrecorded(decision.trigger, "nothing was recorded then");
    return triggers_.note_lost(decision.trigger, "nothing was recorded then");
  }
  SnapshotRequest request = request_of(decision);
  request.automatic = true;
  request.who = {.uid = static_cast<std::uint32_t>(::getuid()),
                 .pid = static_cast<std::int32_t>(::getpid()),
                 .comm = "flightd",
                 .time = to_rfc3339(wall_now()),
                 .reason = decision.reason};
  submit(decision, std::move(request), [this, decision](const Result<Sidecar>& result) {
    if (result)
      note_snapshot(decision, result->id);
    else
      triggers_.note_lost(decision.trigger, result.error().what);
  });
}

// A firing without a snapshot is taken back, so the day is used up only now.
void TriggerApi::note_snapshot(const Decision& decision, const std::string& id) {
  triggers_.note_snapshot(decision.trigger, id);
  if (decision.blind_until)
    events_.trigger_blind(
        {.trigger = decision.trigger, .max_per_day = decision.max_per_day, .until = *decision.blind_until});
}

// The recording has everything from `due_ns` on, which is not after the freeze, so nothing is missing between both
// files. It does not wait until the snapshot is written: the rings may not hold that much. A pause of the rings would
// be its first hole, so they are copied live, as for all snapshots while a recording runs.
void TriggerApi::submit(const Decision& decision, SnapshotRequest request,
                        std::function<void(const Result<Sidecar>&)> done) {
  if (decision.record.count() == 0) return snapshots_.submit(std::move(request), std::move(done));
  request.capture = CaptureMode::live;
  const Recordings::OfTrigger wanted{.trigger = decision.trigger,
                                     .reason = decision.reason,
                                     .since_ns = request.due_ns,
                                     .for_ns = static_cast<EventTime>(decision.record.count())};
  const auto begin = [this, wanted, begun = std::make_shared<bool>(false)] {
    if (!std::exchange(*begun, true)) record(wanted);
  };
  // All steps but "waiting" come after the freeze, and are reported by one thread at a time.
  request.progress = [this, begin, told = std::make_shared<bool>(false)](std::string_view step, unsigned /*percent*/) {
    if (step != "waiting" && !std::exchange(*told, true)) asio::post(loop_, [begin] { begin(); });
  };
  snapshots_.submit(std::move(request),
                    [this, begin, name = decision.trigger, done = std::move(done)](const Result<Sidecar>& result) {
                      if (!result && result.error().code == std::errc::operation_canceled)
                        prevented(name);
                      else
                        begin();  // also without a snapshot
                      done(result);
                    });
}

void TriggerApi::record(const Recordings::OfTrigger& wanted) {
  // `post` was cut short.
  if (monotonic_now() < wanted.since_ns && !recorder_.broker_gone()) return prevented(wanted.trigger);
  recordings_.record(
      wanted, [this, name = wanted.trigger](const std::string& id) { triggers_.note_recording(name, id); },
      [this, name = wanted.trigger](const CallResult<std::string>& result) {
        if (!result) triggers_.note_unrecorded(name, error_message(result.error()));
      });
}

void TriggerApi::prevented(const std::string& trigger) {
  log::warn("trigger {}: no recording is made because flightd is stopping", trigger);
  triggers_.note_unrecorded(trigger, "flightd is stopping");
}

void TriggerApi::list(ControlBackend::Done done) {
  triggers_.rows([this, done = std::move(done)](std::vector<TriggerThread::Listed> rows) {
    asio::post(loop_, [done, rows = std::move(rows)]() mutable {
      std::vector<ListedTrigger> out;
      for (TriggerThread::Listed& row : rows) out.push_back(listed(std::move(row)));
      done(to_json(out));
    });
  });
}

void TriggerApi::fire(const Caller& caller, FireParameters parameters, ControlBackend::Done done) {
  const SidecarRequest who{.uid = caller.uid,
                           .pid = caller.pid,
                           .comm = caller.comm,
                           .time = to_rfc3339(wall_now()),
                           .reason = parameters.reason};
  const bool test = parameters.test;
  auto decided = [this, who, has_ended = caller.has_ended, test, name = parameters.name,
                  done = std::move(done)](Result<Decision> decision) {
    asio::post(loop_, [this, who, has_ended, test, name, done, decision = std::move(decision)] {
      if (!decision) return done(tl::unexpected(refused(name, decision.error())));
      if (!decision->fires()) return done(tl::unexpected(held_back(*decision)));
      SnapshotRequest request = request_of(*decision);
      request.automatic = !test;  // a person waits for the result of a test
      request.test = test;
      request.who = who;
      request.has_ended = has_ended;
      request.who.reason = decision->reason;
      events_.trigger_fired(name, decision->reason);
      submit(*decision, std::move(request), [this, decision = *decision, test, done](const Result<Sidecar>& result) {
        if (!result) {
          triggers_.note_lost(decision.trigger, result.error().what, test);
          return done(tl::unexpected(snapshots_.call_error(result.error())));
        }
        note_snapshot(decision, result->id);
        done(result->id);
      });
    });
  };
  triggers_.external(std::move(parameters.name), std::move(parameters.reason), test, std::move(decided));
}

void TriggerApi::set(const Caller& caller, const SetTriggerParameters& parameters, ControlBackend::Done done) {
  const std::string name = parameters.name;
  const bool enabled = parameters.enabled;
  triggers_.enable(name, enabled,
                   [this, name, enabled, who = name_of(caller), done = std::move(done)](Result<void> set) {
                     asio::post(loop_, [name, enabled, who, done, set = std::move(set)] {
                       if (!set) return done(tl::unexpected(refused(name, set.error())));
                       log::at(enabled ? log::Level::info : log::Level::warn, "trigger {} switched {} by {}", name,
                               enabled ? "on" : "off", who);
                       done("{}");
                     });
                   });
}

}  // namespace flight::daemon
