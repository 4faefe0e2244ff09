// SPDX-License-Identifier: Apache-2.0
// The shipped triggers with the /proc of a real kernel under real loads (fixtures/record made the files): through the
// sampler, as in operation, within milliseconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "libcore/config/default_text.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/trigger/proc_tree.hpp"
#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

using testing::Contains;
using testing::Ge;

struct Look {
  EventTime time_ns = 0;
  int running = 0, blocked = 0;
  std::array<std::uint64_t, 6> stalled_us{};
  std::vector<CpuTicks> cpus;
};

std::vector<Look> recorded(const std::string& name) {
  std::ifstream file(test::source_root() + "/tests/unit/trigger/fixtures/" + name + ".txt");
  std::vector<Look> looks;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    Look look;
    in >> look.time_ns >> look.running >> look.blocked;
    for (std::uint64_t& us : look.stalled_us) in >> us;
    for (CpuTicks cpu; in >> cpu.ticks[0]; look.cpus.push_back(cpu)) {
      for (std::size_t i = 1; i < cpu.ticks.size(); ++i) in >> cpu.ticks.at(i);
      cpu.cpu = static_cast<int>(look.cpus.size());
    }
    looks.push_back(std::move(look));
  }
  return looks;
}

// The triggers that fired, and the final state of the history.
struct Played {
  std::vector<std::string> fired;
  SidecarMetrics metrics;
  double most_lopsided = 0;
};

Played play(const std::string& name) {
  const std::vector<Look> looks = recorded(name);
  EXPECT_GT(looks.size(), 80U) << name;
  const test::ProcTree tree;
  const auto show = [&](const Look& look) {
    tree.stat(look.cpus, look.running, look.blocked);
    tree.loadavg(look.running);
    tree.pressure("cpu", look.stalled_us[0], look.stalled_us[1]);
    tree.pressure("memory", look.stalled_us[2], look.stalled_us[3]);
    tree.pressure("io", look.stalled_us[4], look.stalled_us[5]);
  };
  show(looks.at(0));
  Sampler sampler = Sampler::open(tree.root);
  Config config = *parse_config(built_in_config(), "built-in");
  for (TriggerConfig& trigger : config.triggers) trigger.warmup = std::chrono::seconds(2);  // the load comes at 3 s
  TriggerRules rules(config.triggers, config.storm_guard, sampler.missing());
  Played played;
  for (const Look& look : looks) {
    show(look);
    const MetricPass pass = sampler.pass(look.time_ns);
    for (const auto& value : pass.values) EXPECT_TRUE(!value || (*value >= 0 && *value <= 1e6));
    played.most_lopsided = std::max(played.most_lopsided, pass.of(Metric::cpu_lopsided).value_or(0));
    const ClockPair now{std::chrono::hours(1), look.time_ns};
    for (const Decision& decision : rules.on_pass(pass, now)) played.fired.push_back(decision.trigger);
  }
  played.metrics = *rules.history().exported();
  return played;
}

std::vector<double> recent(const Played& played, const std::string& metric) {
  for (const auto& [name, values] : played.metrics.recent.values)
    if (name == metric) return values;
  return {};
}

// A machine that compiles on all its CPUs, some of whose time the hypervisor takes: it is busy, but no trigger fires.
TEST(Recorded, ABusyMachineFiresNothing) {
  const Played played = play("busy");
  EXPECT_TRUE(played.fired.empty()) << played.fired.front();
  EXPECT_THAT(recent(played, "cpu.busy"), Contains(Ge(95)));
  EXPECT_LT(played.most_lopsided, 50);
}

}  // namespace
}  // namespace flight
