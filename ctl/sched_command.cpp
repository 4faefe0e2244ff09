// SPDX-License-Identifier: Apache-2.0
// flightctl sched [ID] [OPTIONS]: who waited for a CPU, and who was blocked, by the switches in a snapshot. perf is not
// needed.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "ctl/output.hpp"
#include "ctl/profiled.hpp"
#include "ctl/sched_text.hpp"
#include "ctl/stacks_page.hpp"
#include "libcore/json/value.hpp"

namespace flight::ctl {
namespace {

std::string_view state_name(SchedState state) {
  switch (state) {
    case SchedState::running:
      return "running";
    case SchedState::runnable:
      return "runnable";
    case SchedState::blocked:
      return "blocked";
    case SchedState::sleeping:
      return "sleeping";
    case SchedState::ended:
      return "ended";
    case SchedState::unknown:
      break;
  }
  return "unknown";
}

json::Object json_of_spans(const SchedSpans& spans) {
  json::Object out{{"count", spans.count}, {"ns", spans.total_ns}, {"longest_ns", spans.longest_ns}};
  if (spans.count == 0) return out;
  out.add("longest_begin_ns", spans.longest_begin_ns);
  out.add("longest_goes_on", spans.longest_goes_on);
  out.add("unsure", spans.unsure);
  return out;
}

json::Object json_of_thread(const SchedProfile& profile, std::uint32_t number) {
  const SchedThread& thread = profile.threads[number];
  json::Object out{{"tid", thread.tid}, {"comm", profile.name_of(number)}};
  if (thread.pid != 0) out.add("pid", thread.pid);
  for (const auto& [name, spans] : {std::pair("run", &thread.run),
                                    {"wait", &thread.waited},
                                    {"preempted", &thread.preempted},
                                    {"delay", &thread.delayed},
                                    {"blocked", &thread.blocked},
                                    {"sleep", &thread.slept}})
    out.add(name, json_of_spans(*spans));
  out.add("unknown_wakeups", thread.unknown_wakeups);
  out.add("state", state_name(thread.state));
  return out;
}

json::Object json_of_wait(const SchedProfile& profile, const SchedRow& row) {
  json::Object out = json_of_thread(profile, row.thread);
  out.add("instead", json::array_of(row.instead, [&](const SchedInstead& one) {
            return json::Object{
                {"tid", profile.threads[one.thread].tid}, {"comm", profile.name_of(one.thread)}, {"ns", one.ns}};
          }));
  return out;
}

json::Array json_of_cpus(const SchedProfile& profile) {
  json::Array out;
  for (std::size_t cpu = 0; cpu < profile.cpus.size(); ++cpu) {
    const SchedCpu& one = profile.cpus[cpu];
    if (one.known)
      out.emplace_back(json::Object{{"cpu", std::uint64_t{cpu}},
                                    {"run_ns", one.run_ns},
                                    {"idle_ns", one.idle_ns},
                                    {"unknown_ns", one.unknown_ns}});
  }
  return out;
}

std::string json_text(const Sidecar& sidecar, const SchedProfile& profile, const std::vector<std::string>& notes) {
  const SchedKnowledge& known = profile.knowledge;
  const char* wakeups = known.normal_wakeups ? "all" : known.has_wakeups ? "real-time" : "none";
  json::Object out{{"id", sidecar.id},
                   {"begin_ns", profile.shown.begin_ns},
                   {"end_ns", profile.shown.end_ns},
                   {"switches", profile.switches},
                   {"wakeups", profile.wakeups},
                   {"wakeups_of", wakeups},
                   {"stacks", known.stacks}};
  out.add("threads", json::array_of(profile.rows, [&](const SchedRow& row) { return json_of_wait(profile, row); }));
  out.add("left_out", std::uint64_t{profile.threads.size() - profile.rows.size()});
  out.add("blocked",
          json::array_of(profile.blocked, [&](std::uint32_t number) { return json_of_thread(profile, number); }));
  out.add("blocked_over_time", json::Object{{"begin_ns", profile.shown.begin_ns},
                                            {"step_ns", profile.lane_step_ns},
                                            {"threads", profile.blocked_lane}});
  out.add("cpus", json_of_cpus(profile));
  out.add("lost", profile.lost);
  out.add("notes", notes);
  return json::dump(out, 2) + "\n";
}

// On a terminal fewer, as there are two tables and what is below them.
std::size_t rows_of_sched(const SchedOptions& options) {
  constexpr std::size_t kRows = 20, kLeastRows = 5, kPartOfTerminal = 3;
  if (options.count != 0) return static_cast<std::size_t>(options.count);
  const auto lines = page_lines();
  return lines ? std::clamp(*lines / kPartOfTerminal, kLeastRows, kRows) : kRows;
}

std::size_t cpus_of_sched(const SchedOptions& options) {
  constexpr std::size_t kCpus = 16, kLeastCpus = 2, kPartOfTerminal = 8;
  const auto lines = options.count != 0 ? std::nullopt : page_lines();
  return lines ? std::clamp(*lines / kPartOfTerminal, kLeastCpus, kCpus) : kCpus;
}

int complain_of_sched(const Common& common, const Sidecar& sidecar, Error error) {
  const std::string id = printable(sidecar.id);
  if (error.errno_value() != ENODEV) {
    error.what = fmt::format("snapshot {}: {}", id, error.what);
    return complain_of_profile(common, error);
  }
  return complain(common, kOutputFailed,
                  fmt::format("snapshot {} cannot show who waited: it has no sched:sched_switch. To record it from now "
                              "on, write {{\"profile\": \"sched\"}} to /etc/flightd/conf.d/NAME.json, and run "
                              "`flightctl reload`",
                              id),
                  kRefused);
}

}  // namespace

int run_sched(const Common& common, const SchedOptions& options) {
  const auto snapshot = open_profiled(common, options.id, KernelSymbols::none);
  if (!snapshot) return complain(common, snapshot.error());
  const Sidecar& sidecar = snapshot->sidecar;
  const auto chosen = chosen_time(sidecar, options.since, options.until);
  if (!chosen) return complain(common, kUsageError, chosen.error().what, kUsage);
  SchedOrder order;
  order.shown = {
      .begin_ns = chosen->time.begin_ns, .end_ns = chosen->time.end_ns, .covered_ns = sidecar.common_window.begin_ns};
  order.sidecar = &sidecar;
  order.most_rows = rows_of_sched(options);
  order.lanes.ran_ns = kUsualLanes.ran_ns;
  const auto profile = SchedProfile::read(snapshot->data, order);
  if (!profile) return complain_of_sched(common, sidecar, profile.error());
  const std::vector<std::string> notes = sched_notes(sidecar, *profile, chosen->all_covered);
  if (common.json) return print(stdout, json_text(sidecar, *profile, notes));
  return print(stdout, sched_text(sidecar, *profile, notes, Screen::here(), cpus_of_sched(options)));
}

}  // namespace flight::ctl
