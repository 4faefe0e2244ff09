// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/headline.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "libcore/base/columns.hpp"
#include "libcore/base/finite.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"

namespace flight {
namespace {

constexpr std::size_t kTriggerColumns = 64, kReasonColumns = 120, kMetricColumns = 48;

std::string asker_text(const Sidecar& sidecar) {
  if (sidecar.requests.empty()) return "";
  const SidecarRequest& first = sidecar.requests.front();
  std::string out =
      fmt::format("requested by {}[{}], uid {}",
                  first.comm.empty() ? "a process" : shown_name(first.comm, NamedBy::process), first.pid, first.uid);
  if (sidecar.requests.size() > 1) out += fmt::format(", and {} more", sidecar.requests.size() - 1);
  return out;
}

std::string fired_text(const Sidecar& sidecar) {
  const SidecarFired& fired = *sidecar.fired;
  std::string metric = printable_cut(fired.metric, kMetricColumns);
  if (metric.find(':') != std::string::npos) return metric;  // a tracepoint has no value
  std::string out =
      fmt::format("{} {}{} ({} {}", metric, metric_text(metric, fired.value), stolen_text(fired.stolen),
                  fired.value >= fired.threshold ? "above" : "below", metric_text(metric, fired.threshold));
  if (const EventTime at_ns = fired_at(sidecar); fired.since_ns != 0 && at_ns > fired.since_ns)
    out += " for " + format_duration(std::chrono::nanoseconds(at_ns - fired.since_ns));
  if (std::isfinite(fired.baseline)) out += ", before: " + metric_text(metric, fired.baseline);
  return out + ")";
}

}  // namespace

std::string shown_name(std::string_view comm, NamedBy by, std::size_t most) {
  std::string name = printable_cut(comm, most);
  switch (by) {
    case NamedBy::process:
      return own_name(name);
    case NamedBy::kernel:
      return "[" + name + "]";
    case NamedBy::flightd:
      break;
  }
  return name;
}

std::string share_text(double share) {
  const double percent = std::clamp(finite(share) * 100, 0.0, 1e6);
  return percent >= 9.95 || percent < 0.05 ? fmt::format("{:.0f} %", percent) : fmt::format("{:.1f} %", percent);
}

std::string metric_text(std::string_view metric, double value) {
  if (!std::isfinite(value)) return "?";
  if (metric.starts_with("cpu.") || metric.starts_with("psi.")) {
    const double size = std::abs(value);
    return size >= 9.95 || size < 0.05 ? fmt::format("{:.0f} %", std::clamp(value, -1e6, 1e6))
                                       : fmt::format("{:.1f} %", value);
  }
  return fmt::format("{:.4g}", value);
}

std::string stolen_text(const std::optional<double>& stolen) {
  constexpr double kFew = 1;  // percentage points: fewer explain nothing
  return stolen && *stolen >= kFew ? fmt::format(", of it {} stolen", metric_text("cpu.steal", *stolen)) : "";
}

// The window of an automatic snapshot ends with the freeze, and `queued` is the time from the request to the freeze.
EventTime fired_at(const Sidecar& sidecar) {
  constexpr std::uint64_t kMostQueuedUs = 1'000'000'000'000;
  const EventTime queued_ns = std::min(sidecar.timings_us.queued, kMostQueuedUs) * 1000;
  return sidecar.window.end_ns > queued_ns ? sidecar.window.end_ns - queued_ns : 0;
}

std::string why_text(const Sidecar& sidecar) {
  if (sidecar.fired) return fired_text(sidecar);
  return sidecar.reason.empty() ? asker_text(sidecar) : printable_cut(sidecar.reason, kReasonColumns);
}

std::string headline(const Sidecar& sidecar) {
  std::string out = printable_cut(sidecar.trigger, kTriggerColumns);
  if (const std::string why = why_text(sidecar); !why.empty()) out += ": " + why;
  const std::string who = users_text(sidecar);
  out += "; " + (who.empty() ? "no process was sampled" : who);
  std::string end;  // it stays, however long the names are
  for (const std::string& part : {sampled_cpus_text(sidecar), forks_text(sidecar)})
    if (!part.empty()) end += "; " + part;
  return cut_end(out, kMaxHeadlineColumns - columns(end)) + end;
}

}  // namespace flight
