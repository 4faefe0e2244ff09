// SPDX-License-Identifier: Apache-2.0
// What the recorder thread does for recordings that are running: it polls their rings, and gives them what the process
// tracker knows.
#include <algorithm>
#include <utility>

#include "daemon/recorder/recorder_thread.hpp"

namespace flight::daemon {
namespace {

// A round that does not begin within this time waits for a slow worker: the next wakeup or second is soon enough.
constexpr EventTime kTryForNs = 500'000'000;
// The log keeps this much for the writer, which asks for a round's sideband 50 ms after it.
constexpr EventTime kKeptForStreamsNs = 3'000'000'000;

}  // namespace

std::uint64_t RecorderThread::add_stream(Stream stream) {
  auto shared = std::make_shared<Stream>(std::move(stream));  // a task has to be copyable
  return tasks_.ask([this, shared] {
    const std::vector<bool> polled(shared->rings.size(), true);
    streams_.insert_or_assign(++stream_number_, Watched{.stream = std::move(*shared), .polled = polled});
    return stream_number_;
  });
}

void RecorderThread::remove_stream(std::uint64_t id) {
  tasks_.ask([this, id] { streams_.erase(id); });
}

// In the order of note_wakeups().
void RecorderThread::watch_streams(std::vector<pollfd>& fds) {
  for (const auto& [id, watched] : streams_)
    for (std::size_t i = 0; i < watched.polled.size(); ++i)
      if (watched.polled[i]) fds.push_back({.fd = watched.stream.rings[i]->fd(), .events = POLLIN, .revents = 0});
}

// Two recordings may have the same ring, and only one poll sees its wakeup: it is for all of them.
void RecorderThread::note_wakeups(std::span<const pollfd> fds) {
  bool woken = false;
  std::size_t next = 0;
  for (auto& [id, watched] : streams_)
    for (std::size_t i = 0; i < watched.polled.size(); ++i) {
      if (!watched.polled[i]) continue;
      const short events = fds[next++].revents;
      woken = woken || (events & POLLIN) != 0;
      if ((events & (POLLHUP | POLLERR | POLLNVAL)) != 0) watched.polled[i] = false;
    }
  if (!woken) return;
  const EventTime now_ns = monotonic_now();
  for (auto& [id, watched] : streams_)
    if (watched.woken_ns == 0) watched.woken_ns = now_ns;
}

void RecorderThread::tick_streams(EventTime now_ns) {
  for (auto& [id, watched] : streams_) {
    const bool begun = watched.stream.tick(now_ns);
    if (begun || now_ns > watched.woken_ns + kTryForNs) watched.woken_ns = 0;
  }
}

EventTime RecorderThread::fold_horizon_ns(EventTime now_ns) const {
  const EventTime oldest_ns = oldest_held_ns_;  // UINT64_MAX: there is no ring
  if (streams_.empty()) return oldest_ns;
  return std::min(oldest_ns, now_ns - std::min(now_ns, kKeptForStreamsNs));
}

RecorderThread::WholeState RecorderThread::whole_state(EventTime since_ns) {
  await_scan({});
  return tasks_.ask([this, since_ns] {
    drain();
    const EventTime now_ns = monotonic_now();
    const EventTime known_ns = fold_horizon_ns(now_ns);
    WholeState out;
    out.at_ns = std::min(std::max(since_ns, known_ns == UINT64_MAX ? 0 : known_ns), now_ns);
    out.state = tracker_.export_window(out.at_ns, out.at_ns, tracker_.pids());
    out.names.revision = tracker_.revision();
    return out;
  });
}

// The rings are enabled one after the other, and the pause is over when the broker has answered. What ran meanwhile is
// as unknown as what ran before.
void RecorderThread::doubt_resumed(EventTime until_ns) {
  if (!gaps_.paused() || until_ns <= all_paused_ns_) return;
  const EventTime since_ns = gaps_.paused_since_ns();
  const EventTime now_ns = monotonic_now();
  tracker_.add_gap(since_ns, now_ns);
  intake_.lost(since_ns, now_ns);
}

RecorderThread::SidebandPart RecorderThread::sideband_between(EventTime after_ns, EventTime until_ns, FileNames& names,
                                                              bool may_wait) {
  if (may_wait && !names.all_lost) {
    const bool in_doubt = tasks_.ask([this, until_ns] {
      drain();
      doubt_resumed(until_ns);
      return tracker_.all_in_doubt(until_ns);
    });
    if (in_doubt) await_scan({});
  }
  return tasks_.ask([this, after_ns, until_ns, &names] {
    drain();
    doubt_resumed(until_ns);
    return tracker_.export_next(after_ns, until_ns, names);
  });
}

}  // namespace flight::daemon
