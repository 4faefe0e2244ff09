// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/recording.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/recorder/channel.hpp"
#include "libcore/recorder/rings.hpp"
#include "tests/unit/recorder/on_this_machine.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class RealRecording : public test::OnThisMachine {
 protected:
  RealRecording() {
    config_.digest = "digest";
    config_.channels = {
        {.name = "sched", .ring_bytes = 64U << 10U, .events = {{.event = "sched:sched_switch"}}},
        {.name = "stacks", .ring_bytes = 128U << 10U, .events = {{.event = "cpu-clock", .stack = true}}}};
  }
  static std::size_t descriptors() {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
  }
  static UniqueFd copy(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }
};

TEST_F(RealRecording, DescribesWhatItOpened) {
  const auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  const Manifest& manifest = recording->manifest();
  EXPECT_EQ(manifest.generation, 1U);
  EXPECT_EQ(manifest.config_digest, "digest");
  EXPECT_EQ(manifest.boot_id.size(), 36U);
  ASSERT_EQ(manifest.rings.size(), 3 * cpus_.size());
  EXPECT_EQ(recording->owner_fds().size(), manifest.rings.size());
  ASSERT_EQ(manifest.events.size(), 3U);
  EXPECT_EQ(manifest.events[0].channel, "");
  EXPECT_EQ(manifest.events[0].attr.write_backward, 0U);
  EXPECT_EQ(manifest.events[1].attr.write_backward, 1U);
  for (const ManifestEvent& event : manifest.events) ASSERT_EQ(event.ids.size(), cpus_.size());
  for (const ManifestRing& ring : manifest.rings) EXPECT_GT(ring.enabled_ns, 0U);
  // The other side accepts its manifest.
  const auto parsed = parse_manifest(encode(manifest));
  ASSERT_TRUE(parsed) << parsed.error().what;
  const Counts counts = recording->counts();
  EXPECT_EQ(counts.events.size(), 3 * cpus_.size());
}

// The kernel lowers the limit by itself, and refuses an event above it.
TEST_F(RealRecording, RecordsAtTheRateThatTheMachineAllows) {
  features_.max_sample_rate = 50;
  config_.channels[1].events[0].frequency = 99;
  const auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  const ManifestEvent& event = recording->manifest().events[2];
  EXPECT_EQ(event.attr.sample_freq, 50U);
  EXPECT_EQ(event.frequency, 99U);
  EXPECT_THAT(
      recording->manifest().warnings,
      testing::Contains(HasSubstr("sampled 50 times a second instead of 99: sysctl kernel.perf_event_max_sample")));
  const auto parsed = parse_manifest(encode(recording->manifest()));
  ASSERT_TRUE(parsed) << parsed.error().what;
  EXPECT_EQ(parsed->events[2].frequency, 99U);
}

TEST_F(RealRecording, CopiesStacksWhereTheKernelCan) {
  config_.channels[1].ring_bytes = 4U << 20U;
  config_.channels[1].events[0].stack_bytes = 4096;
  const auto by_frame_pointers = testing::Contains(HasSubstr("stacks of cpu-clock are by frame pointers only"));
  {
    const auto recording = open_recording();
    ASSERT_TRUE(recording) << recording.error().what;
    const auto parsed = parse_manifest(encode(recording->manifest()));
    ASSERT_TRUE(parsed) << parsed.error().what;
    EXPECT_EQ(parsed->events[2].attr.sample_stack_user, features_.copies_stacks ? 4096U : 0U);
  }
  features_.copies_stacks = false;
  const auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  EXPECT_EQ(recording->manifest().events[2].attr.sample_stack_user, 0U);
  EXPECT_THAT(recording->manifest().warnings, by_frame_pointers);
  config_.channels[1].events[0].stack_bytes = 0;
  const auto not_wanted = open_recording();
  ASSERT_TRUE(not_wanted) << not_wanted.error().what;
  EXPECT_THAT(not_wanted->manifest().warnings, testing::Not(by_frame_pointers));
}

TEST_F(RealRecording, StacksThatLackAPartAreAWarning) {
  config_.channels[1].events[0].stack = true;
  const auto warnings_with = [this](std::uint16_t contexts) {
    features_.max_contexts = contexts;
    const auto recording = open_recording();
    EXPECT_TRUE(recording) << recording.error().what;
    return recording ? recording->manifest().warnings : std::vector<std::string>();
  };
  EXPECT_THAT(
      warnings_with(0),
      testing::Contains(HasSubstr("are empty: sysctl kernel.perf_event_max_contexts_per_stack is 0; stop flightd")));
  EXPECT_THAT(warnings_with(1), testing::Contains(HasSubstr("end where the kernel was entered")));
  EXPECT_THAT(warnings_with(2), testing::Not(testing::Contains(HasSubstr("contexts_per_stack"))));
}

