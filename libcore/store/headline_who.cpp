// SPDX-License-Identifier: Apache-2.0
// users_text(), who_text(), sampled_cpus_text() and forks_text() of headline.hpp.
#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "libcore/base/columns.hpp"
#include "libcore/base/finite.hpp"
#include "libcore/base/text.hpp"
#include "libcore/store/headline.hpp"

namespace flight {
namespace {

constexpr std::size_t kNamed = 3;
constexpr double kWorthNaming = 0.01;   // the first row is always named
constexpr std::size_t kFewerNamed = 2;  // number of rows that used much CPU before
constexpr double kWasBusy = 0.1;        // this part of a CPU, or of the samples …
constexpr double kMuchLess = 4;         // … and a quarter of it now
constexpr double kMostOfIt = 0.6;       // if one process is this part of a unit, it is named
constexpr double kSpread = 1.5;         // factor for a program in several units, against the busiest unit
constexpr std::size_t kUnitColumns = 40, kCpusListed = 4;
constexpr double kManyForks = 100;     // per second
constexpr double kEnoughKnown = 0.25;  // this part of the forks is a unit's, though the others' unit is not known

// A unit, a program or a process, as named in the headline.
struct Who {
  std::string name;       // "gunicorn.service", "burn[1234]"
  std::string place;      // " in burn.service", if the name does not contain it
  std::string processes;  // ", 24 processes of gunicorn"
  double share = 0;       // of the window
  std::optional<double> before, now;
  std::vector<int> cpus;

