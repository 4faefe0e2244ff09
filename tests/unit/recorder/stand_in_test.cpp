// SPDX-License-Identifier: Apache-2.0
// What is recorded where the machine refuses an event.
#include "libcore/recorder/stand_in.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/unit/perf/temp_tree.hpp"
#include "tests/unit/recorder/fake_pmu.hpp"

namespace flight {
namespace {

using test::Pmu, test::pmu_kind, test::refusing_cpu, test::refused_with, test::most_precise, test::other_pmu_exists;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kIbs = "ibs_op/config=1/";

class StandIn : public test::FakePmu {
 protected:
  StandIn() {
    config_.channels.insert(
        config_.channels.begin(),
        {.name = "ok", .ring_bytes = 64U << 10U, .events = {{.event = "cpu-clock", .frequency = 49}}});
  }
  void SetUp() override {
    FakePmu::SetUp();
    sources_.sysfs = tree_.path() + "/sys";
  }
  // The kernel's directory of a PMU.
  void add_pmu(const std::string& name, std::uint32_t type) const {
    const std::string folder = "sys/bus/event_source/devices/" + name;
    tree_.write(folder + "/type", std::to_string(type) + "\n");
    tree_.write(folder + "/format/event", "config:0-7\n");
  }
  // In the channel beside "ok".
  void configure(std::vector<EventConfig> events) { config_.channels.back().events = std::move(events); }
  void only(std::vector<EventConfig> events) {
    configure(std::move(events));
    config_.channels = {config_.channels.back()};
  }
  // An event of the channel beside "ok".
  [[nodiscard]] const ManifestEvent& configured(std::size_t index = 0) const {
    const Manifest& manifest = recording_->manifest();
    for (std::size_t i = 0; i < manifest.events.size(); ++i)
      if (manifest.events[i].channel == config_.channels.back().name) return manifest.events.at(i + index);
    return manifest.events.at(0);
  }
  [[nodiscard]] std::uint64_t owner() const { return recording_->manifest().rings.back().owner_id; }
  void adopt_it() {
    auto adopted = adopt();
    ASSERT_TRUE(adopted) << adopted.error().what;
    recording_.emplace(std::move(*adopted));
  }
  void expect_all_recorded() {
    for (const ManifestRing& ring : recording_->manifest().rings) EXPECT_TRUE(ring.online) << ring.cpu;
    for (const int cpu : cpus_) sample_on(cpu);
  }

