// SPDX-License-Identifier: Apache-2.0
// Events that open and deliver nothing.
#include "libcore/recorder/delivery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <array>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "tests/unit/recorder/fake_pmu.hpp"

namespace flight {
namespace {

using test::kSecond, test::Pmu, test::pmu_kind, test::working_cpu, test::refusing_cpu, test::limited_cpu;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

perf_event_attr sampled(std::uint64_t frequency) {
  perf_event_attr attr{};
  attr.freq = 1;
  attr.sample_freq = frequency;
  return attr;
}

// After so many seconds, all of them busy in user mode.
EventDelivery::Look after(std::uint64_t seconds, bool sample = false) {
  return {.enabled_ns = seconds * kSecond,
          .running_ns = seconds * kSecond,
          .busy = {.cpu = 0, .user_ns = seconds * kSecond, .system_ns = 0},
          .sampled = sample};
}

// proc_stat(5): a guest's time is a part of user and nice.
TEST(CpuBusyTest, IsTheTimeInProcessesWithoutThatOfGuests) {
  constexpr std::uint64_t kTick = kSecond / kTicksPerSecond;
  CpuTicks ticks{.cpu = 3, .ticks = {500, 40, 30, 1000, 7, 6, 5, 9}, .guest = 120, .guest_nice = 20};
  EXPECT_EQ(busy_of(ticks).cpu, 3);
  EXPECT_EQ(busy_of(ticks).user_ns, 400 * kTick);
  EXPECT_EQ(busy_of(ticks).system_ns, 30 * kTick);
  ticks.guest = 1000;
  EXPECT_EQ(busy_of(ticks).user_ns, 0U) << "the columns are not read at one moment";
}

TEST(EventDeliveryTest, IsSilentWhenAHundredSamplesAreMissing) {
  EventDelivery delivery;
  const auto attr = sampled(10);
  delivery.look(attr, after(100));
  EXPECT_FALSE(delivery.silent()) << "the first look has nothing to compare with";
  delivery.look(attr, after(109));
  EXPECT_FALSE(delivery.silent()) << "90";
  delivery.look(attr, after(110));
  EXPECT_TRUE(delivery.silent()) << "100";
  EXPECT_FALSE(delivery.ever_delivered());
  delivery.look(attr, after(111, true));
  EXPECT_FALSE(delivery.silent());
  EXPECT_TRUE(delivery.delivers());
  delivery.look(attr, after(121));
  EXPECT_TRUE(delivery.silent()) << "it can begin later";
  EXPECT_FALSE(delivery.delivers());
  EXPECT_TRUE(delivery.ever_delivered());
}

TEST(EventDeliveryTest, ExpectsNothingOfWhatTheEventLeavesOut) {
  auto user_only = sampled(100);
  user_only.exclude_kernel = 1;
  EventDelivery delivery;
  auto look = after(1);
  delivery.look(user_only, look);
  look.busy.system_ns += 100 * kSecond;
  look.enabled_ns += 100 * kSecond, look.running_ns += 100 * kSecond;
  delivery.look(user_only, look);
  EXPECT_FALSE(delivery.silent());
  look.busy.user_ns += kSecond;
  delivery.look(user_only, look);
  EXPECT_FALSE(delivery.silent()) << "no time went by in which it was enabled";
  look.busy.user_ns += kSecond;
  look.enabled_ns += kSecond, look.running_ns += kSecond;
  delivery.look(user_only, look);
  EXPECT_TRUE(delivery.silent());
}

TEST(EventDeliveryTest, CountsOnlyTheTimeInWhichItHadACounter) {
  EventDelivery delivery;
  auto look = after(1);
  delivery.look(sampled(100), look);
  look = after(5);
  look.running_ns = kSecond + kSecond / 2;  // an eighth: it shares the counters
  delivery.look(sampled(100), look);
  EXPECT_FALSE(delivery.silent()) << "50";
  look = after(9);
  look.running_ns = 2 * kSecond;
  delivery.look(sampled(100), look);
  EXPECT_TRUE(delivery.silent());
}

TEST(EventDeliveryTest, AnInterruptionCountsNothing) {
  EventDelivery delivery;
  delivery.look(sampled(100), after(1));
  delivery.interrupt();
  delivery.look(sampled(100), after(1000));
  EXPECT_FALSE(delivery.silent());
  // A CPU that returns: its counters begin again.
  delivery.look(sampled(100), after(2));
  EXPECT_FALSE(delivery.silent());
}

class SampleRing {
 public:
  // The newest record comes last.
  void add(std::uint32_t type, std::uint64_t id, std::uint16_t size = 24) {
    head -= size;
    const perf_event_header header{.type = type, .misc = 0, .size = size};
    put(head, &header, sizeof header);
    put(head + sizeof header, &id, sizeof id);
  }
  void put(std::uint64_t at, const void* from, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) data[(at + i) & (data.size() - 1)] = static_cast<const std::byte*>(from)[i];
  }
  [[nodiscard]] Found find(std::uint64_t id, std::uint64_t old_head = 0) const {
    return find_sample(data, head, old_head, id);
  }
  std::array<std::byte, 256> data{};
  std::uint64_t head = 0;
};

TEST(FindSampleTest, FindsASampleOfTheEventSinceTheLastLook) {
  SampleRing ring;
  EXPECT_EQ(ring.find(7), Found::none) << "nothing was written";
  ring.add(PERF_RECORD_SAMPLE, 7);
  const std::uint64_t looked = ring.head;
  EXPECT_EQ(ring.find(7), Found::sample);
  EXPECT_EQ(ring.find(8), Found::none);
  EXPECT_EQ(ring.find(7, looked), Found::none) << "seen before";
  ring.add(PERF_RECORD_SAMPLE, 8);
  ring.add(PERF_RECORD_LOST, 7);
  ring.add(PERF_RECORD_THROTTLE, 7);
  EXPECT_EQ(ring.find(7, looked), Found::none) << "only a sample proves that there are any";
  EXPECT_EQ(ring.find(8, looked), Found::sample);
  EXPECT_EQ(ring.find(7), Found::sample);
}

TEST(FindSampleTest, WhatWasOverwrittenIsNotKnown) {
  SampleRing ring;
  for (int i = 0; i < 100; ++i) ring.add(PERF_RECORD_SAMPLE, 5, 40);
  EXPECT_EQ(ring.find(5), Found::sample);
  EXPECT_EQ(ring.find(6), Found::unknown) << "one may have been overwritten since the last look";
  EXPECT_EQ(ring.find(6, ring.head + 240), Found::none) << "the ring has all since the last look";
  for (const std::uint16_t size : std::array<std::uint16_t, 4>{0, 1, 7, 12}) {
    SampleRing bad;
    bad.add(PERF_RECORD_SAMPLE, 5);
    bad.add(PERF_RECORD_LOST, 0, 16);
    const perf_event_header header{.type = PERF_RECORD_LOST, .misc = 0, .size = size};
    bad.put(bad.head, &header, sizeof header);
    EXPECT_EQ(bad.find(5), Found::unknown) << size;
  }
}

class SilentPmu : public test::FakePmu {
 protected:
  // Ten seconds later by /proc/stat; the event's own times are real, but for how long ago it was enabled.
  bool look_at_busy(const std::set<int>& busy, EventTime since_ns = 3 * kSecond) {
    std::vector<CpuBusy> all;
    for (const int cpu : cpus_) {
      if (busy.contains(cpu)) ticks_[cpu] += 10 * kSecond;
      all.push_back({.cpu = cpu, .user_ns = ticks_[cpu], .system_ns = 0});
    }
    return recording_->watch_delivery(all, monotonic_now() + since_ns);
  }
  [[nodiscard]] std::set<int> every_cpu() const { return {cpus_.begin(), cpus_.end()}; }

