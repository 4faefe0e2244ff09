// SPDX-License-Identifier: Apache-2.0
// The output of flightctl reload and flightctl config, for people and for scripts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;

TEST_F(FlightctlTest, ReloadPrintsTheResult) {
  run();
  const Outcome text = ctl({"reload"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("configuration 0123456789abcdef is in force"));
  EXPECT_THAT(text.out, HasSubstr("warning: careful\n"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "reload"}).out)["warnings"][0], "careful");
}

TEST_F(FlightctlTest, ReloadSaysWhatChanged) {
  ReloadReport& report = bench.backend.reload_to_report;
  report.warnings.clear();
  run();
  const auto say = [&](std::vector<ReportedChange> changes, bool rings) {
    bench.on_loop([&] {
      report.changes = std::move(changes);
      report.changed = rings;
      return 0;
    });
    return ctl({"reload"}).out;
  };
  const std::string in_force = "configuration 0123456789abcdef is in force; ";
  EXPECT_EQ(say({}, false), in_force + "nothing changed\n");
  EXPECT_EQ(say({}, true), in_force +
                               "no value changed, but rings were opened or closed; channels that did not change "
                               "kept their history\n");
  EXPECT_EQ(say({{"store.max_use", "1G", "2G", "/etc/flightd/conf.d/x.json", 3}}, false),
            in_force +
                "1 value changed, all rings kept their history:\n"
                "  store.max_use = 2G, it was 1G  (/etc/flightd/conf.d/x.json:3)\n");
  EXPECT_EQ(say({{"channels.net.ring", std::nullopt, "1M", "/etc/y", 4},
                 {"store.max_age", "7d", "30d", "built-in", 0},
                 {"channels.a\x1b.ring", "2M", std::nullopt, "/etc/z", 5}},
                true),
            in_force +
                "3 values changed, channels that did not change kept their history:\n"
                "  channels.net.ring = 1M, it is new  (/etc/y:4)\n"
                "  store.max_age = 30d, it was 7d  (built-in)\n"
                "  channels.a?.ring is gone, it was 2M\n");
  const std::vector<ReportedChange> ring{{"channels.net.ring", "2M", "1M", "/etc/y", 4}};
  const auto say_lost = [&](std::vector<std::string> lost) {
    bench.on_loop([&] {
      report.lost_history = std::move(lost);
      return 0;
    });
    return say(ring, true);
  };
  EXPECT_THAT(say_lost({"net"}), HasSubstr("1 value changed, channel 'net' lost its history:\n"));
  EXPECT_THAT(say_lost({"a\x1b", "net"}), HasSubstr("1 value changed, channels 'a?', 'net' lost their history:\n"));
  EXPECT_THAT(say_lost({}), HasSubstr("1 value changed, all channels kept their history:\n"));
  const std::string many = say(std::vector<ReportedChange>(100, {"user", "a", "b", "/etc/x", 1}), false);
  EXPECT_EQ(std::count(many.begin(), many.end(), '\n'), 18);
  EXPECT_THAT(many, testing::EndsWith("  and 84 more\n"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "reload"}).out)["changes"].size(), 100U);
}

TEST_F(FlightctlTest, ARefusedReloadIsReportedOnStderr) {
  bench.backend.refuse_reload = bad_config("/etc/x.json", 7, "channels.a", "/etc/x.json:7: channels.a: no");
  run();
  const Outcome text = ctl({"reload"});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.out, "");
  EXPECT_THAT(text.err, HasSubstr("/etc/x.json:7: channels.a: no"));
  const Outcome json = ctl({"--json", "reload"});
  EXPECT_EQ(nlohmann::json::parse(json.err)["error"], "io.flightd.Recorder.BadConfig");
}

TEST_F(FlightctlTest, ConfigIsATableWithItsMemory) {
  bench.backend.config_to_report.values.push_back({"user", "a\x1b[31mb", "built-in", 0});
  bench.backend.config_to_report.memory = {.ring_bytes = 4U << 20U,
                                           .program_bytes = 6U << 20U,
                                           .sum_bytes = 10U << 20U,
                                           .max_bytes = 20U << 20U,
                                           .ram_bytes = 1000U << 20U,
                                           .cgroup_max_bytes = 64U << 20U};
  run();
  const Outcome text = ctl({"config"});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("store.max_files  7"));
  EXPECT_THAT(text.out, HasSubstr("/etc/flightd/flightd.json:3\n"));
  EXPECT_THAT(text.out, HasSubstr("built-in\n"));
  EXPECT_EQ(text.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(text.out, HasSubstr("programs: at most 6.0M\n"));
  EXPECT_THAT(text.out,
              HasSubstr("10.0M, 1.00 % of RAM; memory.max is 20.0M (2.00 % of RAM); the cgroup's limit is 64.0M"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "config"}).out)["memory"]["sum_bytes"], 10U << 20U);
}