  test::TempTree tree_;
};

TEST_F(StandIn, EverySpellingOfACpusCounter) {
  refused_with = ENOENT;
  for (const char* name : {"cycles", "cache-misses:u", "r1a8", "r1a8:u", "cpu/cycles/", "cpu/event=0x3c/u",
                           "cpu_core/cycles/", "cpu_atom/instructions/:u", "armv8_pmuv3_0/cpu_cycles/"}) {
    SCOPED_TRACE(name);
    configure({{.event = name, .period = 10'000}});
    open(Pmu::refused);
    ASSERT_TRUE(recording_);
    EXPECT_EQ(configured().name, std::string(name).ends_with('u') ? "cpu-clock:u" : "cpu-clock");
    EXPECT_EQ(configured().configured, name);
    EXPECT_THAT(configured().why, AllOf(HasSubstr("no hardware counter"), HasSubstr(fmt::format(" {} ", name)),
                                        EndsWith("this machine")));
    EXPECT_TRUE(configured().expected);
    EXPECT_EQ(configured().attr.sample_freq, 99U) << "a period of the counter is none of the clock";
    EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
    EXPECT_THAT(recording_->manifest().notes, Contains(HasSubstr("cpu-clock")));
    const auto checked = Recording::check(config_, sources_);
    ASSERT_TRUE(checked) << checked.error().what;
    EXPECT_THAT(checked->warnings, IsEmpty()) << "nobody can correct it";
    EXPECT_THAT(checked->notes, Contains(HasSubstr("no hardware counter")));
    recording_.reset();
  }
}

TEST_F(StandIn, EachErrorThatMeansTheMachine) {
  add_pmu("cpu", PERF_TYPE_RAW);
  for (const char* name : {"cycles", "r1a8", "cpu/event=0x3c/"})
    for (const int error_number : {ENOENT, ENODEV, ENXIO, EOPNOTSUPP, EINVAL, EBUSY, ENOSPC, EIO}) {
      SCOPED_TRACE(fmt::format("{}: {}", name, std::strerror(error_number)));
      configure({{.event = name, .frequency = 99}});
      refused_with = error_number;
      open(Pmu::refused);
      ASSERT_TRUE(recording_);
      EXPECT_EQ(configured().name, "cpu-clock");
      const bool permanent = error_number == ENOENT || error_number == EOPNOTSUPP;
      EXPECT_EQ(configured().expected, permanent);
      if (!permanent) {
        EXPECT_THAT(configured().why, HasSubstr(std::strerror(error_number)));
      }
      EXPECT_EQ(configured().why.find("there is no hardware counter") == 0, error_number == ENOENT);
      recording_.reset();
    }
}

TEST_F(StandIn, OthersStayErrors) {
  add_pmu("cpu", PERF_TYPE_RAW);
  pmu_kind = Pmu::refused;
  for (const char* name : {"cycles", "cycles:ppp", "r1a8", "cpu/event=0x3c/"})
    for (const int error_number : {EPERM, EACCES, EMFILE, ENFILE, ENOMEM, EINTR, E2BIG}) {
      SCOPED_TRACE(fmt::format("{}: {}", name, std::strerror(error_number)));
      configure({{.event = name, .frequency = 99}});
      refused_with = error_number;
      const auto opened = open_recording();
      ASSERT_FALSE(opened);
      EXPECT_EQ(opened.error().errno_value(), error_number);
      EXPECT_THAT(opened.error().what, HasSubstr("channel 'stacks'"));
    }
}

TEST_F(StandIn, MistakesStayErrors) {
  add_pmu("cpu", PERF_TYPE_RAW);
  pmu_kind = Pmu::working;
  for (const char* name : {"sched:sched_swich", "cylces", "page-fault", "cpu/evnt=1/", "cpu/cylces/", "cpv/event=1/",
                           "kprobe/config=1/", "cpu_core/event=x/"}) {
    configure({{.event = name}});
    const auto opened = open_recording();
    ASSERT_FALSE(opened) << name;
    EXPECT_THAT(opened.error().what, HasSubstr("channel 'stacks'"));
  }
}

TEST_F(StandIn, LessPrecise) {
  add_pmu("cpu", PERF_TYPE_RAW);
  struct Case {
    const char *configured, *recorded;
    unsigned most;
  };
  for (const Case& one :
       {Case{"cycles:ppp", "cycles:pp", 2}, Case{"cycles:ppp", "cycles", 0}, Case{"r1a8:ppu", "r1a8:up", 1},
        Case{"cpu/event=0x3c/pp", "cpu/event=0x3c/", 0}, Case{"cpu/event=0x3c/:pu", "cpu/event=0x3c/:u", 0}}) {
    SCOPED_TRACE(one.configured);
    configure({{.event = one.configured, .frequency = 99}});
    most_precise = one.most;
    open(Pmu::working);
    ASSERT_TRUE(recording_);
    EXPECT_EQ(configured().name, one.recorded);
    EXPECT_EQ(configured().configured, one.configured);
    EXPECT_EQ(configured().attr.precise_ip, one.most);
    EXPECT_NE(configured().attr.type, PERF_TYPE_SOFTWARE);
    EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
    EXPECT_THAT(recording_->manifest().notes,
                Contains(AllOf(HasSubstr(fmt::format(" of {} is refused (Operation not supported), ", one.configured)),
                               HasSubstr(fmt::format(", {} is recorded instead", one.recorded)))));
    expect_all_recorded();
    recording_.reset();
  }
  // Without a counter, that is the reason.
  refused_with = ENOENT;
  configure({{.event = "cycles:ppp", .frequency = 99}});
  open(Pmu::refused);
  EXPECT_EQ(configured().name, "cpu-clock");
  EXPECT_THAT(configured().why,
              AllOf(HasSubstr("no hardware counter"), HasSubstr(" cycles:ppp "), EndsWith("this machine")));
}

// The configured spelling is what a reload and the next broker compare.
TEST_F(StandIn, LessPreciseKeepsItsHistory) {
  configure({{.event = "cycles:ppp", .frequency = 99}});
  most_precise = 0;
  open(Pmu::working);
  ASSERT_EQ(configured().name, "cycles");
  expect_all_recorded();
  const std::uint64_t rings = owner();
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  for (const unsigned most : {2U, 3U}) {
    most_precise = most;
    EXPECT_TRUE(recording_->reload(config_, sources_).value());
    EXPECT_EQ(configured().name, most == 2 ? "cycles:pp" : "cycles:ppp");
    EXPECT_EQ(configured().attr.precise_ip, most);
    EXPECT_EQ(owner(), rings);
  }
  EXPECT_EQ(configured().why, "");
  most_precise = 1;
  EXPECT_FALSE(recording_->reload(config_, sources_).value()) << "what is open goes on";
  EXPECT_EQ(configured().name, "cycles:ppp");
  adopt_it();
  EXPECT_EQ(owner(), rings);
  EXPECT_EQ(configured().name, "cycles:ppp");
}

TEST_F(StandIn, AnotherOneIsNeededByTheNextBroker) {
  configure({{.event = "cycles:ppp", .frequency = 99}});
  most_precise = 0;
  open(Pmu::working);
  expect_all_recorded();
  const std::uint64_t rings = owner();
  pmu_kind = Pmu::refused;
  adopt_it();
  EXPECT_EQ(owner(), rings);
  EXPECT_EQ(configured().name, "cycles") << "it is open, whatever a new one would get";
  config_.channels.back().events[0].frequency = 199;
  adopt_it();
  EXPECT_NE(owner(), rings) << "configured differently";
  EXPECT_EQ(configured().name, "cpu-clock");
  pmu_kind = Pmu::working;
  expect_all_recorded();
  const std::uint64_t others = owner();
  EXPECT_TRUE(recording_->reload(config_, sources_).value()) << "nearer to what is configured";
  EXPECT_EQ(configured().name, "cycles");
  EXPECT_EQ(owner(), others);
}

TEST_F(StandIn, ACpuThatReturnsLessPrecise) {
  if (cpus_.size() < 2) return;
  configure({{.event = "cycles:pp", .frequency = 99}});
  open(Pmu::working);
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  most_precise = 0;
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_EQ(configured().name, "cycles");
  EXPECT_THAT(recording_->manifest().notes,
              Contains(HasSubstr(fmt::format("precise_ip 2 of cycles:pp is refused on CPU {}", cpus_.back()))));
  expect_all_recorded();
}

class RepeatedClock : public StandIn, public testing::WithParamInterface<bool> {
 protected:
  RepeatedClock() {
    std::vector<EventConfig> events{{.event = "cycles", .frequency = 99}, {.event = "cpu-clock", .frequency = 99}};
    if (GetParam()) std::swap(events[0], events[1]);
    configure(std::move(events));
  }
  [[nodiscard]] const ManifestEvent& cycles() const { return configured(GetParam() ? 1 : 0); }
  [[nodiscard]] const ManifestEvent& clock() const { return configured(GetParam() ? 0 : 1); }
};

TEST_P(RepeatedClock, IsRecordedOnce) {
  open(Pmu::refused);
  EXPECT_EQ(clock().name, "cpu-clock");
  EXPECT_EQ(clock().why, "");
  EXPECT_TRUE(is_omitted(cycles()));
  EXPECT_EQ(cycles().configured, "cycles");
  EXPECT_THAT(recording_->manifest().warnings,
              ElementsAre(AllOf(HasSubstr("counter for cycles cannot be used (Device or resource busy)"),
                                HasSubstr("and the channel already has cpu-clock: it is omitted"))));
  const auto parsed = parse_manifest(encode(recording_->manifest()));
  ASSERT_TRUE(parsed) << parsed.error().what;
  expect_all_recorded();
  const std::uint64_t rings = owner();
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  pmu_kind = Pmu::working;
  EXPECT_TRUE(recording_->reload(config_, sources_).value()) << "it is tried again";
  EXPECT_EQ(cycles().name, "cycles");
  EXPECT_EQ(cycles().why, "");
  EXPECT_EQ(owner(), rings);
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
}

TEST_P(RepeatedClock, DoesNotEndTheHistory) {
  open(Pmu::refused);
  expect_all_recorded();
  const std::uint64_t rings = owner();
  pmu_kind = Pmu::working;
  adopt_it();
  EXPECT_EQ(owner(), rings);
  EXPECT_TRUE(is_omitted(cycles()));
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(cycles().name, "cycles");
  expect_all_recorded();
  pmu_kind = Pmu::refused;
  adopt_it();
  EXPECT_EQ(owner(), rings);
  EXPECT_EQ(cycles().name, "cycles");
}

TEST_P(RepeatedClock, ACpuThatReturnsIsRecorded) {
  if (cpus_.size() < 2) return;
  open(Pmu::working);
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  refusing_cpu = cpus_.back();
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_TRUE(is_omitted(cycles()));
  EXPECT_EQ(clock().name, "cpu-clock");
  expect_all_recorded();
  EXPECT_FALSE(recording_->follow_cpus(cpus_, Probe::none, 1));
}

INSTANTIATE_TEST_SUITE_P(Orders, RepeatedClock, testing::Bool());

// The one that stays open, and not another one beside it.
TEST_F(StandIn, TwoCountersShareOneClock) {
  if (cpus_.size() < 2) return;
  configure({{.event = "cycles", .frequency = 99}, {.event = "cpu_core/instructions/", .frequency = 99}});
  open(Pmu::working);
  EXPECT_EQ(configured(0).name, "cycles");
  EXPECT_EQ(configured(1).name, "cpu-clock");
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  refusing_cpu = cpus_.back();
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_TRUE(is_omitted(configured(0)));
  EXPECT_EQ(configured(1).name, "cpu-clock");
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  EXPECT_TRUE(is_omitted(configured(0)));
  EXPECT_EQ(configured(1).name, "cpu-clock");
  expect_all_recorded();
}

TEST_F(StandIn, TheReasonIsTheTrueOne) {
  tree_.write("sys/devices/system/cpu/nohz_full", "2-3\n");
  configure({{.event = "cpu_core/cycles/", .frequency = 99}, {.event = "cycles", .frequency = 199}});
  open(Pmu::working);
  EXPECT_THAT(configured(0).why,
              AllOf(HasSubstr("no hardware counter"), HasSubstr(" cpu_core/cycles/ "), EndsWith("this machine")));
  EXPECT_THAT(configured(1).why,
              AllOf(StartsWith("cycles "), HasSubstr("tick"), HasSubstr(" CPUs 2-3 "), EndsWith("(nohz_full)")));
  tree_.write("sys/devices/system/cpu/nohz_full", "\n");
  if (cpus_.size() < 2) return;
  refused_with = ENOENT;  // a PMU of some CPUs
  refusing_cpu = cpus_.front();
  configure({{.event = "r1a8", .frequency = 99}});
  open(Pmu::working);
  EXPECT_THAT(configured().why, AllOf(HasSubstr("no hardware counter"), HasSubstr(" r1a8 "),
                                      EndsWith(fmt::format(" CPU {}", cpus_.front()))));
}

class WithoutTick : public StandIn {
 protected:
  void SetUp() override {
    StandIn::SetUp();
    quiet_ = cpus_.back();
    tree_.write("sys/devices/system/cpu/nohz_full", fmt::format("{}\n", quiet_));
  }
  [[nodiscard]] auto names_it() const {
    return Contains(HasSubstr(fmt::format("does not sample CPUs {} (nohz_full)", quiet_)));
  }
  [[nodiscard]] std::uint64_t counted_on(int cpu) const {
    for (const EventCount& count : recording_->counts().events)
      for (const ManifestId& id : configured().ids)
        if (id.id == count.id && id.cpu == cpu) return count.value;
    ADD_FAILURE() << "no count of CPU " << cpu;
    return 0;
  }
  void burn_on(int cpu) {
    const test::OnCpu there(cpu);
    const EventTime begin_ns = monotonic_now();
    while (monotonic_now() - begin_ns < 50'000'000) continue;
  }
  // cpu-clock is recorded on the others only, and nothing is missed where nothing is recorded.
  void expect_left_alone() {
    EXPECT_EQ(configured().name, "cpu-clock");
    EXPECT_THAT(configured().left_out, ElementsAre(quiet_));
    EXPECT_THAT(recording_->manifest().notes, names_it());
    EXPECT_THAT(recording_->manifest().missing, names_it()) << "a snapshot says it, too";
    sample_on(cpus_.front());
    burn_on(quiet_);
    EXPECT_GT(counted_on(cpus_.front()), 0U);
    EXPECT_EQ(counted_on(quiet_), 0U);
    for (const std::uint64_t seconds : {100, 200, 300}) {
      sample_on(cpus_.front());
      EXPECT_FALSE(
          recording_->watch_delivery({{.cpu = cpus_.front(), .user_ns = seconds * test::kSecond, .system_ns = 0},
                                      {.cpu = quiet_, .user_ns = seconds * test::kSecond, .system_ns = 0}},
                                     monotonic_now() + 3 * test::kSecond));
    }
    EXPECT_EQ(recording_->delivery(), Delivery::on);
    EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  }
  // It goes offline, and comes back.
  void let_it_return() {
    ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
    ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  }
  int quiet_ = -1;
};

TEST_F(WithoutTick, ACpuIsLeftAlone) {
  if (cpus_.size() < 2) return;
  only({{.event = "cycles", .frequency = 997}});
  open(Pmu::working);
  expect_left_alone();
  let_it_return();
  expect_left_alone();
  const auto ids = configured().ids.size();
  adopt_it();
  EXPECT_EQ(configured().ids.size(), ids) << "nothing was opened anew";
  expect_left_alone();
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  expect_left_alone();
}

TEST_F(WithoutTick, ACounterThatIsRefusedLeavesItAlone) {
  if (cpus_.size() < 2) return;
  refused_with = ENOENT;
  only({{.event = "r1a8", .frequency = 997}});
  open(Pmu::refused);
  expect_left_alone();
}

TEST_F(WithoutTick, ACounterThatIsRefusedLaterLeavesItAlone) {
  if (cpus_.size() < 2) return;
  only({{.event = "cycles", .period = 100'000'000}});
  open(Pmu::working);
  ASSERT_EQ(configured().name, "cycles");
  ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
  refusing_cpu = quiet_;
  ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
  EXPECT_EQ(configured().name, "cpu-clock");
  burn_on(quiet_);
  EXPECT_EQ(counted_on(quiet_), 0U);
  EXPECT_THAT(recording_->manifest().notes, names_it());
}

// An earlier version recorded there.
TEST_F(WithoutTick, TheNextBrokerLeavesItAlone) {
  if (cpus_.size() < 2) return;
  refused_with = ENOENT;
  only({{.event = "cycles", .frequency = 997}});
  tree_.write("sys/devices/system/cpu/nohz_full", "\n");
  open(Pmu::refused);
  burn_on(quiet_);
  EXPECT_GT(counted_on(quiet_), 0U);
  tree_.write("sys/devices/system/cpu/nohz_full", fmt::format("{}\n", quiet_));
  adopt_it();
  expect_left_alone();
}

TEST_F(WithoutTick, AConfiguredClockIsRecordedThere) {
  if (cpus_.size() < 2) return;
  only({{.event = "cycles", .frequency = 997}, {.event = "cpu-clock", .frequency = 997}});
  open(Pmu::working);
  EXPECT_TRUE(is_omitted(configured()));
  sample_on(quiet_);
  EXPECT_THAT(recording_->manifest().notes, testing::Not(names_it()));
  EXPECT_THAT(recording_->manifest().missing, IsEmpty());
}

class OtherPmu : public StandIn {
 protected:
  void SetUp() override {
    StandIn::SetUp();
    add_pmu("ibs_op", test::kOtherPmu);
  }
  [[nodiscard]] static auto omitted(const std::string& name) {
    return AllOf(HasSubstr("channel 'stacks'"), HasSubstr(name), HasSubstr(": it is omitted"));
  }
};

TEST_F(OtherPmu, IsOmittedWhereOthersAreRecorded) {
  for (const char* name : {kIbs, "uncore_imc_0/cas_count_read/", "power/energy-pkg/"})
    for (const bool beside : {false, true}) {
      SCOPED_TRACE(name);
      std::vector<EventConfig> events{{.event = name, .period = 1000}};
      if (beside) events.push_back({.event = "cpu-clock", .frequency = 199});
      configure(std::move(events));
      open(Pmu::working);
      ASSERT_TRUE(recording_);
      EXPECT_TRUE(is_omitted(configured()));
      EXPECT_EQ(configured().configured, name);
      EXPECT_THAT(recording_->manifest().warnings, ElementsAre(omitted(name)));
      const auto checked = Recording::check(config_, sources_);
      ASSERT_TRUE(checked) << checked.error().what;
      EXPECT_THAT(checked->warnings, ElementsAre(omitted(name)));
      static_cast<void>(recording_->watch_delivery({}, monotonic_now()));
      EXPECT_THAT(recording_->counts().unseen, IsEmpty()) << "it is said already";
      recording_.reset();
    }
}

TEST_F(OtherPmu, IsAnErrorWhereNothingElseIsRecorded) {
  pmu_kind = Pmu::working;
  only({{.event = kIbs, .period = 1000}});
  const auto refused = open_recording();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), ENOENT);
  EXPECT_THAT(refused.error().what, AllOf(HasSubstr("channel 'stacks'"), HasSubstr(kIbs)));
  only({{.event = "uncore_imc_0/cas_count_read/"}, {.event = kIbs}});
  const auto missing = open_recording();
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().what, HasSubstr("there is no PMU 'uncore_imc_0' on this machine"));
  only({{.event = "uncore_imc_0/cas_count_read/"}, {.event = "cpu_core/cycles/"}});
  EXPECT_TRUE(open_recording()) << "cpu-clock is recorded";
}

TEST_F(OtherPmu, IsFoundAgain) {
  configure({{.event = kIbs, .period = 1'000'000}});
  open(Pmu::working);
  ASSERT_TRUE(is_omitted(configured()));
  const std::uint64_t rings = owner();
  EXPECT_FALSE(recording_->reload(config_, sources_).value());
  other_pmu_exists = true;
  EXPECT_TRUE(recording_->reload(config_, sources_).value());
  EXPECT_EQ(configured().name, kIbs);
  EXPECT_EQ(owner(), rings);
  EXPECT_THAT(recording_->manifest().warnings, IsEmpty());
  EXPECT_EQ(recording_->manifest().events.size(), 3U) << "a dummy wrote nothing";
  expect_all_recorded();
  other_pmu_exists = false;
  adopt_it();
  EXPECT_EQ(owner(), rings);
  EXPECT_EQ(configured().name, kIbs);
}

TEST_F(OtherPmu, HeldByAnotherUserOrAskedWrongly) {
  other_pmu_exists = true;
  configure({{.event = kIbs, .period = 1000}});
  open(Pmu::refused);
  EXPECT_TRUE(is_omitted(configured())) << "cpu-clock would measure something else";
  EXPECT_THAT(recording_->manifest().warnings, ElementsAre(HasSubstr("(Device or resource busy): it is omitted")));
  recording_.reset();
  refused_with = EINVAL;  // as of a PMU that only counts
  const auto opened = open_recording();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().errno_value(), EINVAL);
}

TEST_F(OtherPmu, ACpuThatReturnsWithoutIt) {
  if (cpus_.size() < 2) return;
  other_pmu_exists = true;
  for (const bool beside : {false, true}) {
    std::vector<EventConfig> events{{.event = kIbs, .period = 1'000'000}};
    if (beside) events.push_back({.event = "cpu-clock", .frequency = 199});
    configure(std::move(events));
    open(Pmu::working);
    ASSERT_TRUE(recording_->follow_cpus({cpus_.front()}, Probe::none, 1));
    refusing_cpu = cpus_.back();
    ASSERT_TRUE(recording_->follow_cpus(cpus_, Probe::none, 1));
    EXPECT_EQ(is_omitted(configured()), beside) << "alone it goes on where it can";
    for (const ManifestRing& ring : recording_->manifest().rings)
      EXPECT_TRUE(ring.online || (!beside && ring.channel == "stacks")) << ring.channel;
    refusing_cpu = -1;
    EXPECT_EQ(recording_->follow_cpus(cpus_, Probe::none, 1), !beside);
    expect_all_recorded();
    recording_.reset();
  }
}

TEST_F(StandIn, AnEventOfANewerKernelIsOmitted) {
  test::old_kernel = true;
  configure({{.event = "cgroup-switches", .period = 1}});
  open(Pmu::working);
  EXPECT_TRUE(is_omitted(configured()));
  EXPECT_THAT(recording_->manifest().warnings,
              ElementsAre(HasSubstr("this kernel does not have the event cgroup-switches: it is omitted")));
  only({{.event = "cgroup-switches", .period = 1}});
  EXPECT_FALSE(open_recording());
}

}  // namespace
}  // namespace flight
