// SPDX-License-Identifier: Apache-2.0
// What triggers ask for, and the calls about them: ListTriggers, FireTrigger, SetTrigger.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "daemon/peer.hpp"
#include "daemon/service.hpp"
#include "libcore/store/folder.hpp"

namespace flight {
namespace {

namespace asio = boost::asio;

constexpr const char* kStateFile = "triggers.state";

CallError refused(const std::string& name, const Error& error) {
  if (error.code == std::errc::no_such_file_or_directory) return no_such_trigger(name, error.what);
  if (error.code == std::errc::operation_canceled) return stopping();
  return invalid_parameter("name", error.what);
}

CallError held_back(const Decision& decision) {
  if (decision.by == SuppressedBy::disabled)
    return trigger_disabled(decision.trigger, fmt::format("the trigger {} is switched off; `flightctl triggers enable "
                                                          "{}` lets it fire again",
                                                          decision.trigger, decision.trigger));
  const std::string until = to_rfc3339(decision.until);
  return suppressed(decision.trigger, until,
                    fmt::format("the trigger {} is held back until {} ({}); `flightctl snapshot` always takes one",
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
                    .suppressed = row.suppressed};
  if (row.fired_at) out.last_fired = to_rfc3339(*row.fired_at);
  if (!row.snapshot.empty()) out.last_snapshot = std::move(row.snapshot);
  return out;
}

}  // namespace

std::string Service::saved_triggers(const std::string& state_dir) {
  auto folder = Folder::open(state_dir);
  if (!folder) return "";
  auto text = folder->read(kStateFile, kMaxTriggerStateBytes);
  if (!text && text.error().code != std::errc::no_such_file_or_directory)
    spdlog::warn("{}: the triggers' counters begin afresh", text.error().what);
  return text ? std::move(*text) : std::string();
}

// Any thread. Of several texts that wait for the disk only the last is written.
void Service::keep_triggers(const std::string& state_dir, std::string text) {
  const std::lock_guard lock(trigger_state_mutex_);
  if (std::exchange(trigger_state_, std::move(text))) return;
  asio::post(store_, [this, state_dir] {
    std::string newest;
    {
      const std::lock_guard taken(trigger_state_mutex_);
      newest = std::move(*std::exchange(trigger_state_, std::nullopt));
    }
    auto folder = Folder::open(state_dir);
    Result<void> kept = folder ? folder->replace(kStateFile, fmt::format("{}.partial", kStateFile), newest)
                               : Result<void>(pass(folder.error()));
    if (kept) {
      trigger_state_trouble_ = false;
    } else if (!std::exchange(trigger_state_trouble_, true)) {
      spdlog::warn("the triggers' counters cannot be kept: {}; after a restart they begin at what was kept before",
                   kept.error().what);
    }
  });
}

// On the event loop.
void Service::take_for_trigger(const Decision& decision) {
  spdlog::info("trigger {} fired: {}", decision.trigger, decision.reason);
  events_.publish({.event = std::string(kTriggerFired), .trigger = decision.trigger, .reason = decision.reason});
  if (!recording_ || recorder_.broker_gone()) {
    spdlog::warn("trigger {}: no snapshot is taken, as nothing is recorded now", decision.trigger);
    return triggers_->note_lost(decision.trigger, "nothing was recorded then");
  }
  SnapshotRequest request = request_of(decision);
  request.automatic = true;
  request.who = {.uid = static_cast<std::uint32_t>(::getuid()),
                 .pid = static_cast<std::int32_t>(::getpid()),
                 .comm = "flightd",
                 .time = to_rfc3339(wall_now()),
                 .reason = decision.reason};
  submit(std::move(request), [this, trigger = decision.trigger](const Result<Sidecar>& result) {
    if (result)
      triggers_->note_snapshot(trigger, result->id);
    else
      triggers_->note_lost(trigger, result.error().what);
  });
}

SnapshotRequest Service::request_of(const Decision& decision) {
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

void Service::tell_suppressed(const SuppressedWindow& window) {
  const JournalEntry entry = suppressed_entry({.trigger = window.trigger,
                                               .count = window.count,
                                               .first = window.first,
                                               .last = window.last,
                                               .by = window.by_text()});
  suppressed_told_(entry);
  events_.publish({.event = std::string(kTriggersSuppressed), .trigger = window.trigger, .message = entry.message});
}

void Service::list_triggers(Done done) {
  triggers_->rows([this, done = std::move(done)](std::vector<TriggerThread::Listed> rows) {
    asio::post(loop_, [done, rows = std::move(rows)]() mutable {
      std::vector<ListedTrigger> out;
      for (TriggerThread::Listed& row : rows) out.push_back(listed(std::move(row)));
      done(to_json(out));
    });
  });
}

void Service::fire_trigger(const Caller& caller, FireParameters parameters, Done done) {
  const SidecarRequest who{.uid = caller.uid,
                           .pid = caller.pid,
                           .comm = caller.comm,
                           .time = to_rfc3339(wall_now()),
                           .reason = parameters.reason};
  const bool test = parameters.test;
  auto decided = [this, who, test, name = parameters.name, done = std::move(done)](Result<Decision> decision) {
    asio::post(loop_, [this, who, test, name, done, decision = std::move(decision)] {
      if (!decision) return done(tl::unexpected(refused(name, decision.error())));
      if (!decision->fires()) return done(tl::unexpected(held_back(*decision)));
      SnapshotRequest request = request_of(*decision);
      request.automatic = !test;  // a person waits for a test
      request.who = who;
      request.who.reason = decision->reason;
      events_.publish({.event = std::string(kTriggerFired), .trigger = name, .reason = decision->reason});
      submit(std::move(request), [this, name, test, done](const Result<Sidecar>& result) {
        if (!result) {
          if (!test) triggers_->note_lost(name, result.error().what);
          return done(tl::unexpected(to_call_error(result.error(), recorder_.broker_gone())));
        }
        triggers_->note_snapshot(name, result->id);
        done(result->id);
      });
    });
  };
  triggers_->external(std::move(parameters.name), std::move(parameters.reason), test, std::move(decided));
}

void Service::set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) {
  const std::string name = parameters.name;
  const bool enabled = parameters.enabled;
  triggers_->enable(name, enabled,
                    [this, name, enabled, who = name_of(caller), done = std::move(done)](Result<void> set) {
                      asio::post(loop_, [name, enabled, who, done, set = std::move(set)] {
                        if (!set) return done(tl::unexpected(refused(name, set.error())));
                        spdlog::log(enabled ? spdlog::level::info : spdlog::level::warn, "trigger {} switched {} by {}",
                                    name, enabled ? "on" : "off", who);
                        done("{}");
                      });
                    });
}

}  // namespace flight