// features_ has limits that the machine had at the start; the machine's own are higher now.
TEST_F(RealRecording, AReloadUsesLimitsThatWereRaised) {
  features_.max_sample_rate = 50;
  features_.max_stack = 8;
  config_.channels[1].events[0].frequency = 99;
  config_.channels[1].events[0].stack = true;
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  const std::uint64_t owner = recording->manifest().rings.back().owner_id;
  const std::uint64_t id = recording->manifest().events[2].ids[0].id;
  EXPECT_EQ(recording->manifest().events[2].attr.sample_max_stack, 8U);
  EXPECT_THAT(recording->manifest().warnings,
              testing::Contains(HasSubstr("have at most 8 frames instead of 127: sysctl kernel.perf_event_max_stack")));
  EXPECT_TRUE(recording->reload(config_, sources_).value());
  const ManifestEvent& event = recording->manifest().events[2];
  EXPECT_EQ(event.attr.sample_freq, 99U);
  EXPECT_EQ(event.attr.sample_max_stack, 127U);
  EXPECT_THAT(recording->manifest().warnings, testing::Not(testing::Contains(HasSubstr("instead of"))));
  EXPECT_EQ(recording->manifest().rings.back().owner_id, owner) << "the history stays";
  const auto& events = recording->manifest().events;
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [&](const ManifestEvent& one) {
    return one.closed && one.attr.sample_freq == 50 && !one.ids.empty() && one.ids[0].id == id;
  })) << "its records can be read";
  EXPECT_FALSE(recording->reload(config_, sources_).value()) << "nothing is to be changed any more";
}

// A limit that was lowered after the plan was made: the event is opened below it.
TEST_F(RealRecording, AnEventAboveALoweredLimitIsOpenedBelowIt) {
  const long most = kernel_sysctl("perf_event_max_sample_rate").value_or(0);
  ASSERT_GT(most, 0);
  features_.max_sample_rate = static_cast<std::uint64_t>(most) + 1000;
  config_.channels[1].events = {{.event = "page-faults", .frequency = static_cast<std::uint64_t>(most) + 1000}};
  const auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  // The kernel may lower the limit meanwhile.
  EXPECT_THAT(recording->manifest().warnings,
              testing::Contains(testing::ContainsRegex(
                  fmt::format("page-faults is sampled [0-9]+ times a second instead of {}: sysctl", most + 1000))));
}

TEST_F(RealRecording, TheSidebandsOwnIdIsTheManifests) {
  const auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  std::uint64_t id = 0;
  const auto fds = recording->owner_fds();
  for (std::size_t i = 0; i < cpus_.size(); ++i) {
    id = event_id(fds[i]).value();
    EXPECT_EQ(recording->manifest().events[0].ids[i].id, id);
    EXPECT_EQ(recording->manifest().rings[i].kind, RingKind::sideband);
  }
}

TEST_F(RealRecording, SaysWhichFieldsAFilterMayUse) {
  config_.channels[0].events[0].filter = "prio < 100";
  const std::size_t before = descriptors();
  const auto recording = open_recording();
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().errno_value(), EINVAL);
  EXPECT_THAT(recording.error().what, HasSubstr("channel 'sched': event sched:sched_switch"));
  EXPECT_THAT(recording.error().what, HasSubstr("'prio < 100'"));
  EXPECT_THAT(recording.error().what, HasSubstr("prev_comm, prev_pid, prev_prio"));
  EXPECT_EQ(descriptors(), before) << "nothing stays open after an error";
}

TEST_F(RealRecording, SaysThatDescriptorsRanOut) {
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit small = old;
  // Enough descriptors to read a file or two, but not enough for the events.
  small.rlim_cur = static_cast<rlim_t>(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)).get()) + 4;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto recording = open_recording();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().errno_value(), EMFILE);
  EXPECT_THAT(recording.error().what,
              HasSubstr(fmt::format("RLIMIT_NOFILE is {}: raise LimitNOFILE=", small.rlim_cur)));
}