  std::map<int, std::uint64_t> ticks_;
};

TEST_F(SilentPmu, CpuClockTakesItsPlaceInTheSameRings) {
  open(Pmu::silent);
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  const Manifest before = recording_->manifest();
  EXPECT_EQ(event().name, "cycles");
  EXPECT_FALSE(look_at_busy({}));
  EXPECT_FALSE(look_at_busy({})) << "idle CPUs have no samples";
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  EXPECT_TRUE(look_at_busy({cpus_.front()})) << "the others are idle, which proves nothing";
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_EQ(event().configured, "cycles");
  EXPECT_EQ(event().attr.sample_freq, 99U);
  EXPECT_GT(recording_->manifest().generation, before.generation);
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("delivered no sample while CPU 0 was busy")));
  EXPECT_EQ(recording_->manifest().events.size(), 2U) << "what wrote nothing need not be known";
  for (std::size_t i = 0; i < before.rings.size(); ++i)
    EXPECT_EQ(recording_->manifest().rings[i].owner_id, before.rings[i].owner_id);
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  for (const int cpu : cpus_) sample_on(cpu);
  EXPECT_FALSE(look_at_busy(every_cpu()));
  EXPECT_EQ(recording_->delivery(), Delivery::on);
  const auto parsed = parse_manifest(encode(recording_->manifest()));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->events[1].why, event().why);
}

