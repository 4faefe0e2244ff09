// SPDX-License-Identifier: Apache-2.0
// The parts of the page with a graph or tables: the metric's line, and the top tables.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "ctl/info_text.hpp"
#include "ctl/output.hpp"
#include "ctl/sidecar_text.hpp"
#include "ctl/sparkline.hpp"
#include "libcore/base/columns.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/headline.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"
#include "libcore/sysinfo/unit_name.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kCells = 58;  // of the metric's line; the rest is for its range
constexpr std::size_t kTopShown = 12, kGroupsShown = 8, kForkersShown = 15, kHolesShown = 10, kRingsShown = 64,
                      kCpusShown = 4;
constexpr std::string_view kUsualMetric = "cpu.busy";

std::string span_text(std::uint64_t ns) {
  return format_duration(std::chrono::nanoseconds(std::min<std::uint64_t>(ns, 1'000'000'000'000'000'000)));
}

// An event's time in the format of the window.
std::string clock_time(const Sidecar& sidecar, EventTime time_ns) {
  const ClockHistory clock = clock_of(sidecar);
  if (clock.triples().empty()) return "?";
  const std::string whole = local_time(clock.wall_at(time_ns));
  return whole.size() > 11 ? whole.substr(11) : whole;
}

struct Run {
  const SidecarSeries* series = nullptr;
  const std::vector<double>* values = nullptr;
  std::string metric;
};

const std::vector<double>* values_of(const SidecarSeries& series, std::string_view name) {
  for (const auto& [key, values] : series.values)
    if (key == name && !values.empty() && series.step_ns > 0) return &values;
  return nullptr;
}

// The last minute, or the last ten if the condition began before that.
Run run_of(const Sidecar& sidecar) {
  const SidecarMetrics& metrics = *sidecar.metrics;
  const EventTime since_ns = sidecar.fired ? sidecar.fired->since_ns : 0;
  const bool long_ago = since_ns != 0 && since_ns < metrics.recent.begin_ns;
  std::vector<std::string> names;
  if (sidecar.fired) names.push_back(sidecar.fired->metric);
  names.emplace_back(kUsualMetric);
  for (const std::string& name : names)
    for (const SidecarSeries* series :
         {long_ago ? &metrics.minutes : &metrics.recent, long_ago ? &metrics.recent : &metrics.minutes})
      if (const auto* values = values_of(*series, name)) return {series, values, name};
  return {};
}

std::string fired_mark(const Sidecar& sidecar, const Run& run, const Sparkline& line, std::size_t cells) {
  const EventTime at_ns = fired_at(sidecar);
  if (!sidecar.fired || at_ns < run.series->begin_ns) return "";
  const std::uint64_t step = (at_ns - run.series->begin_ns) / run.series->step_ns;
  if (step > run.values->size()) return "";  // one step after the last is its end
  const std::size_t cell = std::min(line.cells - 1, step * line.cells / run.values->size());
  const std::string text = "fired " + clock_time(sidecar, at_ns);
  if (cell + text.size() + 2 <= cells) return "  " + std::string(cell, ' ') + "^ " + text + "\n";
  const std::size_t before = cell > text.size() ? cell - text.size() - 1 : 0;
  return "  " + std::string(before, ' ') + text + (cell > text.size() ? " ^\n" : "\n");
}

// cpu.busy counts stolen time as busy, and no process used that. Of a single CPU the series does not have it.
std::string stolen_line(const Run& run, const Screen& screen) {
  constexpr double kFew = 1;  // percent: less explains nothing
  const auto* values = run.metric == kUsualMetric ? values_of(*run.series, "cpu.steal") : nullptr;
  if (values == nullptr) return "";
  const Sparkline stolen = sparkline(*values, 1, 100, false);
  if (stolen.cells == 0 || stolen.most < kFew) return "";
  return screen.wrapped(fmt::format("of it {} .. {} stolen by the hypervisor", metric_text("cpu.steal", stolen.least),
                                    metric_text("cpu.steal", stolen.most)),
                        2);
}

std::string part_text(const std::optional<double>& part) { return part ? share_text(*part) : "-"; }