TEST_F(FlightctlTest, AShortTerminalShowsTheValuesThatSomebodySet) {
  ConfigReport& report = bench.backend.config_to_report;
  for (int i = 0; i < 30; ++i) {
    report.values.push_back({fmt::format("channels.c{}.ring", i), "2M", "built-in", 0});
    report.values.push_back({fmt::format("triggers.t{}.enabled", i), "true", "/usr/lib/flightd/flightd.json", 9});
  }
  run();
  const auto lines_of = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  const std::string shown = on_terminal({"config"}, {"TERM=xterm"}).out;
  EXPECT_THAT(shown, testing::StartsWith("KEY              VALUE  FROM\r\n"
                                         "store.max_files  7      /etc/flightd/flightd.json:3\r\n\r\n"
                                         "60 values are the defaults; `flightctl config --all` shows"));
  EXPECT_THAT(shown, testing::AllOf(HasSubstr("\nrings: "), HasSubstr("\ndigest: "), Not(HasSubstr("built-in"))));
  EXPECT_LT(lines_of(shown), 24);
  EXPECT_EQ(lines_of(on_terminal({"config", "--all"}, {"TERM=xterm"}).out), lines_of(ctl({"config"}).out));
  EXPECT_THAT(ctl({"config"}).out, testing::AllOf(HasSubstr("channels.c29.ring"), HasSubstr("triggers.t29.enabled")));
  bench.on_loop([&] {
    for (int i = 0; i < 30; ++i) report.values.push_back({fmt::format("user.v{}", i), "x", "/etc/flightd/y", i + 1});
    return 0;
  });
  const std::string many = on_terminal({"config"}, {"TERM=xterm"}).out;
  EXPECT_LT(lines_of(many), 24);
  EXPECT_THAT(many, testing::AllOf(HasSubstr("\nuser.v0 "), testing::ContainsRegex("\nand [12][0-9] more\r\n")));
}

TEST_F(FlightctlTest, AShortTerminalShowsTheFirstValuesOfASection) {
  for (int i = 10; i < 50; ++i)
    bench.backend.config_to_report.values.push_back({fmt::format("triggers.t{}.enabled", i), "true", "built-in", 0});
  bench.backend.config_to_report.values.push_back({"triggers.t99.filter", std::string(100, 'x'), "built-in", 0});
  run();
  std::string shown = on_terminal({"config", "triggers"}, {"TERM=xterm"}).out;
  std::erase(shown, '\r');
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 23);
  EXPECT_THAT(shown,
              testing::AllOf(testing::StartsWith("triggers.t10.enabled = true  (built-in)\n"),
                             HasSubstr("\ntriggers.t31.enabled = true"),
                             testing::EndsWith("\nand 19 more: `flightctl config --all triggers` shows all.\n")));
  EXPECT_THAT(on_terminal({"config", "triggers.t99"}, {"TERM=xterm"}).out,
              testing::StartsWith("triggers.t99.filter = x"));
  for (const std::string& page :
       {on_terminal({"config", "-a", "triggers"}, {"TERM=xterm"}).out, ctl({"config", "triggers"}).out})
    EXPECT_THAT(page, testing::AllOf(HasSubstr("triggers.t49.enabled"), HasSubstr("xxx"), Not(HasSubstr(" more"))));
}

TEST_F(FlightctlTest, ConfigOfAKeyIsItsValueAndPlace) {
  bench.backend.config_to_report.values = {{"store.max_files", "7", "/etc/flightd/flightd.json", 3},
                                           {"store.max_use", "1G", "built-in", 0},
                                           {"storefront", "x", "built-in", 0}};
  run();
  EXPECT_EQ(ctl({"config", "store.max_files"}).out, "store.max_files = 7  (/etc/flightd/flightd.json:3)\n");
  EXPECT_EQ(ctl({"config", "store"}).out,
            "store.max_files = 7  (/etc/flightd/flightd.json:3)\nstore.max_use = 1G  (built-in)\n");
  const auto json = nlohmann::json::parse(ctl({"--json", "config", "store.max_use"}).out);
  ASSERT_EQ(json.size(), 1U);
  EXPECT_EQ(json[0]["value"], "1G");
  const Outcome wrong = ctl({"config", "store.max_usee"});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err,
              HasSubstr("no value 'store.max_usee': did you mean 'store.max_use'? `flightctl config --all`"));
  EXPECT_THAT(ctl({"config", "stor"}).err, HasSubstr("did you mean 'store'?")) << "a section";
  EXPECT_THAT(ctl({"config", "nothing"}).err, HasSubstr("no value 'nothing'; `flightctl config --all` shows all"));
  EXPECT_THAT(ctl({"config", "snapshot.crew"}).err,
              HasSubstr("it was renamed to 'snapshot.workers' in flightd 0.2.0;"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "config", "nothing"}).err)["error"], "io.flightd.Client.NoSuchKey");
}

}  // namespace
}  // namespace flight