// Whatever /proc/stat says of its time.
TEST_F(SilentPmu, ACpuThatIsOfflineIsNotJudged) {
  if (cpus_.size() < 2) return;  // there are no others
  open(Pmu::silent);
  look_at_busy({});
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(look_at_busy({cpus_.back()}));
  EXPECT_EQ(event().name, "cycles") << "no sample is expected of it";
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
}

class RefusingPmu : public SilentPmu {};

TEST_F(RefusingPmu, OnOneCpuMakesItCpuClockOnAll) {
  if (cpus_.size() < 2) return;
  refusing_cpu = cpus_.back();
  open(Pmu::working);
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_EQ(event().configured, "cycles");
  EXPECT_EQ(event().ids.size(), cpus_.size());
  const auto refused = HasSubstr(fmt::format("cannot be used on CPU {} (Device or resource busy)", cpus_.back()));
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(refused));
  const std::uint64_t owner = recording_->manifest().rings.back().owner_id;
  EXPECT_FALSE(recording_->reload(config_, sources_).value()) << "it is still held";
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(refused));
  refusing_cpu = -1;
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(event().name, "cycles");
  EXPECT_EQ(recording_->manifest().rings.back().owner_id, owner) << "the history goes on";
}

TEST_F(RefusingPmu, ACpuThatReturnsIsRecorded) {
  if (cpus_.size() < 2) return;
  open(Pmu::working);
  for (const int cpu : cpus_) sample_on(cpu);
  const Manifest before = recording_->manifest();
  EXPECT_EQ(event().name, "cycles");
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  refusing_cpu = cpus_.back();
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_THAT(recording_->manifest().warnings,
              ElementsAre(HasSubstr(fmt::format("cannot be used on CPU {}", cpus_.back()))));
  for (const ManifestRing& ring : recording_->manifest().rings) EXPECT_TRUE(ring.online) << ring.cpu;
  for (std::size_t i = 0; i < before.rings.size(); ++i)
    EXPECT_EQ(recording_->manifest().rings[i].owner_id, before.rings[i].owner_id);
  ASSERT_EQ(recording_->manifest().events.size(), 3U) << "the rings still have samples of cycles";
  EXPECT_EQ(event(2).name, "cycles");
  EXPECT_EQ(event(2).ids.size(), cpus_.size());
  for (const int cpu : cpus_) sample_on(cpu);
  EXPECT_FALSE(recording_->follow_cpus(cpus_, Probe::none, 1));
}

// Whatever its name.
TEST_F(RefusingPmu, OfACounterByNumberAsWell) {
  config_.channels[0].events = {{.event = "r01c2", .frequency = 49}};
  open(Pmu::refused);
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_EQ(event().attr.sample_freq, 49U);
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("counter for r01c2 cannot be used (Device")));
}

