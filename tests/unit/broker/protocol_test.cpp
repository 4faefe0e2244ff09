// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/protocol.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace flight {
namespace {

using testing::HasSubstr;

perf_event_attr some_attr() {
  perf_event_attr attr{};
  attr.size = 128;
  attr.type = PERF_TYPE_TRACEPOINT;
  attr.config = 0x1122334455667788;
  attr.sample_period = 1;
  attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW;
  attr.sample_id_all = 1;
  attr.write_backward = 1;
  return attr;
}

Manifest some_manifest() {
  Manifest manifest;
  manifest.generation = 7;
  manifest.recording = UINT64_MAX;
  manifest.version = "1.2.3";
  manifest.boot_id = "94ab6c70-9898";
  manifest.config_digest = "0123456789abcdef";
  manifest.lost_exact = true;
  manifest.header_page = "page\n";
  manifest.header_event = "event\n";
  manifest.tracepoint_formats["sched:sched_switch"] = "name: sched_switch\n\tfield:int x;\n";
  manifest.warnings = {"a warning", "näh: \xff is no UTF-8"};
  manifest.missing = {"a warning"};
  for (int cpu = 0; cpu < 2; ++cpu) {
    manifest.rings.push_back({RingKind::sideband, "", cpu, 512U << 10U, 1, true});
    manifest.rings.push_back({RingKind::channel, "sched", cpu, 4U << 20U, UINT64_MAX, cpu == 0});
  }
  manifest.rings[3].owner_id = 17;
  manifest.rings[3].owner_died = true;
  manifest.rings[1].live_ids = {18, UINT64_MAX};
  manifest.events.push_back({"", "dummy", some_attr(), "", {{UINT64_MAX, 0, 0}, {2, 1, 2}}, false});
  manifest.events.push_back(
      {"sched", "sched:sched_switch", some_attr(), "prev_prio < 100", {{3, 0, 1}, {4, 1, 3}}, true});
  manifest.events[1].left_out = {0, 7};
  return manifest;
}

TEST(Manifest, ComesBackAsItWas) {
  const Manifest in = some_manifest();
  auto parsed = parse_manifest(encode(in));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->generation, 7U);
  EXPECT_EQ(parsed->recording, UINT64_MAX);
  EXPECT_EQ(parsed->version, "1.2.3");
  EXPECT_EQ(parsed->boot_id, in.boot_id);
  EXPECT_EQ(parsed->config_digest, in.config_digest);
  EXPECT_EQ(parsed->header_page, in.header_page);
  EXPECT_EQ(parsed->header_event, in.header_event);
  EXPECT_EQ(parsed->tracepoint_formats, in.tracepoint_formats);
  EXPECT_TRUE(parsed->lost_exact);
  ASSERT_EQ(parsed->warnings.size(), 2U);
  EXPECT_THAT(parsed->warnings[1], HasSubstr("näh"));
  ASSERT_EQ(parsed->rings.size(), 4U);
  EXPECT_EQ(parsed->rings[3].channel, "sched");
  EXPECT_EQ(parsed->rings[3].cpu, 1);
  EXPECT_EQ(parsed->rings[3].ring_bytes, 4U << 20U);
  EXPECT_EQ(parsed->rings[3].enabled_ns, UINT64_MAX);
  EXPECT_FALSE(parsed->rings[3].online);
  EXPECT_EQ(parsed->rings[3].owner_id, 17U);
  EXPECT_TRUE(parsed->rings[3].owner_died);
  EXPECT_EQ(parsed->rings[1].live_ids, (std::vector<std::uint64_t>{18, UINT64_MAX}));
  EXPECT_EQ(parsed->rings[0].kind, RingKind::sideband);
  ASSERT_EQ(parsed->events.size(), 2U);
  EXPECT_EQ(parsed->events[0].ids[0].id, UINT64_MAX);
  EXPECT_EQ(parsed->events[1].filter, "prev_prio < 100");
  EXPECT_EQ(parsed->events[1].left_out, (std::vector<int>{0, 7}));
  EXPECT_TRUE(parsed->events[0].left_out.empty());
  EXPECT_TRUE(parsed->events[1].closed);
  EXPECT_EQ(parsed->events[1].ids[1].ring, 3U);
  EXPECT_EQ(std::memcmp(&parsed->events[1].attr, &in.events[1].attr, sizeof(perf_event_attr)), 0);
}

