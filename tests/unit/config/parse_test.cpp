// SPDX-License-Identifier: Apache-2.0
// The values that a valid configuration yields.
#include "libcore/config/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/files.hpp"
#include "libcore/config/default_text.hpp"
#include "libcore/config/document.hpp"
#include "tests/unit/environment.hpp"

namespace flight {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const std::string kFixtures = test::source_root() + "/tests/unit/config/fixtures/";
const std::string kShipped = test::source_root() + "/config/flightd.json";

Config good(std::string_view text) {
  auto config = parse_config(text, "test.json");
  if (!config) ADD_FAILURE() << config.error().text();
  return config ? *config : Config{};
}

TEST(Config, ReadsEveryKey) {
  const auto config = load_config(kFixtures + "every_key.json");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->profile, "default");
  EXPECT_EQ(config->user, "flightd");
  EXPECT_EQ(config->memory_max.percent, 2);
  EXPECT_EQ(config->sideband_ring_bytes, 2U << 20U);

  ASSERT_EQ(config->channels.size(), 3U);
  const ChannelConfig& stacks = config->channels[0];
  EXPECT_EQ(stacks.name, "stacks");
  EXPECT_EQ(stacks.ring_bytes, 2U << 20U);
  ASSERT_EQ(stacks.events.size(), 1U);
  EXPECT_EQ(stacks.events[0], (EventConfig{.event = "cycles", .frequency = 99, .stack = true, .max_stack = 127}));
  const ChannelConfig& sched = config->channels[1];
  EXPECT_EQ(sched.ring_bytes, 4U << 20U);
  ASSERT_EQ(sched.events.size(), 2U);
  EXPECT_EQ(sched.events[0], (EventConfig{.event = "sched:sched_switch"}));
  EXPECT_EQ(sched.events[1], (EventConfig{.event = "sched:sched_wakeup", .filter = "prio < 100"}));
  EXPECT_EQ(sched.cpus, (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_TRUE(stacks.cpus.empty()) << "all";
  EXPECT_EQ(config->channels[2].ring_bytes, ChannelConfig{}.ring_bytes);
  EXPECT_EQ(config->channels[2].events[0], (EventConfig{.event = "page-faults", .period = 100}));

  EXPECT_EQ(config->snapshot.capture, CaptureMode::live);
  EXPECT_EQ(config->snapshot.workers, "0-3/3:4-7/4");
  EXPECT_EQ(config->snapshot.compression, "none");
  EXPECT_EQ(config->snapshot.compression_level, 3);
  EXPECT_EQ(config->snapshot.layout, "directory");
  EXPECT_TRUE(config->snapshot.on_stop);
  EXPECT_EQ(config->record.workers, "numa");
  EXPECT_EQ(config->record.max_bytes, 4ULL << 30U);
  EXPECT_EQ(config->record.switch_bytes, 32U << 20U);
  EXPECT_EQ(config->record.layout, "directory");
  EXPECT_EQ(config->store.max_use->percent, 10);
  EXPECT_EQ(config->store.keep_free->bytes, 2ULL << 30U);
  EXPECT_EQ(config->store.keep_free->percent, 0);
  EXPECT_EQ(config->store.max_files, 100U);
  EXPECT_EQ(config->store.max_age, hours(7 * 24));
  EXPECT_EQ(config->store.max_snapshot_bytes, 64U << 20U);
  EXPECT_EQ(config->store.keep_first, 3U);
  EXPECT_EQ(config->store.keep_last, 0U);
}

TEST(Config, ReadsEveryKeyOfATrigger) {
  const auto config = load_config(kFixtures + "every_key.json");
  ASSERT_TRUE(config) << config.error().text();
  ASSERT_EQ(config->triggers.size(), 6U);
  const TriggerConfig& spike = config->triggers[0];
  EXPECT_EQ(spike.name, "cpu-spike");
  EXPECT_EQ(spike.metric, "cpu.busy");
  EXPECT_EQ(spike.above, 90);
  EXPECT_EQ(spike.below, std::nullopt);
  EXPECT_EQ(spike.delta, 30);
  EXPECT_EQ(spike.rearm, 70);
  EXPECT_EQ(spike.for_time, seconds(2));
  EXPECT_EQ(spike.warmup, minutes(1));
  EXPECT_EQ(spike.cooldown, minutes(5));
  EXPECT_EQ(spike.post, seconds(1));
  EXPECT_TRUE(spike.enabled);
  EXPECT_EQ(config->triggers[1].max_per_day, 4U);
  ASSERT_TRUE(config->triggers[2].event);
  EXPECT_EQ(config->triggers[2].event->event, "oom:mark_victim");
  EXPECT_EQ(config->triggers[3].event->filter, "pid > 1");
  EXPECT_EQ(config->triggers[3].capture, CaptureMode::live);
  EXPECT_EQ(config->triggers[3].last, seconds(10));
  EXPECT_EQ(config->triggers[4].above, 16.5);
  EXPECT_FALSE(config->triggers[4].enabled);
  EXPECT_TRUE(config->triggers[5].external);
  EXPECT_EQ(config->triggers[5].max_per_hour, 6U);
  EXPECT_EQ(config->triggers[5].record, minutes(2));
  EXPECT_EQ(config->triggers[4].record, seconds(0)) << "only a snapshot";
}

TEST(Config, AnEmptyObjectIsEveryDefault) {
  const Config config = good("{}");
  EXPECT_EQ(config.user, Config{}.user);
  EXPECT_EQ(config.store.max_files, 200U);
  EXPECT_EQ(config.store.max_use.has_value(), false);
  EXPECT_TRUE(config.triggers.empty());
  ASSERT_EQ(config.channels.size(), 1U) << "a recorder that nobody configured records the built-in channels";
  EXPECT_EQ(config.channels[0].name, "stacks");
}

TEST(Config, TheShippedFileIsTheBuiltInOne) {
  const auto text = read_file(kShipped);
  ASSERT_TRUE(text) << text.error().what;
  EXPECT_EQ(*text, built_in_config());
  const auto config = load_config(kShipped);
  ASSERT_TRUE(config) << config.error().text();
  ASSERT_EQ(config->channels.size(), 1U);
  EXPECT_EQ(config->channels[0].name, "stacks");
  EXPECT_EQ(config->channels[0].ring_bytes, 2U << 20U);
  ASSERT_EQ(config->channels[0].events.size(), 1U);
  EXPECT_EQ(config->channels[0].events[0],
            (EventConfig{.event = "cycles", .frequency = 99, .stack = true, .max_stack = 127}));
  // The trigger is on from the first start.
  ASSERT_EQ(config->triggers.size(), 5U);
  for (const TriggerConfig& trigger : config->triggers) {
    EXPECT_TRUE(trigger.enabled) << trigger.name;
    EXPECT_GT(trigger.cooldown.count(), 0) << trigger.name;
  }
  EXPECT_EQ(config->triggers[0].name, "cpu-spike");
  EXPECT_EQ(config->triggers[0].metric, "cpu.used") << "a stolen CPU has no culprit here";
  EXPECT_TRUE(config->triggers[0].above && config->triggers[0].delta) << "level and jump";
  EXPECT_EQ(config->triggers[1].name, "lopsided");
  EXPECT_EQ(config->triggers[1].max_per_day, 4U);
  EXPECT_EQ(config->triggers[2].name, "steal");
  EXPECT_EQ(config->triggers[2].metric, "cpu.steal");
  EXPECT_EQ(config->triggers[2].above, 30.0);
  EXPECT_EQ(config->triggers[2].for_time, seconds(5));
  EXPECT_EQ(config->triggers[2].cooldown, minutes(15));
  EXPECT_EQ(config->triggers[2].max_per_day, 4U);
  EXPECT_EQ(config->triggers[3].name, "oom");
  EXPECT_EQ(config->triggers[3].event->event, "oom:mark_victim");
  EXPECT_EQ(config->triggers[4].name, "psi-memory");
  EXPECT_EQ(config->channels[0].min_history, seconds(10));
  const auto profile = read_file(test::source_root() + "/config/profiles/default.json");
  ASSERT_TRUE(profile) << profile.error().what;
  EXPECT_EQ(*profile, built_in_profile());
}

// The structs' defaults and the shipped file have the same values.
TEST(Config, TheShippedFileSaysTheDefaults) {
  const auto config = load_config(kShipped);
  ASSERT_TRUE(config) << config.error().text();
  const Config defaults = good("{}");
  EXPECT_EQ(config->profile, defaults.profile);
  EXPECT_EQ(config->user, defaults.user);
  EXPECT_EQ(config->memory_max.percent, defaults.memory_max.percent);
  EXPECT_EQ(config->channels, defaults.channels);
  EXPECT_EQ(config->snapshot.capture, defaults.snapshot.capture);
  EXPECT_EQ(config->snapshot.workers, defaults.snapshot.workers);
  EXPECT_EQ(config->snapshot.compression, defaults.snapshot.compression);
  EXPECT_EQ(config->snapshot.compression_level, defaults.snapshot.compression_level);
  EXPECT_EQ(config->snapshot.layout, defaults.snapshot.layout);
  EXPECT_EQ(config->snapshot.on_stop, defaults.snapshot.on_stop);
  EXPECT_EQ(config->record.workers, defaults.record.workers);
  EXPECT_EQ(config->record.max_bytes, defaults.record.max_bytes);
  EXPECT_EQ(config->record.switch_bytes, defaults.record.switch_bytes);
  EXPECT_EQ(config->record.layout, defaults.record.layout);
  EXPECT_EQ(config->store.max_use.has_value(), defaults.store.max_use.has_value());
  EXPECT_EQ(config->store.keep_free.has_value(), defaults.store.keep_free.has_value());
  EXPECT_EQ(config->store.max_files, defaults.store.max_files);
  EXPECT_EQ(config->store.max_age, defaults.store.max_age);
  EXPECT_EQ(config->store.max_snapshot_bytes, defaults.store.max_snapshot_bytes);
  EXPECT_EQ(config->storm_guard, defaults.storm_guard);
  EXPECT_EQ(config->store.keep_first, defaults.store.keep_first);
  EXPECT_EQ(config->store.keep_last, defaults.store.keep_last);
}

TEST(Config, WorkersThatAreRight) {
  for (const std::string workers : {"\"cpu\"", "\"core\"", "\"package\"", "\"numa\"", "\"4\"", "4", "\"64\"", "\"0/0\"",
                                    "\"0-3/3:4-7/4\"", "\"0,2-4/2-4:1,5-7/5-7\"", "\"0-1,1/0\""})
    good(R"({"snapshot": {"workers": )" + workers + "}}");
  EXPECT_EQ(good(R"({"snapshot": {"workers": 4}})").snapshot.workers, "4");
}

TEST(Config, RingsFromTheSmallestToTheLargest) {
  for (const auto& [text, bytes] : {std::pair<std::string, std::uint64_t>{"64K", 65536},
                                    {"65536", 65536},
                                    {"1M", 1U << 20U},
                                    {"1024K", 1U << 20U},
                                    {"1G", 1U << 30U}}) {
    const Config config = good(R"({"channels": {"a": {"ring": ")" + text + R"(", "events": ["cycles"]}}})");
    ASSERT_EQ(config.channels.size(), 1U) << text;
    EXPECT_EQ(config.channels[0].ring_bytes, bytes) << text;
  }
}

TEST(Config, FiltersBelongToTracepointsAlsoWithModifiers) {
  good(R"({"channels": {"a": {"events": [{"event": "sched:sched_switch:u", "filter": "prio < 100"}]}}})");
  good(R"({"channels": {"a": {"events": [{"event": "raw_syscalls:sys_enter", "filter": "id == 3"}]}}})");
}

TEST(Config, ExternalFalseIsNoCondition) {
  const Config config = good(R"({"triggers": {"a": {"external": false, "metric": "tasks.blocked", "below": 2}}})");
  ASSERT_EQ(config.triggers.size(), 1U);
  EXPECT_FALSE(config.triggers[0].external);
  EXPECT_EQ(config.triggers[0].below, 2);
}

TEST(Config, AByteOrderMarkAndWindowsLineEndsDoNoHarm) {
  const auto config = parse_config("\xef\xbb\xbf{\r\n  \"user\": \"me\"\r\n}\r\n", "test.json");
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->user, "me");
}

TEST(Config, TheDigestIsOfTheText) {
  const Config one = good("{}");
  EXPECT_THAT(one.digest, testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(one.digest, good("{}").digest);
  EXPECT_NE(one.digest, good("{ }").digest);
}

TEST(Config, ChannelsKeepTheirOrder) {
  const Config config = good(R"({"channels": {"z": {"events": ["cycles"]}, "a": {"events": ["cpu-clock"]}}})");
  ASSERT_EQ(config.channels.size(), 2U);
  EXPECT_EQ(config.channels[0].name, "z");
  EXPECT_EQ(config.channels[1].name, "a");
}

// The shipped configuration suggests this. A single file is a valid configuration, too.
TEST(Config, ATriggerOrChannelThatIsNullIsLeftOut) {
  const Config config = good(
      R"({"channels": {"a": {"events": ["cycles"]}, "b": null},
          "triggers": {"oom": null, "t": {"external": true}}})");
  ASSERT_EQ(config.channels.size(), 1U);
  ASSERT_EQ(config.triggers.size(), 1U);
  EXPECT_EQ(config.triggers[0].name, "t");
  for (const ConfigValue& value : config.values) EXPECT_EQ(value.path.find("oom"), std::string::npos) << value.path;
  EXPECT_TRUE(good(R"({"triggers": {"oom": null}})").triggers.empty());
  EXPECT_FALSE(parse_config(R"({"triggers": {"O O M": null}})", "x")) << "no name for a trigger";
  EXPECT_FALSE(parse_config(R"({"channels": {"stacks": null}})", "x")) << "no channel is left";
}

TEST(Config, CaptureModesHaveNames) {
  EXPECT_EQ(to_string(CaptureMode::pause), "pause");
  EXPECT_EQ(to_string(CaptureMode::live), "live");
}

TEST(MergePatch, IsRfc7396) {
  const auto merged = [](const char* target, const char* patch) {
    auto value = parse_document(target, "target");
    auto over = parse_document(patch, "patch", 1);
    EXPECT_TRUE(value && over);
    merge_patch(*value, std::move(*over));
    return std::move(*value);
  };
  // The cases of the RFC's appendix A whose root is an object.
  EXPECT_EQ(merged(R"({"a":"b"})", R"({"a":"c"})").member("a")->text, "c");
  EXPECT_EQ(merged(R"({"a":"b"})", R"({"b":"c"})").items.size(), 2U);
  EXPECT_EQ(merged(R"({"a":"b"})", R"({"a":null})").items.size(), 0U);
  EXPECT_EQ(merged(R"({"a":"b","b":"c"})", R"({"a":null})").items.size(), 1U);
  EXPECT_EQ(merged(R"({"a":["b"]})", R"({"a":"c"})").member("a")->text, "c");
  EXPECT_EQ(merged(R"({"a":"c"})", R"({"a":["b"]})").member("a")->items.size(), 1U);
  const Value deep = merged(R"({"a":{"b":"c"}})", R"({"a":{"b":"d","c":null}})");
  EXPECT_EQ(deep.member("a")->items.size(), 1U);
  EXPECT_EQ(deep.member("a")->member("b")->text, "d");
  EXPECT_EQ(merged(R"({"a":[{"b":"c"}]})", R"({"a":[1]})").member("a")->items[0].whole, 1U);
  EXPECT_EQ(merged(R"({"e":null})", R"({"a":1})").items.size(), 2U);
  const Value made = merged("{}", R"({"a":{"bb":{"ccc":null}}})");
  ASSERT_TRUE(made.member("a")->member("bb")->is_object());
  EXPECT_TRUE(made.member("a")->member("bb")->items.empty());
  EXPECT_EQ(merged(R"({"a":"text"})", R"({"a":{"b":1}})").member("a")->member("b")->whole, 1U);
}

}  // namespace
}  // namespace flight
