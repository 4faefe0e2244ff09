// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/window.hpp"

#include <algorithm>
#include <chrono>
#include <string>

#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

// A reported time must be usable in a request, so it is rounded up.
constexpr std::chrono::microseconds kUpToNextMs(999);

// `latest_ns`: the end of `post`.
CallResult<EventTime> parse_event_time(const std::string& text, const char* parameter, const WindowNow& now,
                                       EventTime latest_ns) {
  // "10 min ago" is that long ago, also if the clock was set since then.
  if (const auto ago = parse_ago(text)) return std::max<EventTime>(now.clock.event_before(now.now, *ago), 1);
  auto time = parse_time(text, now.now.wall);
  if (!time) return tl::unexpected(invalid_parameter(parameter, time.error().what));
  return std::max<EventTime>(now.clock.event_at(*time, latest_ns), 1);
}

}  // namespace

CallResult<WindowRequest> parse_window(const SnapshotParameters& parameters, const WindowNow& now) {
  WindowRequest out;
  const EventTime now_ns = now.now.monotonic_ns, oldest_ns = now.oldest_held_ns;
  const EventTime latest_ns = now_ns + parameters.post_usec.value_or(0) * 1000;
  if (parameters.last_usec && parameters.since)
    return tl::unexpected(invalid_parameter("since", "give 'last_usec' or 'since', not both"));
  if (parameters.last_usec) {
    const std::uint64_t last_ns = std::min(*parameters.last_usec, UINT64_MAX / 1000) * 1000;
    out.begin_ns = now_ns > last_ns ? now_ns - last_ns : 1;
  }
  const std::string oldest = to_rfc3339(now.clock.wall_at(oldest_ns) + kUpToNextMs);
  if (parameters.since) {
    auto begin = parse_event_time(*parameters.since, "since", now, latest_ns);
    if (!begin) return tl::unexpected(begin.error());
    out.begin_ns = *begin;
    if (out.begin_ns < oldest_ns)
      return tl::unexpected(invalid_parameter(
          "since",
          fmt::format("{} is no longer in the rings: they reach back to {} ({} ago)", *parameters.since, oldest,
                      format_duration(std::chrono::nanoseconds(now_ns - std::min(now_ns, oldest_ns))))));
    if (out.begin_ns > latest_ns)
      return tl::unexpected(invalid_parameter("since", fmt::format("{} lies in the future", *parameters.since)));
  }
  if (parameters.until) {
    auto end = parse_event_time(*parameters.until, "until", now, latest_ns);
    if (!end) return tl::unexpected(end.error());
    out.end_ns = *end;
    if (parameters.since && out.end_ns <= out.begin_ns) {
      const auto since = parse_time(*parameters.since, now.now.wall),
                 until = parse_time(*parameters.until, now.now.wall);
      const bool clock_was_set = since && until && *until > *since;
      return tl::unexpected(invalid_parameter(
          "until", fmt::format("{} did not come after {}: {}", *parameters.until, *parameters.since,
                               clock_was_set ? "the clock was set; say how long ago, such as \"-5min\""
                                             : "a window must end later than it begins")));
    }
    if (out.end_ns <= std::max(out.begin_ns, oldest_ns))
      return tl::unexpected(
          invalid_parameter("until", fmt::format("the rings hold nothing before {}: they reach back to {}",
                                                 *parameters.until, to_rfc3339(now.clock.wall_at(oldest_ns)))));
  }
  return out;
}

}  // namespace flight::daemon
