// SPDX-License-Identifier: Apache-2.0
// Channels that record some CPUs only.
#include "libcore/recorder/channel_cpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libcore/config/memory_share.hpp"
#include "libcore/recorder/limits.hpp"
#include "tests/unit/perf/temp_tree.hpp"
#include "tests/unit/recorder/fake_pmu.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ListedCpus : public testing::Test {
 protected:
  [[nodiscard]] Result<ChannelCpus> of(std::vector<int> cpus) const {
    Config config;
    config.channels = {{.name = "a", .cpus = std::move(cpus)}};
    config.values = {{.path = "channels.a.cpus", .value = "", .file = "/etc/x.json", .line = 7}};
    return channel_cpus(config, config.channels[0], tree_.path());
  }
  test::TempTree tree_;
};

TEST_F(ListedCpus, AreThoseOfTheMachine) {
  tree_.write("devices/system/cpu/possible", "0-3\n");
  EXPECT_THAT(of({})->here, IsEmpty());
  EXPECT_THAT(of({1, 3})->here, ElementsAre(1, 3));
  EXPECT_THAT(of({0, 1, 2, 3})->here, IsEmpty()) << "these are all";
  EXPECT_THAT(of({1, 3})->warning, IsEmpty());
  const auto some = of({3, 4, 5, 9});
  ASSERT_TRUE(some) << some.error().what;
  EXPECT_THAT(some->here, ElementsAre(3));
  EXPECT_THAT(some->warning, AllOf(StartsWith("/etc/x.json:7: channel 'a': "), HasSubstr(" the CPUs 4-5,9 in its cpus"),
                                   EndsWith("only CPU 3 is recorded")));
  EXPECT_THAT(of({0, 1, 2, 3, 4})->here, IsEmpty());
  EXPECT_THAT(of({0, 1, 2, 3, 4})->warning, HasSubstr(" the CPU 4 in its cpus"));
  const auto none = of({4, 9});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().errno_value(), EINVAL);
  EXPECT_THAT(none.error().what, AllOf(StartsWith("/etc/x.json:7: channel 'a': "), HasSubstr("none of the CPUs 4,9"),
                                       HasSubstr("use some of 0-3")));
}

TEST_F(ListedCpus, WithoutSysfsAllAreTakenForCpusOfTheMachine) {
  EXPECT_THAT(of({4, 9})->here, ElementsAre(4, 9));
  tree_.write("devices/system/cpu/possible", "x\n");
  EXPECT_THAT(of({4, 9})->here, ElementsAre(4, 9));
}

TEST_F(ListedCpus, EveryChannelIsChecked) {
  tree_.write("devices/system/cpu/possible", "0-3\n");
  Config config;
  config.channels = {{.name = "a", .cpus = {0, 7}}, {.name = "b"}, {.name = "c", .cpus = {1, 8}}};
  EXPECT_THAT(check_channel_cpus(config, tree_.path()).value(),
              ElementsAre(HasSubstr("channel 'a'"), HasSubstr("channel 'c'")));
  config.channels[2].cpus = {8};
  const auto checked = check_channel_cpus(config, tree_.path());
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().what, HasSubstr("channel 'c'"));
}

TEST(MostRings, AreOfTheCpusThatAreRecorded) {
  EXPECT_EQ(most_rings({}, 4), 4U);
  EXPECT_EQ(most_rings({1, 2}, 4), 2U);
  EXPECT_EQ(most_rings({1, 2, 3}, 2), 2U) << "the others are offline";
  constexpr std::uint64_t kOneMiB = 1U << 20U;
  const std::vector<ChannelConfig> channels{{.name = "a", .ring_bytes = 4 * kOneMiB, .cpus = {1}}};
  const std::uint64_t needed =
      2 * 4 * kOneMiB + 8 * 2 * kOneMiB + kLeastBesideRingsBytes + checkpoint_file_bytes(kLeastBesideRingsBytes);
  EXPECT_THAT(fit_rings(channels, 8, needed, 2 * kOneMiB), ElementsAre(4 * kOneMiB))
      << "one ring, eight of the sideband";
  EXPECT_THAT(fit_rings(channels, 8, needed - 1, 2 * kOneMiB), ElementsAre(2 * kOneMiB));
}