  [[nodiscard]] double part() const { return now.value_or(finite(share)); }
  [[nodiscard]] bool is_fewer() const { return now && before.value_or(0) >= kWasBusy && *now < *before / kMuchLess; }
};

// Pid 0 is not one process (SidecarTop).
std::string process_name(std::string_view comm, NamedBy by, std::uint32_t pid) {
  if (pid == 0) return printable_cut(comm, kUnitColumns);
  return fmt::format("{}[{}]", shown_name(comm, by), pid);
}

// A label may begin with the user or machine of a unit ("user@1000/"). That part is kept when the label is shortened:
// the rest can be a name that the owner of a delegated cgroup chose.
std::string unit_text(std::string_view label) {
  const std::size_t slash = label.find('/');
  const std::size_t at = slash == std::string_view::npos ? 0 : slash + 1;
  const std::string begin = printable_cut(label.substr(0, at), kUnitColumns / 2 + 8);
  return begin + printable_cut(label.substr(at), kUnitColumns - columns(begin));
}

template <typename Row>
Who parts_of(const Row& row) {
  Who out;
  out.share = row.share;
  out.before = part_before(row);
  out.now = part_now(row);
  out.cpus = row.cpus;
  return out;
}

Who who_of(const SidecarTop& row) {
  Who out = parts_of(row);
  const std::string& place = row.unit.empty() ? row.cgroup : row.unit;
  out.name = process_name(row.comm, row.named_by, row.pid);
  if (!place.empty() && place != "/") out.place = " in " + unit_text(place);
  return out;
}

struct Named {
  std::string_view comm;  // empty: unknown
  NamedBy by = NamedBy::process;
};

// The name of the group's busiest process. An earlier flightd did not write it: then that of the only row with its pid,
// which can be another process's that had the number before.
Named comm_of(const Sidecar& sidecar, const SidecarGroup& group) {
  if (!group.comm.empty()) return {group.comm, group.named_by};
  Named named;
  std::size_t rows = 0;
  for (const SidecarTop& row : sidecar.top)
    if (row.pid == group.pid) named = {row.comm, row.named_by}, ++rows;
  return rows == 1 ? named : Named{};
}

// "gunicorn (python3.11)[55]": the name of the group's busiest process is that process's own choice, so its executable
// is added if it has another name. Only the executable, if the name is unknown.
std::string process_of(const Sidecar& sidecar, const SidecarGroup& group) {
  constexpr std::size_t kWholeComm = 15;  // a comm of this length may be truncated (TASK_COMM_LEN in linux/sched.h)
  const auto [comm, by] = comm_of(sidecar, group);
  if (comm.empty()) return process_name(group.program, NamedBy::flightd, group.pid);
  const bool same =
      group.path.empty() || comm == group.program || (comm.size() == kWholeComm && group.program.starts_with(comm));
  if (same || group.pid == 0) return process_name(comm, by, group.pid);
  return fmt::format("{}[{}]", printable_cut(shown_name(comm, by) + " (" + group.program + ")", 2 * kCommColumns),
                     group.pid);
}

Who who_of(const Sidecar& sidecar, const SidecarGroup& group, bool is_unit) {
  Who out = parts_of(group);
  const std::string process = process_of(sidecar, group);
  if (group.processes == 1) {
    out.name = process;
    if (is_unit) out.place = " in " + unit_text(group.name);
    return out;
  }
  out.name = is_unit ? unit_text(group.name) : printable_cut(group.name, kCommColumns);
  if (group.pid == 0) return out;
  if (finite(group.pid_share) >= kMostOfIt)
    out.processes = ", mostly " + process;
  else if (is_unit)
    out.processes =
        fmt::format(", {} processes, most of them {}", group.processes, printable_cut(group.program, kCommColumns));
  else
    out.processes = fmt::format(", {} processes", group.processes);
  if (!is_unit && group.units > 1) out.processes += fmt::format(" in {} units", group.units);
  return out;
}

// No unit shows it: it runs in the root cgroup, or its unit is not known.
bool is_in_no_row(const SidecarGroup& program) {
  return (program.unit.empty() && (program.cgroup.empty() || program.cgroup == "/")) || program.unit == kUnknownUnit;
}

// All units; programs outside of them; and a program that runs in so many units that no unit shows its whole share.
std::vector<Who> candidates(const Sidecar& sidecar) {
  std::vector<Who> out;
  if (sidecar.top_units.empty() && sidecar.top_programs.empty()) {  // from flightd 0.1
    for (const SidecarTop& row : sidecar.top) out.push_back(who_of(row));
    return out;
  }
  double busiest = 0;
  for (const SidecarGroup& unit : sidecar.top_units) {
    if (unit.name.empty() || unit.name == kUnknownUnit) continue;
    out.push_back(who_of(sidecar, unit, true));
    busiest = std::max(busiest, out.back().part());
  }
  for (const SidecarGroup& program : sidecar.top_programs) {
    const bool outside = is_in_no_row(program);  // the largest part of it
    Who who = who_of(sidecar, program, false);
    if (outside || (program.units > 1 && who.part() > busiest * kSpread)) out.push_back(std::move(who));
  }
  return out;
}

std::string cpus_of(const Who& who) {
  if (who.cpus.empty()) return "";
  if (who.cpus.size() == 1) return fmt::format(", on CPU {}", who.cpus[0]);
  if (who.cpus.size() > kCpusListed) return fmt::format(", on {} CPUs", who.cpus.size());
  return fmt::format(", on CPUs {}", fmt::join(who.cpus, ","));
}

std::string first_text(const Sidecar& sidecar, const Who& who) {
  std::string out =
      fmt::format("{}{}: {} of {}{}{}", who.name, who.place, share_text(who.part()),
                  who.now && parts_are_cpus(sidecar) ? "a CPU" : "the samples", cpus_of(who), who.processes);
  if (who.before && who.now) out += fmt::format(" (before: {})", share_text(*who.before));
  return out;
}

template <typename Row>
std::optional<double> part(const Row& row, const std::optional<double>& cpu, const std::optional<double>& share) {
  const auto one = row.cpus_now || row.cpus_before ? cpu : share;
  return one && std::isfinite(*one) ? one : std::nullopt;
}

}  // namespace

std::optional<double> part_before(const SidecarTop& row) { return part(row, row.cpus_before, row.share_before); }
std::optional<double> part_before(const SidecarGroup& row) { return part(row, row.cpus_before, row.share_before); }
std::optional<double> part_now(const SidecarTop& row) { return part(row, row.cpus_now, row.share_now); }
std::optional<double> part_now(const SidecarGroup& row) { return part(row, row.cpus_now, row.share_now); }

bool parts_are_cpus(const Sidecar& sidecar) {
  return std::any_of(sidecar.top.begin(), sidecar.top.end(), [](const SidecarTop& row) { return row.cpus_now; });
}

std::string rate_text(double per_second) {
  const double rate = std::clamp(finite(per_second), 0.0, 1e12);
  if (rate < 9.95) return fmt::format("{:.1f}", rate);
  std::string out = fmt::format("{:.0f}", rate);
  for (std::size_t at = out.size(); at > 3;) out.insert(at -= 3, ",");
  return out;
}

std::string users_text(const Sidecar& sidecar) {
  std::vector<Who> all = candidates(sidecar);
  std::stable_sort(all.begin(), all.end(), [](const Who& a, const Who& b) { return a.part() > b.part(); });
  std::string out;
  for (std::size_t i = 0; i < std::min(all.size(), kNamed); ++i) {
    if (i == 0)
      out = first_text(sidecar, all[0]);
    else if (all[i].part() >= kWorthNaming)
      out += fmt::format(", {}{}: {}", i == 1 ? "then " : "", all[i].name, share_text(all[i].part()));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Who& a, const Who& b) { return a.before.value_or(0) > b.before.value_or(0); });
  std::size_t named = 0;
  for (const Who& who : all) {
    if (!who.is_fewer()) continue;
    out += fmt::format("{}{}: {} before, now {}", named == 0 ? "; less: " : ", ", who.name, share_text(*who.before),
                       share_text(*who.now));
    if (++named == kFewerNamed) break;
  }
  return out;
}

