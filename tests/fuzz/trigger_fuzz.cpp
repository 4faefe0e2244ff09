// SPDX-License-Identifier: Apache-2.0
// What the triggers read: their own saved counters, which somebody may have damaged, and the texts of /proc. Counters
// that can be read can be written and read again, and rules go on from whatever they say.
#include <cassert>

#include "libcore/config/default_text.hpp"
#include "libcore/config/parse.hpp"
#include "libcore/trigger/cpu_usage.hpp"
#include "libcore/trigger/rules.hpp"
#include "tests/fuzz/input.hpp"

namespace {

void play_saved(std::string_view text) {
  const auto state = flight::parse_trigger_state(text);
  if (!state) {
    assert(!state.error().what.empty());
    return;
  }
  const std::string written = flight::to_text(*state);
  const auto again = flight::parse_trigger_state(written);
  assert(again && flight::to_text(*again) == written);
  static const auto config = flight::parse_config(flight::built_in_config(), "built-in");
  flight::TriggerRules rules(config->triggers, config->storm_guard, {});
  const flight::ClockPair now{std::chrono::hours(24 * 365 * 57), 3'600'000'000'000};
  rules.restore(*state, state->boot_id, now);
  rules.restore(*state, "another boot", now);
  static_cast<void>(rules.on_event("oom", text, now));
  assert(rules.rows(now).size() == config->triggers.size());
}

// Two looks at /proc/stat: no share is outside its bounds, whatever stands there.
void play_stat(std::string_view before, std::string_view after) {
  flight::CpuUsage usage;
  flight::ProcStat stat;
  for (const auto& [text, time_ns] : {std::pair(before, 1'000'000'000ULL), std::pair(after, 1'100'000'000ULL)}) {
    flight::parse_proc_stat(text, stat);
    assert(stat.cpus.size() <= flight::kMaxStatCpus);
    flight::MetricPass pass{.time_ns = time_ns, .span_ns = 100'000'000};
    usage.measure(stat, pass);
    for (const auto& value : pass.values) assert(!value || (*value >= 0 && *value <= 100.001));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  flight::fuzz::Input input(data, size);
  const std::string_view first = input.take_text();
  play_saved(first);
  play_stat(first, input.text());
  static_cast<void>(flight::parse_pressure(first));
  static_cast<void>(flight::parse_loadavg_running(first));
  return 0;
}