// As it was opened on one CPU. A broker that knows nothing of it ignores it, and writes none.
TEST(Manifest, HasWhatIsBelowThePlan) {
  Manifest in = some_manifest();
  EXPECT_EQ(encode(in).find("\"frequency\":1000"), std::string::npos);
  ManifestEvent& event = in.events[1];
  event.closed = false;
  event.attr.freq = 1;
  event.attr.sample_freq = 4000;
  event.attr.sample_max_stack = 127;
  event.ids[0].below = {.frequency = 0, .max_stack = 16};
  event.ids[1].below = {.frequency = 1000, .max_stack = 0};
  const auto parsed = parse_manifest(encode(in));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->events[1].ids[0].below.frequency, 0U);
  EXPECT_EQ(parsed->events[1].ids[0].below.max_stack, 16);
  EXPECT_EQ(parsed->events[1].ids[1].below.frequency, 1000U);
  EXPECT_EQ(parsed->events[1].ids[1].below.max_stack, 0);
  EXPECT_EQ(parsed->events[1].attr.sample_freq, 4000U);
  EXPECT_EQ(lowest_attr(in, event).sample_freq, 4000U) << "no longer open";
  in.rings[1].live_ids = {3};
  EXPECT_EQ(lowest_attr(in, event).sample_freq, 4000U);
  EXPECT_EQ(lowest_attr(in, event).sample_max_stack, 16);
  in.rings[3].live_ids = {4};
  EXPECT_EQ(lowest_attr(in, event).sample_freq, 1000U);
  in.rings[1].live_ids.clear(), in.rings[3].live_ids.clear();
  event.closed = true;
  EXPECT_EQ(lowest_attr(in, event).sample_freq, 1000U) << "when it recorded";
}

// A channel that is not listed records all CPUs, as do all of a broker that knows nothing of it.
TEST(Manifest, HasTheCpusOfChannels) {
  Manifest in = some_manifest();
  EXPECT_TRUE(recorded_cpus(in, "sched").empty());
  EXPECT_TRUE(any_channel_records(in, 7));
  in.channels = {{.name = "sched", .cpus = {0, 2, 100}, .recorded = {0, 2}}};
  const auto parsed = parse_manifest(encode(in));
  ASSERT_TRUE(parsed) << parsed.error().what;
  ASSERT_EQ(parsed->channels.size(), 1U);
  EXPECT_EQ(parsed->channels[0].name, "sched");
  EXPECT_EQ(parsed->channels[0].cpus, (std::vector<int>{0, 2, 100}));
  EXPECT_EQ(parsed->channels[0].recorded, (std::vector<int>{0, 2}));
  EXPECT_EQ(recorded_cpus(*parsed, "sched").size(), 2U);
  EXPECT_TRUE(recorded_cpus(*parsed, "other").empty());
  EXPECT_TRUE(any_channel_records(*parsed, 2));
  EXPECT_FALSE(any_channel_records(*parsed, 1));
  in.channels[0].recorded.clear();
  EXPECT_TRUE(any_channel_records(in, 1)) << "these are all that the machine has";
  in.events.push_back(in.events[1]);
  in.events.back().channel = "other";
  in.channels[0].recorded = {0, 2};
  EXPECT_TRUE(any_channel_records(in, 1)) << "the other channel does";
  std::string text = encode(some_manifest());
  constexpr std::string_view kChannels = "\"channels\":[],";
  const std::size_t at = text.find(kChannels);
  ASSERT_NE(at, std::string::npos);
  text.erase(at, kChannels.size());
  EXPECT_TRUE(parse_manifest(text)) << "of an older broker";
}

// Each must be refused, and the message must name the error.
void expect_refused(const Manifest& manifest, const char* word) {
  auto parsed = parse_manifest(encode(manifest));
  ASSERT_FALSE(parsed) << word;
  EXPECT_EQ(parsed.error().errno_value(), EBADMSG) << word;
  EXPECT_THAT(parsed.error().what, HasSubstr(word));
}

TEST(Manifest, RefusesRingsThatCannotBe) {
  for (const std::uint64_t bytes : {0UL, 1UL, 2048UL, 3UL << 20U, 2UL << 30U, UINT64_MAX}) {
    Manifest manifest = some_manifest();
    manifest.rings[1].ring_bytes = bytes;
    expect_refused(manifest, "ring_bytes");
  }
  Manifest manifest = some_manifest();
  manifest.rings[1].channel = "";
  expect_refused(manifest, "channel");
  manifest = some_manifest();
  manifest.rings[1].cpu = -1;
  expect_refused(manifest, "cpu");
  manifest = some_manifest();
  manifest.rings[1].cpu = 65536;
  expect_refused(manifest, "cpu");
  manifest = some_manifest();
  manifest.rings[1].live_ids.resize(65537);
  expect_refused(manifest, "live_ids");
}

