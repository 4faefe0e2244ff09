// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/trigger_thread.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "libcore/base/poll.hpp"
#include "libcore/base/thread.hpp"

namespace flight::daemon {
namespace {

constexpr EventTime kKeepEveryNs = 5'000'000'000;

std::string_view kind_of(const std::vector<TriggerConfig>& triggers, const std::string& name) {
  const auto found = std::find_if(triggers.begin(), triggers.end(), [&](const auto& one) { return one.name == name; });
  if (found == triggers.end() || found->external) return "external";
  return found->event ? "event" : "metric";
}

}  // namespace

Result<std::vector<std::string>> TriggerThread::check(const std::vector<TriggerConfig>& triggers) {
  std::vector<std::string> notes;
  for (const TriggerWithoutSource& one : triggers_without_source(triggers, Sampler::open().missing())) {
    if (one.passing) continue;
    if (!one.shipped) return fail(std::errc::no_such_file_or_directory, "{}", one.text());
    notes.push_back(one.text());
  }
  return notes;
}

Result<std::unique_ptr<TriggerThread>> TriggerThread::start(Setup setup, Callbacks callbacks) {
  auto wake = TaskQueue::make_wake("the trigger thread");
  if (!wake) return propagate(wake.error());
  std::unique_ptr<TriggerThread> out(new TriggerThread(std::move(setup), std::move(callbacks), std::move(*wake)));
  auto thread = start_thread("trigger", [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  return out;
}

TriggerThread::TriggerThread(Setup setup, Callbacks callbacks, UniqueFd wake)
    : attached_of_(std::move(setup.attached)),
      look_at_clock_(std::move(setup.look_at_clock)),
      clock_(setup.clock),
      boot_id_(std::move(setup.boot_id)),
      callbacks_(std::move(callbacks)),
      tasks_(std::move(wake)),
      triggers_(std::move(setup.triggers)),
      sampler_(Sampler::open()),
      rules_(triggers_, setup.guard, sampler_.missing()) {
  if (setup.saved.empty()) return;
  if (auto state = parse_trigger_state(setup.saved))
    rules_.restore(*state, boot_id_, clock_.pair());
  else
    saved_error_ = state.error().what;
}

TriggerThread::~TriggerThread() { stop(); }

void TriggerThread::stop() {
  if (!thread_.joinable()) return;
  tasks_.post([this] { stopping_ = true; });
  thread_.join();
}

void TriggerThread::run() {
  EventTime next_ns = clock_.now();
  while (!stopping_) {
    const EventTime now_ns = clock_.now();
    if (now_ns >= next_ns) {
      look_at_clock_();
      follow_rings();
      drain_events(now_ns);
      look(now_ns);
      const auto interval_ns = static_cast<EventTime>(interval_.next(rules_.longest_look()).count());
      // After a long sleep, missed passes are not repeated.
      next_ns = next_ns + interval_ns > now_ns ? next_ns + interval_ns : now_ns + interval_ns;
    }
    wait_for_work(next_ns);
  }
  drain_events(clock_.now());
  const ClockPair now = clock_.pair();
  for (SuppressedWindow& window : rules_.take_ended_windows(now, /*all=*/true))
    callbacks_.suppressed(std::move(window));
  callbacks_.keep(to_text(rules_.state(boot_id_, now)));
}

// After records were read, the rings are polled again only after a pause: a busy tracepoint wakes the thread for each
// event. Records that come during the pause wake nothing and are read at its end.
void TriggerThread::wait_for_work(EventTime until_ns) {
  const EventTime now_ns = clock_.now();
  const EventTime quiet_ns =
      last_event_ns_ + static_cast<EventTime>(std::chrono::nanoseconds(kTriggerDrainEvery).count());
  std::vector<pollfd> polled{{.fd = tasks_.fd(), .events = POLLIN, .revents = 0}};
  const std::vector<int> rings = rings_.fds();
  const bool resting = !rings.empty() && now_ns < quiet_ns;
  if (resting)
    until_ns = std::min(until_ns, quiet_ns);
  else
    for (const int fd : rings) polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  const EventTime wait_ns = until_ns - std::min(until_ns, now_ns);
  wait_for_any(polled, std::chrono::nanoseconds(wait_ns));
  if (polled[0].revents != 0) tasks_.run();
  if (resting || std::any_of(polled.begin() + 1, polled.end(), [](const pollfd& one) { return one.revents != 0; }))
    drain_events(clock_.now());
}

// Follows the set of trigger rings; an event trigger without a ring shows the reason.
void TriggerThread::follow_rings() {
  std::shared_ptr<Attached> newest = attached_of_();
  if (newest == attached_) return;
  attached_ = std::move(newest);
  rings_.follow(attached_->triggers, attached_->manifest.triggers);
  for (const TriggerConfig& trigger : triggers_) {
    if (!trigger.event) continue;
    const auto& watched = attached_->manifest.triggers;
    const auto found =
        std::find_if(watched.begin(), watched.end(), [&](const auto& w) { return w.name == trigger.name; });
    rules_.note_unavailable(
        trigger.name,
        found != watched.end()
            ? found->off
            : "its event is not recorded: it is disabled in the configuration, or the configuration was not reloaded");
  }
}

void TriggerThread::drain_events(EventTime now_ns) {
  for (const TriggerEvent& event : rings_.drain()) {
    last_event_ns_ = now_ns;
    const ClockPair now = clock_.pair();
    if (const auto decision = rules_.on_event(event.trigger, event.detail, now)) act(*decision);
    // Each event counts, also those that came too fast to be reported individually.
    const std::uint64_t uncounted = event.further + event.lost;
    if (uncounted > 0) rules_.note_further(event.trigger, uncounted, now);
  }
}

void TriggerThread::look(EventTime now_ns) {
  const std::chrono::nanoseconds before = thread_cpu_time();
  MetricPass pass = sampler_.pass(now_ns);
  if (sampler_.take_changed()) {
    rules_.set_missing(sampler_.missing());
    troubles_.note(triggers_, sampler_.missing());
  }
  if (looked_slowly_) pass.sure_ns = static_cast<std::uint64_t>(interval_.interval().count());
  const ClockPair now = clock_.pair();
  for (const Decision& decision : rules_.on_pass(pass, now)) act(decision);
  for (SuppressedWindow& window : rules_.take_ended_windows(now)) {
    callbacks_.suppressed(std::move(window));
    changed_ = true;
  }
  interval_.note(thread_cpu_time() - before);
  looked_slowly_ = interval_.next(rules_.longest_look()) > interval_.interval();
  looked_ns_ = now_ns;
  ++passes_;
  if (changed_ && now_ns - kept_ns_ >= kKeepEveryNs) keep(now_ns);
}

void TriggerThread::act(const Decision& decision) {
  changed_ = true;
  if (!decision.fires()) return;
  callbacks_.fire(decision);
  keep(clock_.now());  // only now and then; after a kill -9 the last firings may be counted again
}

void TriggerThread::keep(EventTime now_ns) {
  changed_ = false;
  kept_ns_ = now_ns;
  callbacks_.keep(to_text(rules_.state(boot_id_, clock_.pair())));
}

void TriggerThread::external(std::string trigger, std::string reason, bool test,
                             std::function<void(Result<Decision>)> done) {
  if (stopping_) return done(fail(std::errc::operation_canceled, "flightd is stopping"));
  tasks_.post([this, trigger = std::move(trigger), reason = std::move(reason), test, done = std::move(done)] {
    const ClockPair now = clock_.pair();
    auto decision = test ? rules_.test(trigger, now) : rules_.on_external(trigger, reason, now);
    changed_ = true;
    if (decision && decision->fires()) keep(clock_.now());
    done(std::move(decision));
  });
}

void TriggerThread::enable(std::string trigger, bool on, std::function<void(Result<void>)> done) {
  if (stopping_) return done(fail(std::errc::operation_canceled, "flightd is stopping"));
  tasks_.post([this, trigger = std::move(trigger), on, done = std::move(done)] {
    auto enabled = rules_.enable(trigger, on);
    if (enabled) keep(clock_.now());
    done(std::move(enabled));
  });
}

void TriggerThread::rows(std::function<void(std::vector<Listed>)> done) {
  if (stopping_) return done({});
  tasks_.post([this, done = std::move(done)] {
    std::vector<Listed> out;
    for (TriggerRow& row : rules_.rows(clock_.pair())) {
      std::string kind(kind_of(triggers_, row.name));
      out.push_back({.row = std::move(row), .kind = std::move(kind)});
    }
    done(std::move(out));
  });
}

void TriggerThread::note_snapshot(std::string trigger, std::string id) {
  tasks_.post([this, trigger = std::move(trigger), id = std::move(id)] {
    rules_.note_snapshot(trigger, id);
    changed_ = true;
  });
}

void TriggerThread::note_lost(std::string trigger, std::string why, bool test) {
  tasks_.post([this, trigger = std::move(trigger), why = std::move(why), test] {
    rules_.note_lost(trigger, why, test);
    changed_ = true;
  });
}

void TriggerThread::note_recording(std::string trigger, std::string first_id) {
  tasks_.post([this, trigger = std::move(trigger), first_id = std::move(first_id)] {
    rules_.note_recording(trigger, first_id);
    changed_ = true;
  });
}

void TriggerThread::note_unrecorded(std::string trigger, std::string why) {
  tasks_.post([this, trigger = std::move(trigger), why = std::move(why)] {
    rules_.note_unrecorded(trigger, why);
    changed_ = true;
  });
}

void TriggerThread::set_recording(bool recording) {
  tasks_.post([this, recording] { rules_.set_recording(recording); });
}

void TriggerThread::restore(std::string saved, std::function<void(std::string)> failed) {
  tasks_.post([this, saved = std::move(saved), failed = std::move(failed)] {
    const auto state = saved.empty() ? std::nullopt : std::make_optional(parse_trigger_state(saved));
    if (state && *state) rules_.restore(**state, boot_id_, clock_.pair());
    if (state && !*state) failed(state->error().what);
    keep(clock_.now());
  });
}

void TriggerThread::replace(std::vector<TriggerConfig> triggers, const StormGuardConfig& guard) {
  tasks_.post([this, triggers = std::move(triggers), guard] {
    triggers_ = triggers;
    attached_.reset();  // the broker's rings may differ: look them up again
    rules_.replace(triggers, guard, clock_.pair());
    troubles_.note(triggers_, sampler_.missing());
    changed_ = true;
  });
}

std::optional<SidecarMetrics> TriggerThread::metrics() {
  if (stopping_) return std::nullopt;
  return tasks_.ask([this] {
    // The last slow pass may be long ago.
    const EventTime now_ns = clock_.now();
    if (looked_slowly_ && now_ns >= looked_ns_ + static_cast<EventTime>(interval_.interval().count())) look(now_ns);
    return rules_.history().exported();
  });
}

}  // namespace flight::daemon
