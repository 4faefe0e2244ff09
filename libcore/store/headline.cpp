// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/headline.hpp"

#include <algorithm>
#include <cmath>

#include "libcore/base/columns.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/json_read.hpp"

namespace flight {
namespace {

constexpr std::size_t kNamed = 3;         // processes
constexpr double kWorthNaming = 0.01;     // the first is named in any case
constexpr std::size_t kFewerNamed = 2;    // processes that were busy before
constexpr double kWasBusy = 0.1;          // so much of a CPU, or of the samples …
constexpr double kMuchLess = 4;           // … and a quarter of it now
constexpr std::size_t kCommColumns = 24;  // a comm has 15 bytes, but the file may be anybody's
constexpr std::size_t kUnitColumns = 40, kTriggerColumns = 64, kReasonColumns = 120, kMetricColumns = 48;
constexpr std::size_t kCpusListed = 4;

std::string cut(std::string_view text, std::size_t most) { return cut_middle(printable(text), most); }

std::string name_of(const SidecarTop& row) { return fmt::format("{}[{}]", cut(row.comm, kCommColumns), row.pid); }

std::string place_of(const SidecarTop& row) {
  const std::string& place = row.unit.empty() ? row.cgroup : row.unit;
  return place.empty() || place == "/" ? "" : " in " + cut(place, kUnitColumns);
}

std::string cpus_of(const SidecarTop& row) {
  if (row.cpus.empty()) return "";
  if (row.cpus.size() == 1) return fmt::format(", on CPU {}", row.cpus[0]);
  if (row.cpus.size() > kCpusListed) return fmt::format(", on {} CPUs", row.cpus.size());
  return fmt::format(", on CPUs {}", fmt::join(row.cpus, ","));
}

std::string first_text(const Sidecar& sidecar, const SidecarTop& row) {
  const auto now = part_now(row);
  std::string out = fmt::format("{}{}: {} of {}{}", name_of(row), place_of(row), share_text(now.value_or(row.share)),
                                now && parts_are_cpus(sidecar) ? "a CPU" : "the samples", cpus_of(row));
  if (const auto before = part_before(row); before && now) out += fmt::format(" (before: {})", share_text(*before));
  return out;
}

bool is_fewer(const SidecarTop& row) {
  const double before = part_before(row).value_or(0);
  return part_now(row) && before >= kWasBusy && *part_now(row) < before / kMuchLess;
}

std::string asker_text(const Sidecar& sidecar) {
  if (sidecar.requests.empty()) return "";
  const SidecarRequest& first = sidecar.requests.front();
  std::string out = fmt::format("asked for by {}[{}], uid {}",
                                first.comm.empty() ? "a process" : cut(first.comm, kCommColumns), first.pid, first.uid);
  if (sidecar.requests.size() > 1) out += fmt::format(", and {} more", sidecar.requests.size() - 1);
  return out;
}

std::string fired_text(const Sidecar& sidecar) {
  const SidecarFired& fired = *sidecar.fired;
  std::string metric = cut(fired.metric, kMetricColumns);
  if (metric.find(':') != std::string::npos) return metric;  // a tracepoint has no value
  std::string out =
      fmt::format("{} {} ({} {}", metric, metric_text(metric, fired.value),
                  fired.value >= fired.threshold ? "above" : "below", metric_text(metric, fired.threshold));
  if (const EventTime at_ns = fired_at(sidecar); fired.since_ns != 0 && at_ns > fired.since_ns)
    out += " for " + format_duration(std::chrono::nanoseconds(at_ns - fired.since_ns));
  if (std::isfinite(fired.baseline)) out += ", before: " + metric_text(metric, fired.baseline);
  return out + ")";
}

}  // namespace

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

std::optional<double> part_before(const SidecarTop& row) {
  const auto part = row.cpu_now || row.cpu_before ? row.cpu_before : row.share_before;
  return part && std::isfinite(*part) ? part : std::nullopt;
}

std::optional<double> part_now(const SidecarTop& row) {
  const auto part = row.cpu_now || row.cpu_before ? row.cpu_now : row.share_now;
  return part && std::isfinite(*part) ? part : std::nullopt;
}

bool parts_are_cpus(const Sidecar& sidecar) {
  return std::any_of(sidecar.top.begin(), sidecar.top.end(), [](const SidecarTop& row) { return row.cpu_now; });
}

// The window of an automatic snapshot ends with the freeze, and `queued` is the time from the request to that.
EventTime fired_at(const Sidecar& sidecar) {
  constexpr std::uint64_t kMostQueuedUs = 1'000'000'000'000;
  const EventTime queued_ns = std::min(sidecar.timings_us.queued, kMostQueuedUs) * 1000;
  return sidecar.window.end_ns > queued_ns ? sidecar.window.end_ns - queued_ns : 0;
}

std::string why_text(const Sidecar& sidecar) {
  if (sidecar.fired) return fired_text(sidecar);
  return sidecar.reason.empty() ? asker_text(sidecar) : cut(sidecar.reason, kReasonColumns);
}

std::string who_text(const Sidecar& sidecar) {
  std::vector<const SidecarTop*> rows;
  for (const SidecarTop& row : sidecar.top) rows.push_back(&row);
  const auto now = [](const SidecarTop* row) { return part_now(*row).value_or(finite(row->share)); };
  std::stable_sort(rows.begin(), rows.end(), [&](const SidecarTop* a, const SidecarTop* b) { return now(a) > now(b); });
  std::string out;
  for (std::size_t i = 0; i < std::min(rows.size(), kNamed); ++i) {
    if (i == 0)
      out = first_text(sidecar, *rows[0]);
    else if (now(rows[i]) >= kWorthNaming)
      out += fmt::format(", {}{}: {}", i == 1 ? "then " : "", name_of(*rows[i]), share_text(now(rows[i])));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const SidecarTop* a, const SidecarTop* b) {
    return part_before(*a).value_or(0) > part_before(*b).value_or(0);
  });
  std::size_t told = 0;
  for (const SidecarTop* row : rows) {
    if (!is_fewer(*row)) continue;
    out += fmt::format("{}{}: {} before, now {}", told == 0 ? "; less: " : ", ", name_of(*row),
                       share_text(*part_before(*row)), share_text(*part_now(*row)));
    if (++told == kFewerNamed) break;
  }
  return out;
}

std::string headline(const Sidecar& sidecar) {
  std::string out = cut(sidecar.trigger, kTriggerColumns);
  if (const std::string why = why_text(sidecar); !why.empty()) out += ": " + why;
  const std::string who = who_text(sidecar);
  out += who.empty() ? "; no process was sampled" : "; " + who;
  return cut_end(out, kMaxHeadlineColumns);
}

}  // namespace flight