TEST_F(SilentPmu, AReloadTriesTheConfiguredEventAgain) {
  open(Pmu::silent);
  look_at_busy(every_cpu());
  ASSERT_TRUE(look_at_busy(every_cpu()));
  for (const int cpu : cpus_) sample_on(cpu);
  look_at_busy({});
  const std::vector<ManifestId> clocks = event().ids;
  const Manifest before = recording_->manifest();
  pmu_kind = Pmu::working;
  const auto reloaded = recording_->reload(config_, sources_);
  ASSERT_TRUE(reloaded) << reloaded.error().what;
  EXPECT_TRUE(*reloaded);
  EXPECT_EQ(event().name, "cycles");
  EXPECT_EQ(event().why, "");
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  for (std::size_t i = 0; i < before.rings.size(); ++i)
    EXPECT_EQ(recording_->manifest().rings[i].owner_id, before.rings[i].owner_id) << "the history goes on";
  // What cpu-clock wrote is still in the rings.
  ASSERT_EQ(recording_->manifest().events.size(), 3U);
  EXPECT_EQ(event(2).name, "cpu-clock");
  EXPECT_TRUE(event(2).closed);
  ASSERT_EQ(event(2).ids.size(), clocks.size());
  for (std::size_t i = 0; i < clocks.size(); ++i) {
    EXPECT_EQ(event(2).ids[i].id, clocks[i].id);
    EXPECT_EQ(event(2).ids[i].ring, clocks[i].ring);
  }
  for (const int cpu : cpus_) sample_on(cpu);
  look_at_busy({});
  EXPECT_EQ(recording_->delivery(), Delivery::on);
  EXPECT_FALSE(recording_->reload(config_, sources_).value()) << "nothing is replaced";
}

TEST_F(SilentPmu, OnSomeCpusIsAWarning) {
  if (cpus_.size() < 2) return;  // there are no others
  working_cpu = cpus_[1];
  open(Pmu::silent);
  sample_on(cpus_[1]);
  look_at_busy({});
  EXPECT_TRUE(look_at_busy({cpus_[0]}));
  EXPECT_EQ(event().name, "cycles");
  EXPECT_EQ(recording_->delivery(), Delivery::on);
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("delivers no samples on CPU 0, although")));
  EXPECT_EQ(recording_->manifest().missing, recording_->manifest().warnings) << "for each snapshot as well";
  EXPECT_FALSE(look_at_busy({cpus_[0]})) << "said once";
}

TEST_F(SilentPmu, ItIsSilentWhereCpuClockIsRecordedAnyway) {
  config_.channels[0].events = {{.event = "cycles", .frequency = 99}, {.event = "cpu-clock", .frequency = 99}};
  open(Pmu::silent);
  look_at_busy({});
  for (const int cpu : cpus_) sample_on(cpu);
  EXPECT_TRUE(look_at_busy(every_cpu()));
  EXPECT_EQ(event().name, "cycles");
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("cycles delivers no samples on CPU")));
  EXPECT_EQ(recording_->delivery(), Delivery::on);
}

TEST_F(SilentPmu, PausedTimeIsNotJudged) {
  open(Pmu::silent);
  look_at_busy({});
  ASSERT_TRUE(recording_->enable_all(false));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(look_at_busy(every_cpu()));
  ASSERT_TRUE(recording_->enable_all(true));
  EXPECT_FALSE(look_at_busy(every_cpu())) << "the pause is in this difference";
  EXPECT_EQ(event().name, "cycles");
  EXPECT_TRUE(look_at_busy(every_cpu()));
}

// In a container whose /proc/stat is a server's.
TEST_F(SilentPmu, WithoutTheTimesOfCpusASampleProvesThatItDelivers) {
  open(Pmu::working);
  for (const int cpu : cpus_) sample_on(cpu);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(recording_->watch_delivery({}, monotonic_now() + 3 * kSecond));
  EXPECT_EQ(recording_->delivery(), Delivery::on);
}

TEST_F(SilentPmu, WithoutTheTimesOfCpusNothingIsSilent) {
  open(Pmu::silent);
  for (const int cpu : cpus_) ticks_[cpu] = 1000 * kSecond;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(recording_->watch_delivery({}, monotonic_now() + 3 * kSecond));
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  EXPECT_FALSE(look_at_busy(every_cpu())) << "this is all of their time since the boot";
  EXPECT_EQ(event().name, "cycles");
  EXPECT_TRUE(look_at_busy(every_cpu()));
}

TEST_F(SilentPmu, TheFirstTwoSecondsAreNotJudged) {
  open(Pmu::silent);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(look_at_busy(every_cpu(), 0));
  EXPECT_FALSE(look_at_busy(every_cpu())) << "the first look that counts has nothing to compare with";
  EXPECT_TRUE(look_at_busy(every_cpu()));
}