TEST(Manifest, RefusesIdsThatPointElsewhere) {
  Manifest manifest = some_manifest();
  manifest.events[1].ids[0].ring = 4;
  expect_refused(manifest, "ring 4 of 4");
  manifest = some_manifest();
  manifest.events[1].ids[0].ring = 3;  // a ring of another CPU
  expect_refused(manifest, "ring 3");
  manifest = some_manifest();
  manifest.events[1].ids[0].ring = 0;  // the sideband's ring
  expect_refused(manifest, "ring 0");
  manifest = some_manifest();
  manifest.events[1].ids[0].id = 4;
  expect_refused(manifest, "twice");
}

TEST(Manifest, RefusesEventsThatCannotBe) {
  Manifest manifest = some_manifest();
  manifest.events.clear();
  expect_refused(manifest, "no event");
  manifest = some_manifest();
  std::swap(manifest.events[0], manifest.events[1]);
  expect_refused(manifest, "sideband");
  manifest = some_manifest();
  manifest.events[1].attr.sample_type &= ~static_cast<std::uint64_t>(PERF_SAMPLE_TIME);
  expect_refused(manifest, "no time");
  manifest = some_manifest();
  manifest.events[1].attr.sample_id_all = 0;
  expect_refused(manifest, "no id");
  manifest = some_manifest();
  manifest.protocol = kBrokerProtocol + 1;
  expect_refused(manifest, fmt::format("protocol {}", kBrokerProtocol + 1).c_str());
  expect_refused(manifest, "systemctl kill flightd-broker");
}

TEST(Manifest, CarriesTriggersBesideTheChannels) {
  Manifest manifest = some_manifest();
  manifest.rings.push_back({RingKind::trigger, "oom", 0, 16U << 10U, 5, true});
  manifest.triggers.push_back({"oom", "oom:mark_victim", "pid > 1", "name: mark_victim\n", ""});
  manifest.triggers.push_back({"hung", "sched:sched_process_hang", "", "", "there is no such tracepoint"});
  const auto parsed = parse_manifest(encode(manifest));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->rings[4].kind, RingKind::trigger);
  EXPECT_EQ(parsed->rings[4].channel, "oom");
  ASSERT_EQ(parsed->triggers.size(), 2U);
  EXPECT_EQ(parsed->triggers[0].event, "oom:mark_victim");
  EXPECT_EQ(parsed->triggers[0].filter, "pid > 1");
  EXPECT_EQ(parsed->triggers[0].format, "name: mark_victim\n");
  EXPECT_EQ(parsed->triggers[1].off, "there is no such tracepoint");
  // Even if the trigger has the name of a channel: no event of a channel writes into its ring.
  manifest.rings[4] = {RingKind::trigger, "sched", 1, 16U << 10U, 5, true};
  manifest.events[1].ids[1].ring = 4;
  expect_refused(manifest, "ring 4");
  manifest = some_manifest();
  manifest.rings.push_back({RingKind::trigger, "", 0, 16U << 10U, 5, true});
  expect_refused(manifest, "channel");
  manifest = some_manifest();
  manifest.triggers.push_back({"", "oom:mark_victim", "", "", ""});
  expect_refused(manifest, "triggers[0]");
  manifest = some_manifest();
  std::string text = encode(manifest);
  text.replace(text.find("\"kind\":\"channel\""), 16, "\"kind\":\"chanell\"");
  EXPECT_FALSE(parse_manifest(text));
}

TEST(Manifest, RefusesCpusThatCannotBe) {
  const std::vector<std::vector<int>> wrong{{2, 1}, {1, 1}, {-1}, {65536}};
  for (const std::vector<int>& cpus : wrong) {
    Manifest manifest = some_manifest();
    manifest.channels = {{.name = "sched", .cpus = cpus, .recorded = {}}};
    expect_refused(manifest, "channels[0].cpus");
    manifest.channels = {{.name = "sched", .cpus = {}, .recorded = cpus}};
    expect_refused(manifest, "channels[0].recorded");
  }
  Manifest manifest = some_manifest();
  manifest.channels = {{.name = "", .cpus = {1}, .recorded = {}}};
  expect_refused(manifest, "channels[0]");
}