TEST_F(RealRecording, ReloadKeepsEqualChannelsAndClosesTheOthers) {
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  const std::uint64_t stacks_id = recording->manifest().events[2].ids[0].id;
  const EventTime enabled_ns = recording->manifest().rings.back().enabled_ns;
  const std::size_t full = descriptors();

  EXPECT_FALSE(recording->reload(config_, sources_).value());
  EXPECT_EQ(recording->manifest().generation, 1U);
  EXPECT_EQ(descriptors(), full);

  config_.channels.erase(config_.channels.begin());
  config_.digest = "another";
  EXPECT_TRUE(recording->reload(config_, sources_).value());
  EXPECT_EQ(recording->manifest().generation, 2U);
  EXPECT_EQ(recording->manifest().config_digest, "another");
  ASSERT_EQ(recording->manifest().events.size(), 2U);
  EXPECT_EQ(recording->manifest().events[1].ids[0].id, stacks_id);
  EXPECT_EQ(recording->manifest().rings.back().enabled_ns, enabled_ns);
  EXPECT_TRUE(recording->manifest().tracepoint_formats.empty());
  EXPECT_EQ(descriptors(), full - 2 * cpus_.size()) << "owner and event of each CPU are closed";

  config_.channels[0].events[0].event = "no-such-event";
  EXPECT_FALSE(recording->reload(config_, sources_));
  EXPECT_EQ(recording->manifest().generation, 2U);
  EXPECT_EQ(recording->manifest().events[1].ids[0].id, stacks_id);
}