std::string cpus_text(const std::vector<int>& cpus) {
  if (cpus.size() > kCpusShown) return fmt::format("{} CPUs", cpus.size());
  return fmt::format("{}", fmt::join(cpus, ","));
}

// Explains the columns "now" and "before" of the table below.
std::string compared_text(const Sidecar& sidecar) {
  if (!sidecar.compared) return "";
  const SidecarCompared& c = *sidecar.compared;
  if (c.now_end_ns <= c.now_begin_ns) return "";
  std::string out = fmt::format("now: the {} since {}{}", span_text(c.now_end_ns - c.now_begin_ns),
                                clock_time(sidecar, c.now_begin_ns), sidecar.fired ? ", when it began" : "");
  if (c.before_begin_ns < c.now_begin_ns)
    out += fmt::format("; before: the {} until then", span_text(c.now_begin_ns - c.before_begin_ns));
  else
    out += "; there is no data about the time before";
  if (const std::string cpus = sampled_cpus_text(sidecar); !cpus.empty()) out += "; " + cpus;
  return out + (parts_are_cpus(sidecar) ? "; in percent of one CPU; samples: in percent of the window's"
                                        : "; in percent of the samples then; samples: of the window's");
}

// Empty for 0, which stands for no single process, or for an unknown number (SidecarTop).
std::string number_text(std::uint64_t number) { return number == 0 ? "" : std::to_string(number); }

// Without a pid it is not one process: it has no name of its own.
std::string task_name(const std::string& comm, NamedBy by, std::uint32_t pid) {
  return pid == 0 ? comm : shown_name(comm, by);
}

// An earlier flightd wrote one row for the root cgroup and for what it did not know, without a cgroup.
std::string unit_name(const std::string& name, const std::string& cgroup) {
  if (name == kUnknownUnit) return "unit unknown";
  if (name.empty()) return cgroup == "/" ? "root cgroup" : "no unit";
  return name;
}

// As in the table of units: the unit's own name would not show whose unit it is.
std::string place_text(const std::string& unit, const std::string& cgroup) {
  const CgroupName name = name_of_cgroup(cgroup);
  if (unit.empty() && name.container.empty()) return cgroup;
  return name.label.empty() ? unit : name.label;
}

// The `most` rows with the largest share now, the largest first.
template <typename Row>
std::vector<const Row*> by_now(const std::vector<Row>& rows, std::size_t most) {
  std::vector<const Row*> order;
  for (const Row& row : rows) order.push_back(&row);
  std::stable_sort(order.begin(), order.end(), [](const Row* a, const Row* b) {
    return part_now(*a).value_or(a->share) > part_now(*b).value_or(b->share);
  });
  if (order.size() > most) order.resize(most);
  return order;
}

std::string units_table(const Sidecar& sidecar, const Screen& screen, std::size_t most) {
  std::vector<std::vector<std::string>> rows{{"  UNIT", "PROCESSES", "NOW", "BEFORE", "SAMPLES", "CPUS", "MOSTLY"}};
  for (const SidecarGroup* row : by_now(sidecar.top_units, most))
    rows.push_back({"  " + unit_name(row->name, row->cgroup), std::to_string(row->processes), part_text(part_now(*row)),
                    part_text(part_before(*row)), share_text(row->share), cpus_text(row->cpus),
                    row->program.starts_with(kOutsideName) ? "outside" : row->program});
  return screen.table(std::move(rows), {1, 2, 3, 4}, {6, 0});
}

std::string programs_table(const Sidecar& sidecar, const Screen& screen) {
  std::vector<std::vector<std::string>> rows{{"  PROGRAM", "PROCESSES", "NOW", "BEFORE", "SAMPLES", "CPUS", "UNIT"}};
  auto order = by_now(sidecar.top_programs, kGroupsShown);
  // The row of processes without a name is always shown: its share may have been large before and small now.
  for (const SidecarGroup& row : sidecar.top_programs)
    if (row.name == kUnknownForker && std::find(order.begin(), order.end(), &row) == order.end()) order.back() = &row;
  for (const SidecarGroup* row : order) {
    rows.push_back({"  " + row->name, number_text(row->processes), part_text(part_now(*row)),
                    part_text(part_before(*row)), share_text(row->share), cpus_text(row->cpus),
                    row->units > 1 ? fmt::format("{} units", row->units) : place_text(row->unit, row->cgroup)});
  }
  return screen.table(std::move(rows), {1, 2, 3, 4}, {6, 0});
}