TEST_F(SilentPmu, AnEventThatNeedNotOccurIsNotJudged) {
  config_.channels[0].events = {{.event = "page-faults", .frequency = 99}, {.event = "cache-misses", .frequency = 99}};
  open(Pmu::silent);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(look_at_busy(every_cpu()));
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  EXPECT_NE(recording_->delivery(), Delivery::silent);
}

// Their counters count, and their samples need not come: only a sample proves that they are recorded.
TEST_F(SilentPmu, WhatCannotBeJudgedIsUnprovenUntilItsFirstSample) {
  const std::vector<EventConfig> kinds{{.event = "cache-misses", .frequency = 99},
                                       {.event = "r01c2", .frequency = 99},
                                       {.event = "r01c2", .period = 1'000'000},
                                       {.event = "cycles", .period = 1'000'000}};
  for (const EventConfig& kind : kinds) {
    SCOPED_TRACE(fmt::format("{}, period {}", kind.event, kind.period));
    config_.channels[0].events = {kind};
    open(Pmu::silent);
    EXPECT_EQ(recording_->delivery(), Delivery::unproven);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(look_at_busy(every_cpu()));
    EXPECT_EQ(recording_->delivery(), Delivery::unproven);
    EXPECT_THAT(recording_->counts().unseen, ElementsAre("stacks"));
    EXPECT_THAT(recording_->manifest().warnings, IsEmpty()) << "nothing had to come";
    open(Pmu::working);
    sample_on(cpus_.back());
    EXPECT_FALSE(look_at_busy({}));
    EXPECT_EQ(recording_->delivery(), Delivery::on);
    EXPECT_THAT(recording_->counts().unseen, IsEmpty());
    EXPECT_FALSE(look_at_busy(every_cpu()));
    EXPECT_EQ(recording_->delivery(), Delivery::on) << "nor need it come again";
  }
}

TEST_F(SilentPmu, TracepointsAloneAreUnprovenUntilOneFires) {
  config_.channels[0].events = {{.event = "oom:mark_victim"}};
  open(Pmu::working);
  look_at_busy(every_cpu());
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  EXPECT_THAT(recording_->counts().unseen, IsEmpty()) << "it is rare, which is no news";
  config_.channels[0].events = {{.event = "oom:mark_victim"}, {.event = "sched:sched_switch"}};
  open(Pmu::working);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  look_at_busy({});
  EXPECT_EQ(recording_->delivery(), Delivery::on);
}

// As in the profile "sched": the event that must fire on a busy CPU decides.
TEST_F(SilentPmu, ATracepointProvesNothingAboutAnotherChannel) {
  config_.channels.push_back({.name = "sched", .ring_bytes = 64U << 10U, .events = {{.event = "sched:sched_switch"}}});
  open(Pmu::silent);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  look_at_busy({});
  EXPECT_EQ(recording_->delivery(), Delivery::unproven);
  config_.channels.erase(config_.channels.begin());
  open(Pmu::silent);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  look_at_busy({});
  EXPECT_EQ(recording_->delivery(), Delivery::on);
}

TEST_F(SilentPmu, AChannelThatNothingProvesIsNamed) {
  config_.channels.push_back(
      {.name = "misses", .ring_bytes = 64U << 10U, .events = {{.event = "r01c2", .frequency = 99}}});
  config_.channels[0].events = {{.event = "cpu-clock", .frequency = 99}};
  open(Pmu::silent);
  for (const int cpu : cpus_) sample_on(cpu);
  look_at_busy(every_cpu());
  EXPECT_EQ(recording_->delivery(), Delivery::on) << "samples come";
  EXPECT_THAT(recording_->counts().unseen, ElementsAre("misses"));
}

// cycles prove nothing about the event beside it, whose samples need not come.
TEST_F(SilentPmu, AnEventThatNothingProvesIsNamed) {
  config_.channels[0].events = {
      {.event = "cpu-clock", .frequency = 99}, {.event = "r01c2", .frequency = 99}, {.event = "oom:mark_victim"}};
  open(Pmu::silent);
  for (const int cpu : cpus_) sample_on(cpu);
  look_at_busy(every_cpu());
  EXPECT_EQ(recording_->delivery(), Delivery::on);
  EXPECT_THAT(recording_->counts().unseen, ElementsAre("stacks: r01c2"));
}