TEST(Manifest, RefusesMoreRingsThanItTakes) {
  Manifest manifest = some_manifest();
  manifest.rings.clear();
  std::string text = encode(manifest);
  std::string zeros = "0";
  for (std::size_t i = 0; i < kMaxRings; ++i) zeros += ",0";
  text.replace(text.find("\"rings\":[]"), 10, "\"rings\":[" + zeros + "]");
  const auto parsed = parse_manifest(text);
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().what, HasSubstr("at most 65536"));
}

TEST(Manifest, RefusesWhatIsNoManifest) {
  for (const char* text : {"", "{", "[]", "null", "7", "\"x\"", "{}", R"({"protocol":"1"})", R"({"protocol":-1})",
                           R"({"protocol":1.5})", "\xff\xfe"})
    EXPECT_FALSE(parse_manifest(text)) << text;
  EXPECT_FALSE(parse_manifest(std::string(100'000, '[')));
}

// Every truncation, and `count` scrambled texts: an error or a manifest, never a crash (checked by the sanitizers).
void expect_to_survive_hostile_bytes(int count) {
  const std::string text = encode(some_manifest());
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes)
    EXPECT_FALSE(parse_manifest(std::string_view(text).substr(0, bytes)));
  std::mt19937 random(1);  // NOLINT: the same run each time
  std::uniform_int_distribution<std::size_t> position(0, text.size() - 1);
  constexpr std::string_view kBytes = "0123456789-.eE\"[]{}:,ntfx \\";
  std::uniform_int_distribution<std::size_t> byte(0, kBytes.size() - 1);
  for (int i = 0; i < count; ++i) {
    std::string changed = text;
    for (int change = 0; change < 3; ++change) changed[position(random)] = kBytes[byte(random)];
    const auto parsed = parse_manifest(changed);
    if (!parsed) continue;
    for (const ManifestEvent& event : parsed->events)
      for (const ManifestId& id : event.ids) ASSERT_LT(id.ring, parsed->rings.size());
  }
}

TEST(Manifest, SurvivesHostileBytes) { expect_to_survive_hostile_bytes(1500); }
TEST(ManifestLong, SurvivesHostileBytes) { expect_to_survive_hostile_bytes(5000); }

TEST(Counts, ComeBackAsTheyWere) {
  Counts in;
  in.time_ns = 123456789012345678;
  in.events = {{1, UINT64_MAX, 0}, {UINT64_MAX, 5, 6}};
  in.broker_pid = 4711;
  in.broker_cpu_seconds = 0.25;
  in.broker_rss_bytes = 6U << 20U;
  in.broker_uptime_seconds = 86400.5;
  in.unseen = {"a", "b: c"};
  in.build_ids_waiting = 4096;
  auto parsed = parse_counts(encode(in));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->time_ns, in.time_ns);
  ASSERT_EQ(parsed->events.size(), 2U);
  EXPECT_EQ(parsed->events[0].value, UINT64_MAX);
  EXPECT_EQ(parsed->events[1].lost, 6U);
  EXPECT_EQ(parsed->broker_pid, 4711);
  EXPECT_DOUBLE_EQ(parsed->broker_cpu_seconds, 0.25);
  EXPECT_EQ(parsed->broker_rss_bytes, 6U << 20U);
  EXPECT_DOUBLE_EQ(parsed->broker_uptime_seconds, 86400.5);
  EXPECT_EQ(parsed->unseen, in.unseen);
  EXPECT_EQ(parsed->build_ids_waiting, 4096U);
}

TEST(Counts, OfABrokerThatIsOlder) {
  std::string text = encode(Counts{.time_ns = 1, .events = {{1, 2, 3}}});
  for (const std::string_view key : {",\"unseen\":[]", ",\"build_ids_waiting\":0"}) {
    const std::size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos);
    text.erase(at, key.size());
  }
  const auto parsed = parse_counts(text);
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->events.size(), 1U);
}

TEST(Counts, RefusesWhatIsNone) {
  EXPECT_FALSE(parse_counts(""));
  EXPECT_FALSE(parse_counts("{}"));
  const std::string text = encode(Counts{.time_ns = 1, .events = {{1, 2, 3}}});
  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) EXPECT_FALSE(parse_counts(text.substr(0, bytes)));
  std::string wrong = text;
  wrong.replace(wrong.find("\"id\":1"), 6, "\"id\":{}");
  EXPECT_FALSE(parse_counts(wrong));
}

}  // namespace
}  // namespace flight