// "a.service (2 units)": most of its samples are in the first.
std::string places_text(const SidecarTop& row) {
  const std::string place = place_text(row.unit, row.cgroup);
  return row.units > 1 ? fmt::format("{} ({} units)", place, row.units) : place;
}

std::string processes_table(const Sidecar& sidecar, const Screen& screen, std::size_t most) {
  std::vector<std::vector<std::string>> rows{
      {"  PROCESS", "PID", "NOW", "BEFORE", "SAMPLES", "CPUS", "UNIT OR CGROUP"}};
  for (const SidecarTop* row : by_now(sidecar.top, most))
    rows.push_back({"  " + task_name(row->comm, row->named_by, row->pid), number_text(row->pid),
                    part_text(part_now(*row)), part_text(part_before(*row)), share_text(row->share),
                    cpus_text(row->cpus), places_text(*row)});
  return screen.table(std::move(rows), {1, 2, 3, 4}, {6, 0});
}

}  // namespace

std::string metric_part(const Sidecar& sidecar, const Screen& screen) {
  if (!sidecar.metrics) return "";
  const Run run = run_of(sidecar);
  if (run.values == nullptr) return "";
  const bool percent = run.metric.starts_with("cpu.") || run.metric.starts_with("psi.");
  const double threshold = sidecar.fired && sidecar.fired->metric == run.metric ? sidecar.fired->threshold : 0;
  const bool is_wide = screen.width() >= kScreenColumns;  // the range stands beside the bars
  const std::size_t cells = is_wide ? kCells : std::min(kCells, screen.width() - 4);
  const Sparkline line = sparkline(*run.values, cells, percent ? 100 : threshold, screen.utf8());
  if (line.cells == 0) return "";
  const std::uint64_t steps = run.values->size();
  const std::uint64_t span_ns = run.series->step_ns > UINT64_MAX / steps ? UINT64_MAX : run.series->step_ns * steps;
  std::string out =
      "\n" + screen.wrapped(fmt::format("{}, the last {}:", screen.cut(run.metric, 40), span_text(span_ns)), 0);
  const std::string range =
      fmt::format("{} .. {}", metric_text(run.metric, line.least), metric_text(run.metric, line.most));
  const std::string beside = is_wide ? "  " + screen.cut(range, screen.width() - kCells - 4) : "";
  out += fmt::format("  {}{}\n", line.bars, beside) + fired_mark(sidecar, run, line, cells);
  return out + (is_wide ? "" : screen.wrapped(range, 2)) + stolen_line(run, screen);
}

std::string top_part(const Sidecar& sidecar, const Screen& screen) {
  if (sidecar.top.empty()) return "";
  std::string compared = compared_text(sidecar);
  std::string out;
  const auto titled = [&](const char* title, const std::string& table) {
    out += fmt::format("\n{}:\n", title);
    if (!compared.empty()) out += screen.wrapped(std::exchange(compared, ""), 2);  // once for all tables
    out += table;
  };
  if (!sidecar.top_units.empty()) titled("top units", units_table(sidecar, screen, kGroupsShown));
  if (!sidecar.top_programs.empty()) titled("top programs", programs_table(sidecar, screen));
  titled("top processes", processes_table(sidecar, screen, kTopShown));
  return out;
}

std::string busiest_part(const Sidecar& sidecar, const Screen& screen, std::size_t most) {
  if (sidecar.top.empty()) return "";
  const std::string compared = compared_text(sidecar);
  const std::string head = compared.empty() ? "" : screen.wrapped(compared, 2);
  if (sidecar.top_units.empty()) return "\ntop processes:\n" + head + processes_table(sidecar, screen, most);
  return "\ntop units:\n" + head + units_table(sidecar, screen, most);
}