std::string who_text(const Sidecar& sidecar) {
  std::string out = users_text(sidecar);
  if (const std::string cpus = sampled_cpus_text(sidecar); !out.empty() && !cpus.empty()) out += "; " + cpus;
  return out;
}

std::string sampled_cpus_text(const Sidecar& sidecar) {
  if (sidecar.top_cpus.empty()) return "";
  const bool several = sidecar.top_cpus.find_first_of(",-") != std::string::npos;
  return fmt::format("only CPU{} {} {} sampled", several ? "s" : "", printable_cut(sidecar.top_cpus, kUnitColumns),
                     several ? "are" : "is");
}

bool many_forks(const SidecarForks& forks) {
  return std::max(finite(forks.all.per_second_now.value_or(0)), finite(forks.all.per_second)) >= kManyForks;
}

namespace {

// ", at least 609 of 1,222 by healthcheck.service": of many forks no unit is known, and one unit has most of the
// others.
std::string most_of_the_known(const SidecarForks& forks) {
  const auto all = static_cast<double>(forks.all.count);
  const double known = all - static_cast<double>(std::min(forks.unit_unknown, forks.all.count));
  for (const SidecarForker& row : forks.by_unit) {
    if (row.name.empty() || row.name == kUnknownForker) continue;
    const auto count = static_cast<double>(row.count);
    if (forks.unit_unknown == 0 || count < kMostOfIt * known || count < kEnoughKnown * all) return "";
    return fmt::format(", at least {} of {} by {}", rate_text(count), rate_text(all), unit_text(row.name));
  }
  return "";
}

}  // namespace

std::string forks_text(const Sidecar& sidecar) {
  if (!sidecar.forks) return "";
  const SidecarForker& all = sidecar.forks->all;
  const double now = finite(all.per_second_now.value_or(all.per_second));
  if (!many_forks(*sidecar.forks)) return "";
  const bool over = now < kManyForks;  // many in the window, but not at its end
  std::string out =
      fmt::format("{}{} forks/s", sidecar.forks->complete ? "" : "at least ", rate_text(over ? all.per_second : now));
  if (over)
    out += fmt::format(" (now: {})", rate_text(now));
  else if (all.per_second_before && all.per_second_now)
    out += fmt::format(" (before: {})", rate_text(*all.per_second_before));
  const auto most = [&](const std::vector<SidecarForker>& rows) -> const SidecarForker* {
    return !rows.empty() && static_cast<double>(rows[0].count) >= kMostOfIt * static_cast<double>(all.count)
               ? rows.data()
               : nullptr;
  };
  const SidecarForker* unit = most(sidecar.forks->by_unit);
  const std::string at_least = unit == nullptr || unit->name == kUnknownForker ? most_of_the_known(*sidecar.forks) : "";
  const SidecarForker* program = most(sidecar.forks->by_program);
  if (program != nullptr && program->name == kUnknownForker) program = nullptr;
  const SidecarForker* process = most(sidecar.forks->by_pid);
  std::string who;
  if (process != nullptr)
    who = process_name(process->name, process->named_by, process->pid);
  else if (program != nullptr)
    who = printable_cut(program->name, kCommColumns);
  if (unit != nullptr && !unit->name.empty() && unit->name != kUnknownForker)
    who = unit_text(unit->name) + (who.empty() ? "" : " (" + who + ")");
  if (!at_least.empty()) return out + at_least + (who.empty() ? "" : " (" + who + ")");
  return who.empty() ? out : out + " by " + who;
}

}  // namespace flight
