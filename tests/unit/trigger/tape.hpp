// SPDX-License-Identifier: Apache-2.0
// A virtual clock and the passes of a sampler, so that a test simulates hours in milliseconds.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/config/parse.hpp"
#include "libcore/trigger/metric_pass.hpp"
#include "libcore/trigger/rules.hpp"

namespace flight::test {

inline constexpr std::uint64_t kMs = 1'000'000, kS = 1'000 * kMs, kMin = 60 * kS, kHour = 60 * kMin;

// Monotonic and wall clock that advance together unless a test moves one alone.
struct Clock {
  EventTime monotonic_ns = 1000 * kS;
  WallTime wall = std::chrono::hours(24 * 365 * 56);
  [[nodiscard]] ClockPair now() const { return {wall, monotonic_ns}; }
  void go(std::uint64_t ns) {
    monotonic_ns += ns;
    wall += std::chrono::nanoseconds(ns);
  }
};

// The triggers of a configuration's text, "NAME": { … }, …
inline Config config_of(const std::string& triggers, const std::string& more = "") {
  auto config = parse_config("{\"triggers\": {" + triggers + "}" + more + "}", "test.json");
  if (!config) throw std::runtime_error(config.error().text());
  return std::move(*config);
}

// Rules and the passes that they get.
class Tape {
 public:
  explicit Tape(const Config& config) : rules(config.triggers, config.storm_guard, {}) {}
  explicit Tape(const std::string& triggers, const std::string& more = "") : Tape(config_of(triggers, more)) {}

  // Passes for this time, one each `step`, in which each metric has its value.
  using Values = std::vector<std::pair<Metric, double>>;
  std::vector<Decision> play(std::uint64_t ns, const Values& values, std::uint64_t step = 100 * kMs) {
    std::vector<Decision> out;
    for (const EventTime end = clock.monotonic_ns + ns; clock.monotonic_ns + step <= end;) {
      clock.go(step);
      MetricPass pass{.time_ns = clock.monotonic_ns, .span_ns = step};
      for (const auto& [metric, value] : values) pass.of(metric) = value;
      for (Decision& decision : rules.on_pass(pass, clock.now())) out.push_back(std::move(decision));
    }
    for (const Decision& decision : out) (decision.fires() ? fired : held_back) += 1;
    return out;
  }
  std::vector<Decision> play(std::uint64_t ns, Metric metric, double value, std::uint64_t step = 100 * kMs) {
    return play(ns, Values{{metric, value}}, step);
  }
  [[nodiscard]] TriggerRow row(const std::string& name) const {
    for (TriggerRow& row : rules.rows(clock.now()))
      if (row.name == name) return row;
    return {};
  }

  Clock clock;
  TriggerRules rules;
  std::uint64_t fired = 0, held_back = 0;
};

}  // namespace flight::test
