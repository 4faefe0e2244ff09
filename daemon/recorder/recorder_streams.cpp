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
    return out;
  });
}

RecorderThread::SidebandPart RecorderThread::sideband_between(EventTime after_ns, EventTime until_ns, bool in_doubt) {
  return tasks_.ask([this, after_ns, until_ns, in_doubt] {
    drain();
    SidebandPart out;
    out.whole = !tracker_.append_log(after_ns, until_ns, out.state.log, in_doubt);
    if (out.whole) out.state = tracker_.export_window(after_ns, until_ns, tracker_.pids());
    return out;
  });
}

}  // namespace flight::daemon