// A counter that another user holds is free later: that must not end the history.
TEST_F(SilentPmu, ARefusedCounterIsTriedAgainAtAReload) {
  open(Pmu::refused);
  EXPECT_EQ(event().name, "cpu-clock");
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("cannot be used (Device or resource busy)")));
  for (const int cpu : cpus_) sample_on(cpu);
  const std::uint64_t owner = recording_->manifest().rings.back().owner_id;
  ASSERT_FALSE(recording_->reload(config_, sources_).value()) << "still refused";
  EXPECT_EQ(event().attr.type, PERF_TYPE_SOFTWARE);
  pmu_kind = Pmu::working;
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(event().name, "cycles");
  EXPECT_EQ(recording_->manifest().rings.back().owner_id, owner);
  // The other way round: what is open goes on, whatever a new one would get.
  pmu_kind = Pmu::refused;
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(event().name, "cycles");
  EXPECT_EQ(event().attr.type, PERF_TYPE_HARDWARE);
}

class AdoptedPmu : public SilentPmu {};

TEST_F(AdoptedPmu, KeepsWhatIsRecordedInstead) {
  open(Pmu::silent);
  look_at_busy(every_cpu());
  ASSERT_TRUE(look_at_busy(every_cpu()));
  for (const int cpu : cpus_) sample_on(cpu);
  const std::vector<ManifestId> clocks = event().ids;
  auto adopted = adopt();
  ASSERT_TRUE(adopted) << adopted.error().what;
  recording_.emplace(std::move(*adopted));
  EXPECT_EQ(event().name, "cpu-clock");
  ASSERT_EQ(event().ids.size(), clocks.size());
  EXPECT_EQ(event().ids[0].id, clocks[0].id);
  EXPECT_THAT(recording_->manifest().warnings, Contains(HasSubstr("delivered no sample")));
  // And the next reload goes back, with what cpu-clock wrote.
  pmu_kind = Pmu::working;
  ASSERT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(event().name, "cycles");
  EXPECT_TRUE(event(2).closed);
  auto again = adopt();
  ASSERT_TRUE(again) << again.error().what;
  recording_.emplace(std::move(*again));
  EXPECT_EQ(event().name, "cycles");
  ASSERT_EQ(recording_->manifest().events.size(), 3U);
  EXPECT_TRUE(event(2).closed);
  EXPECT_EQ(event(2).ids[0].id, clocks[0].id);
}

// The kernel lowers its limit by itself while the broker is away, or it is raised again.
TEST_F(AdoptedPmu, ALimitThatChangedDoesNotEndTheHistory) {
  features_.max_sample_rate = 50;
  open(Pmu::working);
  EXPECT_EQ(event().attr.sample_freq, 50U);
  for (const int cpu : cpus_) sample_on(cpu);
  const std::uint64_t owner = recording_->manifest().rings.back().owner_id;
  features_.max_sample_rate = 1000;
  auto adopted = adopt();
  ASSERT_TRUE(adopted) << adopted.error().what;
  EXPECT_EQ(adopted->manifest().rings.back().owner_id, owner);
  EXPECT_EQ(adopted->manifest().events[1].attr.sample_freq, 50U) << "as it was opened";
  config_.channels[0].events[0].frequency = 199;
  recording_.emplace(std::move(*adopted));
  auto other = adopt();
  ASSERT_TRUE(other) << other.error().what;
  EXPECT_NE(other->manifest().rings.back().owner_id, owner) << "configured differently";
}