// Real events: one channel of the first CPU, and one of all.
class LimitedChannel : public test::FakePmu {
 protected:
  LimitedChannel() {
    config_.channels = {{.name = "one", .ring_bytes = 64U << 10U, .events = {{.event = "cpu-clock", .frequency = 99}}},
                        {.name = "all", .ring_bytes = 64U << 10U, .events = {{.event = "cpu-clock", .frequency = 49}}}};
  }
  void SetUp() override {
    FakePmu::SetUp();
    if (cpus_.size() < 2) GTEST_SKIP() << "needs two CPUs";
    config_.channels[0].cpus = {cpus_.front()};
  }
  void start() {
    auto opened = open_recording();
    ASSERT_TRUE(opened) << opened.error().what;
    recording_.emplace(std::move(*opened));
  }
  [[nodiscard]] std::vector<int> cpus_of(const std::string& channel, RingKind kind = RingKind::channel) const {
    std::vector<int> out;
    for (const ManifestRing& ring : recording_->manifest().rings)
      if (ring.kind == kind && ring.channel == channel) out.push_back(ring.cpu);
    return out;
  }
  [[nodiscard]] std::vector<std::uint64_t> owners_of(const std::string& channel) const {
    std::vector<std::uint64_t> out;
    for (const ManifestRing& ring : recording_->manifest().rings)
      if (ring.kind == RingKind::channel && ring.channel == channel) out.push_back(ring.owner_id);
    return out;
  }
  [[nodiscard]] std::vector<int> others() const { return {cpus_.begin(), cpus_.end() - 1}; }
};

TEST_F(LimitedChannel, HasRingsOfItsCpusOnly) {
  start();
  EXPECT_THAT(cpus_of("one"), ElementsAre(cpus_.front()));
  EXPECT_EQ(cpus_of("all"), cpus_);
  EXPECT_EQ(cpus_of("", RingKind::sideband), cpus_) << "names must be right wherever a process begins";
  const Manifest& manifest = recording_->manifest();
  EXPECT_EQ(manifest.events.at(1).ids.size(), 1U);
  ASSERT_EQ(manifest.channels.size(), 1U);
  EXPECT_EQ(manifest.channels[0].name, "one");
  EXPECT_THAT(manifest.channels[0].cpus, ElementsAre(cpus_.front()));
  EXPECT_THAT(manifest.channels[0].recorded, ElementsAre(cpus_.front()));
  EXPECT_TRUE(any_channel_records(manifest, cpus_.back())) << "the other channel does";
  EXPECT_THAT(manifest.warnings, IsEmpty());
  EXPECT_TRUE(parse_manifest(encode(manifest)));
  sample_on(cpus_.front(), "one");
  sample_on(cpus_.back(), "all");
}

TEST_F(LimitedChannel, NeedsDescriptorsForItsRingsOnly) {
  const auto needed = [&] {
    const auto plan = plan_recording(config_, sources_, features_, cpus_.size(), cpus_);
    EXPECT_TRUE(plan) << plan.error().what;
    return plan ? fds_needed(*plan, cpus_.size()) : 0;
  };
  const std::size_t some = needed();
  config_.channels[0].cpus.clear();
  EXPECT_EQ(needed(), some + 2 * (cpus_.size() - 1)) << "an owner and an event of each CPU";
}

TEST_F(LimitedChannel, ACpuThatIsNotListedNeverGetsARing) {
  start();
  ASSERT_TRUE(recording_->follow_cpus(others(), Probe::none, 1));
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_THAT(cpus_of("one"), ElementsAre(cpus_.front()));
  // A CPU of which a channel has no ring yet: as in ACpuThatIsNewGetsRings.
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  config_.channels.push_back(config_.channels[0]);
  config_.channels.back().name = "late";
  config_.channels.back().cpus = {cpus_.back()};
  ASSERT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_THAT(cpus_of("late"), IsEmpty()) << "its CPU is offline";
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_THAT(cpus_of("late"), ElementsAre(cpus_.back()));
  EXPECT_THAT(cpus_of("one"), ElementsAre(cpus_.front()));
  sample_on(cpus_.back(), "late");
}

TEST_F(LimitedChannel, AListedCpuIsFollowedInItsRing) {
  config_.channels[0].cpus = {cpus_.back()};
  start();
  const auto owners = owners_of("one");
  sample_on(cpus_.back(), "one");
  ASSERT_TRUE(recording_->follow_cpus(others(), Probe::none, 1));
  EXPECT_THAT(recording_->manifest().notes, Contains(HasSubstr(fmt::format("CPU {} went offline", cpus_.back()))));
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_EQ(owners_of("one"), owners);
  sample_on(cpus_.back(), "one");
}