std::string forks_part(const Sidecar& sidecar, const Screen& screen) {
  if (!sidecar.forks || sidecar.forks->all.count == 0) return "";
  const SidecarForks& forks = *sidecar.forks;
  const auto rate = [](const std::optional<double>& value) { return value ? rate_text(*value) : std::string("-"); };
  std::vector<std::vector<std::string>> rows{{"  WHO FORKS", "PID", "NOW", "BEFORE", "WINDOW", "COUNT", "UNIT"}};
  const auto add = [&](const std::string& name, const SidecarForker& row, const std::string& unit) {
    rows.push_back({"  " + name, number_text(row.pid), rate(row.per_second_now), rate(row.per_second_before),
                    rate_text(row.per_second), std::to_string(row.count), unit});
  };
  for (const SidecarForker& row : forks.by_unit) add(unit_name(row.name, row.cgroup), row, "");
  for (const SidecarForker& row : forks.by_program) add(row.name, row, row.unit);
  for (const SidecarForker& row : forks.by_pid)
    if (rows.size() <= kForkersShown) add(task_name(row.name, row.named_by, row.pid), row, row.unit);
  const std::string unknown =
      forks.unit_unknown == 0
          ? ""
          : fmt::format(" (the unit of {} is not known: each has at least these)", forks.unit_unknown);
  const std::string head =
      fmt::format("forks of processes per second, by unit, program and process; {}{} in the window{}:",
                  forks.complete ? "" : "at least ", forks.all.count, unknown);
  return "\n" + screen.wrapped(head, 0) + screen.table(std::move(rows), {1, 2, 3, 4, 5}, {6, 0});
}

std::string rings_part(const Sidecar& sidecar, const Screen& screen) {
  if (sidecar.rings.empty()) return "";
  std::vector<std::vector<std::string>> rows{
      {"  CHANNEL", "CPU", "RING", "HISTORY", "SAMPLES", "BLACKOUT", "LOST", "TORN BYTES", "UNKNOWN"}};
  for (const SidecarRing& ring : sidecar.rings) {
    if (rows.size() > kRingsShown) break;
    rows.push_back({"  " + ring.channel, std::to_string(ring.cpu), format_bytes(ring.ring_bytes),
                    span_text(ring.newest_ns - std::min(ring.newest_ns, ring.oldest_ns)), std::to_string(ring.samples),
                    micros_text(ring.blackout_us), std::to_string(ring.lost), format_bytes(ring.torn_bytes),
                    std::to_string(ring.unknown_ids)});
  }
  std::string out = "\nrings:\n" + screen.table(std::move(rows), {1, 2, 3, 4, 5, 6, 7, 8}, {0});
  if (sidecar.rings.size() > kRingsShown) out += fmt::format("  and {} more\n", sidecar.rings.size() - kRingsShown);
  return out;
}

std::string holes_part(const Sidecar& sidecar, const Screen& screen) {
  if (sidecar.holes.empty()) return "";
  std::string out = "\n" + screen.wrapped(sidecar.record ? "holes (what is not in this part):"
                                                         : "holes (earlier snapshots' blackouts inside this one):",
                                          0);
  std::size_t shown = 0;
  for (const SidecarHole& hole : sidecar.holes) {
    if (++shown > kHolesShown) break;
    const double before_end_s = (static_cast<double>(sidecar.window.end_ns) - static_cast<double>(hole.begin_ns)) / 1e9;
    const double wide_us = (static_cast<double>(hole.end_ns) - static_cast<double>(hole.begin_ns)) / 1e3;
    out += screen.wrapped(
        fmt::format("{} CPU {}: {} wide, {:.3f} s before the end, {}{} lost{}{}", screen.cut(hole.channel, 24),
                    hole.cpu, micros_text(wide_us), before_end_s, hole.estimated ? "about " : "", hole.lost,
                    hole.cause.empty() ? "" : ": ", screen.cut(hole.cause, 24)),
        2);
  }
  if (sidecar.holes.size() > kHolesShown) out += fmt::format("  and {} more\n", sidecar.holes.size() - kHolesShown);
  return out;
}

}  // namespace flight::ctl