// The same for the depth of stacks (kernel.perf_event_max_stack).
TEST_F(AdoptedPmu, ADepthThatChangedDoesNotEndTheHistory) {
  config_.channels[0].events[0].stack = true;
  features_.max_stack = 8;
  open(Pmu::working);
  EXPECT_EQ(event().attr.sample_max_stack, 8U);
  EXPECT_EQ(event().max_stack, 127U) << "as configured";
  for (const int cpu : cpus_) sample_on(cpu);
  const std::uint64_t owner = recording_->manifest().rings.back().owner_id;
  features_.max_stack = 127;
  auto adopted = adopt();
  ASSERT_TRUE(adopted) << adopted.error().what;
  EXPECT_EQ(adopted->manifest().rings.back().owner_id, owner);
  EXPECT_EQ(adopted->manifest().events[1].attr.sample_max_stack, 8U) << "as it was opened";
  EXPECT_EQ(adopted->manifest().events[1].max_stack, 127U);
  config_.channels[0].events[0].max_stack = 64;
  recording_.emplace(std::move(*adopted));
  auto other = adopt();
  ASSERT_TRUE(other) << other.error().what;
  EXPECT_NE(other->manifest().rings.back().owner_id, owner) << "configured differently";
}

// Between the plan and the opening of an event on one CPU, the kernel lowered its limit.
TEST_F(AdoptedPmu, ARateThatWasLoweredOnOneCpuIsKnownToTheNextBroker) {
  if (cpus_.size() < 2) return;
  const auto most = static_cast<std::uint64_t>(kernel_sysctl("perf_event_max_sample_rate").value_or(0));
  ASSERT_GT(most, 0U);
  const std::uint64_t configured = most + 1000;
  features_.max_sample_rate = configured;
  config_.channels[0].events[0].frequency = configured;
  open(Pmu::working);
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  for (const int cpu : cpus_) sample_on(cpu);
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  limited_cpu = cpus_.back();
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  const std::uint64_t owner = recording_->manifest().rings.back().owner_id;
  std::uint64_t opened = 0;
  for (const char* broker : {"this one", "the next one", "the one after it"}) {
    SCOPED_TRACE(broker);
    const auto parsed = parse_manifest(encode(recording_->manifest()));
    ASSERT_TRUE(parsed) << parsed.error().what;
    const ManifestEvent& said = parsed->events.at(1);
    EXPECT_EQ(said.frequency, configured);
    EXPECT_EQ(said.attr.sample_freq, configured) << "the other CPUs have that, and what is opened later";
    ASSERT_EQ(said.ids.size(), cpus_.size() + 1);
    EXPECT_EQ(said.ids.front().below.frequency, 0U);
    EXPECT_EQ(said.ids[cpus_.size() - 1].below.frequency, 0U) << "what was open before";
    if (opened == 0) opened = said.ids.back().below.frequency;
    EXPECT_GT(opened, 0U);
    EXPECT_LT(opened, configured);
    EXPECT_EQ(said.ids.back().below.frequency, opened);
    EXPECT_EQ(lowest_attr(*parsed, said).sample_freq, opened);
    EXPECT_THAT(parsed->warnings,
                ElementsAre(HasSubstr(
                    fmt::format("cycles is sampled {} times a second instead of {}: sysctl", opened, configured))));
    EXPECT_EQ(parsed->rings.back().owner_id, owner) << "the history goes on";
    auto adopted = adopt();
    ASSERT_TRUE(adopted) << adopted.error().what;
    recording_.emplace(std::move(*adopted));
  }
  // The CPU leaves again: what it wrote was sampled at that rate.
  limited_cpu = -1;
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  ASSERT_EQ(event().ids.size(), cpus_.size() + 2);
  EXPECT_EQ(event().ids[cpus_.size()].below.frequency, opened);
  EXPECT_EQ(event().ids.back().below.frequency, 0U);
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  EXPECT_EQ(lowest_attr(recording_->manifest(), event()).sample_freq, configured);
}

TEST_F(AdoptedPmu, ACounterThatIsFreeByThenDoesNotEndTheHistory) {
  open(Pmu::refused);
  for (const int cpu : cpus_) sample_on(cpu);
  pmu_kind = Pmu::working;
  const std::uint64_t owner = recording_->manifest().rings.back().owner_id;
  auto adopted = adopt();
  ASSERT_TRUE(adopted) << adopted.error().what;
  EXPECT_EQ(adopted->manifest().rings.back().owner_id, owner);
  EXPECT_EQ(adopted->manifest().events[1].name, "cpu-clock");
}

}  // namespace
}  // namespace flight