TEST_F(LimitedChannel, ACpuThatNoChannelRecordsIsNotMissed) {
  config_.channels.resize(1);
  start();
  EXPECT_TRUE(any_channel_records(recording_->manifest(), cpus_.front()));
  EXPECT_FALSE(any_channel_records(recording_->manifest(), cpus_.back()));
  ASSERT_TRUE(recording_->follow_cpus(others(), Probe::none, 1));
  EXPECT_THAT(recording_->manifest().notes, Not(Contains(HasSubstr("went offline"))));
  EXPECT_EQ(recording_->manifest().gaps.size(), 1U) << "what it ran is scanned when it is back";
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
}

TEST_F(LimitedChannel, AChangeOfItsCpusMakesItsRingsAnew) {
  start();
  const auto one = owners_of("one"), all = owners_of("all");
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  config_.channels[0].cpus.clear();
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(cpus_of("one"), cpus_);
  EXPECT_THAT(owners_of("one"), Not(Contains(one.front())));
  EXPECT_EQ(owners_of("all"), all) << "its history stays";
  EXPECT_THAT(recording_->manifest().channels, IsEmpty());
  config_.channels[0].cpus = {cpus_.back()};
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_THAT(cpus_of("one"), ElementsAre(cpus_.back()));
  config_.channels[0].cpus = {8191};
  const Manifest before = recording_->manifest();
  const auto refused = recording_->reload(config_, sources_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, AllOf(HasSubstr("channel 'one'"), HasSubstr("none of the CPUs 8191")));
  EXPECT_EQ(recording_->manifest().generation, before.generation);
  config_.channels[0].cpus = {cpus_.back(), 8191};
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("does not have the CPU 8191")));
  EXPECT_THAT(recording_->manifest().channels.at(0).cpus, ElementsAre(cpus_.back(), 8191)) << "as configured";
  EXPECT_THAT(recording_->manifest().channels.at(0).recorded, ElementsAre(cpus_.back()));
  EXPECT_THAT(Recording::check(config_, sources_).value().warnings, Contains(HasSubstr("does not have the CPU 8191")));
}

TEST_F(LimitedChannel, TheNextBrokerAdoptsItsRings) {
  start();
  const auto one = owners_of("one"), all = owners_of("all");
  auto adopted = adopt();
  ASSERT_TRUE(adopted) << adopted.error().what;
  recording_.emplace(std::move(*adopted));
  EXPECT_EQ(owners_of("one"), one);
  EXPECT_EQ(owners_of("all"), all);
  config_.channels[0].cpus = cpus_;
  auto again = adopt();
  ASSERT_TRUE(again) << again.error().what;
  recording_.emplace(std::move(*again));
  EXPECT_EQ(cpus_of("one"), cpus_);
  EXPECT_THAT(owners_of("one"), Not(Contains(one.front()))) << "its CPUs are others";
  EXPECT_EQ(owners_of("all"), all);
}

// A busy CPU owes the channel nothing if it is not listed; a listed one does.
TEST_F(LimitedChannel, OnlyItsCpusAreJudged) {
  config_.channels.resize(1);
  config_.channels[0].events = {{.event = "cycles", .frequency = 99}};
  open(test::Pmu::silent);
  ASSERT_TRUE(recording_);
  std::uint64_t front = 0, back = 0;
  const auto look = [&] {
    return recording_->watch_delivery({{.cpu = cpus_.front(), .user_ns = front * test::kSecond, .system_ns = 0},
                                       {.cpu = cpus_.back(), .user_ns = back * test::kSecond, .system_ns = 0}},
                                      monotonic_now() + 3 * test::kSecond);
  };
  for (int i = 0; i < 4; ++i, back += 100) EXPECT_FALSE(look());
  EXPECT_EQ(event().name, "cycles");
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  front += 100;
  EXPECT_TRUE(look());
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr(fmt::format("CPU {} was busy", cpus_.front()))));
}

// Only its own CPUs are asked, and the reason does not speak of the others.
TEST_F(LimitedChannel, AnotherCpusCounterIsNoReasonForCpuClock) {
  config_.channels.resize(1);
  config_.channels[0].events = {{.event = "cycles", .frequency = 99}};
  test::refusing_cpu = cpus_.back();
  open(test::Pmu::working);
  ASSERT_TRUE(recording_);
  EXPECT_EQ(event().name, "cycles");
  recording_.reset();
  config_.channels[0].cpus = {cpus_.back()};
  open(test::Pmu::working);
  ASSERT_TRUE(recording_);
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_THAT(event().why, HasSubstr(fmt::format(" on CPU {}", cpus_.back())));
}

}  // namespace
}  // namespace flight