// Events that a reload opens while recording is off start with the others, and their history begins then.
TEST_F(RealRecording, AReloadWhileDisabledEnablesNothing) {
  config_.channels.pop_back();
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  ASSERT_TRUE(recording->enable_all(false));
  config_.channels.push_back({.name = "more", .ring_bytes = 64U << 10U, .events = {{.event = "sched:sched_switch"}}});
  ASSERT_TRUE(recording->reload(config_, sources_).value());
  const auto total = [&] {
    std::uint64_t sum = 0;
    for (const EventCount& event : recording->counts().events) sum += event.value;
    return sum;
  };
  const auto sleep = [] {
    for (int i = 0; i < 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  const std::uint64_t off = total();
  sleep();
  EXPECT_EQ(total(), off);
  EXPECT_EQ(recording->manifest().rings.back().enabled_ns, 0U);
  ASSERT_TRUE(recording->enable_all(true));
  sleep();
  EXPECT_GT(total(), off);
  EXPECT_GT(recording->manifest().rings.back().enabled_ns, 0U);
}

TEST_F(RealRecording, ResumesEveryRing) {
  const auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  std::vector<Ring> rings;
  const auto fds = recording->owner_fds();
  for (std::size_t i = 0; i < fds.size(); ++i)
    if (recording->manifest().rings[i].channel == "sched")
      rings.push_back(Ring::open(copy(fds[i]), recording->manifest().rings[i]).value());
  const auto busy = [&] {
    const auto sum = [&] {
      std::uint64_t heads = 0;
      for (const Ring& ring : rings) heads += ring.head();
      return heads;
    };
    const std::uint64_t before = sum();
    for (int i = 0; i < 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return sum() != before;
  };
  EXPECT_TRUE(busy());
  for (const Ring& ring : rings) ASSERT_EQ(ring.pause(), 0);
  EXPECT_FALSE(busy());
  recording->resume_all();
  EXPECT_TRUE(busy());
}

// follow_cpus assumes the CPUs that the test gives it, so a CPU can be missing here that is online. tests/vm tests real
// hotplug.
TEST_F(RealRecording, ACpuThatComesBackGoesOnInItsRing) {
  if (cpus_.size() < 2) GTEST_SKIP() << "needs two CPUs";
  config_.channels.resize(1);
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  const int cpu = cpus_.back();
  const std::vector<int> others(cpus_.begin(), cpus_.end() - 1);
  const std::size_t index = recording->manifest().rings.size() - 1;
  const Ring ring = Ring::open(copy(recording->owner_fds()[index]), recording->manifest().rings[index]).value();
  ASSERT_EQ(ring.info().cpu, cpu);
  const auto moves = [&] {
    const std::uint64_t before = ring.head();
    const test::OnCpu there(cpu);
    for (int i = 0; i < 10; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return ring.head() != before;
  };
  EXPECT_TRUE(moves());
  const auto sideband_ids = recording->manifest().events[0].ids;
  const std::uint64_t first_id = recording->manifest().events[1].ids.back().id;
  const std::size_t full = descriptors();

  for (unsigned round = 0; round < 3; ++round) {
    EXPECT_FALSE(recording->follow_cpus(cpus_, Probe::suspected, monotonic_now())) << "all of them live";
    const EventTime good_ns = monotonic_now();
    EXPECT_TRUE(recording->follow_cpus(others, Probe::none, good_ns));
    EXPECT_FALSE(recording->follow_cpus(others, Probe::routine, good_ns));
    EXPECT_EQ(recording->manifest().generation, 2 + 2 * round);
    EXPECT_FALSE(recording->manifest().rings[index].online);
    EXPECT_TRUE(recording->manifest().rings[0].online);
    EXPECT_THAT(recording->manifest().notes, testing::Contains(HasSubstr(fmt::format("CPU {} went offline", cpu))));
    EXPECT_EQ(recording->manifest().gaps.back().begin_ns, good_ns);
    EXPECT_EQ(recording->manifest().gaps.back().end_ns, 0U);
    EXPECT_FALSE(moves());
    EXPECT_TRUE(recording->follow_cpus(cpus_, Probe::none, monotonic_now()));
    EXPECT_EQ(recording->manifest().gaps.size(), round + 1);
    EXPECT_GT(recording->manifest().gaps.back().end_ns, good_ns);
    EXPECT_TRUE(recording->manifest().notes.empty()) << recording->manifest().notes[0];
    EXPECT_TRUE(moves());
    EXPECT_EQ(recording->manifest().events[1].ids.size(), cpus_.size() + round + 1) << "records of all are in the ring";
  }
  // The sideband's old event owns its ring and stays open.
  EXPECT_EQ(descriptors(), full + 1);
  EXPECT_EQ(recording->manifest().events[1].ids[cpus_.size() - 1].id, first_id);
  const auto& ids = recording->manifest().events[0].ids;
  ASSERT_EQ(ids.size(), sideband_ids.size() + 3) << "records of all are in the ring";
  EXPECT_EQ(ids[sideband_ids.size() - 1].id, sideband_ids.back().id);
  for (const ManifestRing& one : recording->manifest().rings)
    if (one.kind == RingKind::sideband && one.cpu == cpu) {
      EXPECT_EQ(ids.back().id, one.live_ids.front());
    }
  EXPECT_TRUE(parse_manifest(encode(recording->manifest())));
}

TEST_F(RealRecording, ADisabledRecordingIsOpenedAnewAfterASuspendAndStaysDisabled) {
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  ASSERT_TRUE(recording->enable_all(false));
  EXPECT_FALSE(recording->follow_cpus(cpus_, Probe::routine, monotonic_now())) << "what is disabled stands still";
  EXPECT_TRUE(recording->follow_cpus(cpus_, Probe::suspected, monotonic_now()));
  const auto total = [&] {
    std::uint64_t sum = 0;
    for (const EventCount& event : recording->counts().events) sum += event.value;
    return sum;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(total(), 0U);
  ASSERT_TRUE(recording->enable_all(true));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GT(total(), 0U);
  EXPECT_FALSE(recording->follow_cpus(cpus_, Probe::suspected, monotonic_now()));
}

TEST_F(RealRecording, OldIdsAreBounded) {
  config_.channels.resize(1);
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  for (std::size_t i = 0; i < kMaxGaps; ++i) {
    EXPECT_TRUE(recording->follow_cpus({}, Probe::none, 1));
    EXPECT_TRUE(recording->follow_cpus(cpus_, Probe::none, 1));
  }
  EXPECT_EQ(recording->manifest().events[1].ids.size(), (kMaxOldIds + 1) * cpus_.size());
  EXPECT_EQ(recording->manifest().gaps.size(), kMaxGaps);
}

TEST_F(RealRecording, ACpuThatIsNewGetsRings) {
  if (cpus_.size() < 2) GTEST_SKIP() << "needs two CPUs";
  // The test's process may run on one CPU only, but records all. So only sysfs says what is online at the start, and a
  // new CPU is one of which the channel has no ring yet.
  auto recording = open_recording();
  ASSERT_TRUE(recording) << recording.error().what;
  ASSERT_TRUE(recording->follow_cpus({cpus_.front()}, Probe::none, 1));
  config_.channels.push_back({.name = "more", .ring_bytes = 64U << 10U, .events = {{.event = "sched:sched_switch"}}});
  ASSERT_TRUE(recording->reload(config_, sources_).value());
  EXPECT_EQ(recording->manifest().rings.size(), 3 * cpus_.size() + 1);
  EXPECT_TRUE(recording->follow_cpus(cpus_, Probe::none, 1));
  ASSERT_EQ(recording->manifest().rings.size(), 4 * cpus_.size());
  EXPECT_GT(recording->manifest().rings.back().enabled_ns, 0U);
  EXPECT_EQ(recording->manifest().rings.back().cpu, cpus_.back());
  EXPECT_EQ(recording->owner_fds().size(), recording->manifest().rings.size());
}

TEST_F(RealRecording, ManyInARowLeaveNothingBehind) {
  const std::size_t before = descriptors();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(open_recording());
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace flight
