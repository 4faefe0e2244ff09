// SPDX-License-Identifier: Apache-2.0
// Limits of the machine that are smaller than what is configured: what they allow is recorded.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>

#include "libcore/base/files.hpp"
#include "libcore/recorder/limits.hpp"
#include "libcore/recorder/locked_memory.hpp"
#include "libcore/recorder/ring_memory.hpp"
#include "tests/unit/recorder/on_this_machine.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kKi = 1024, kMi = kKi * kKi;

class SmallLimits : public test::OnThisMachine {
 protected:
  SmallLimits() {
    config_.channels = {{.name = "stacks", .ring_bytes = kMi, .events = {{.event = "cpu-clock"}}}};
    for (const char* name : {"first", "second", "third"})
      config_.triggers.push_back(
          {.name = name, .event = EventConfig{.event = "signal:signal_generate", .filter = "sig == 28"}});
  }
  [[nodiscard]] Result<Recording> open_with_descriptors(std::size_t count) const {
    rlimit old{};
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
    rlimit small = old;
    small.rlim_cur = count;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
    auto recording = open_recording();
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
    return recording;
  }
  [[nodiscard]] std::size_t needed_with_triggers(std::size_t count) const {
    Config config = config_;
    config.triggers.resize(count);
    const auto plan = plan_recording(config, sources_, features_, cpus_.size(), cpus_);
    EXPECT_TRUE(plan) << plan.error().what;
    return plan ? fds_needed(*plan, cpus_.size()) : 0;
  }
};

TEST_F(SmallLimits, WithoutDescriptorsForTheTriggersTheChannelsAreRecorded) {
  const std::size_t few = needed_with_triggers(1), all = needed_with_triggers(3);
  auto recording = open_with_descriptors(few);
  ASSERT_TRUE(recording) << recording.error().what;
  const auto& triggers = recording->manifest().triggers;
  ASSERT_THAT(triggers, SizeIs(3));
  EXPECT_EQ(triggers[0].off, "");
  const auto both_numbers = AllOf(HasSubstr(fmt::format("needs about {} descriptors, RLIMIT_NOFILE is {}", all, few)),
                                  HasSubstr("LimitNOFILE="));
  EXPECT_THAT(triggers[1].off, both_numbers);
  EXPECT_THAT(triggers[2].off, both_numbers);
  EXPECT_THAT(recording->manifest().warnings,
              ElementsAre(AllOf(HasSubstr("are off ('third', 'second')"), both_numbers)));
  // With a higher limit, a reload opens them.
  EXPECT_TRUE(recording->reload(config_, sources_).value());
  EXPECT_THAT(recording->manifest().warnings, IsEmpty());
  for (const ManifestTrigger& trigger : recording->manifest().triggers) EXPECT_EQ(trigger.off, "") << trigger.name;
  EXPECT_THAT(open_with_descriptors(all)->manifest().warnings, IsEmpty());
}

TEST(DescriptorLimits, ThatOfTheMachineIsNotTakenForThatOfTheProcess) {
  const std::string own = explain_limit(sys_error(EMFILE, "open an event").value(), 100).value().what;
  EXPECT_THAT(own, AllOf(HasSubstr("about 100 descriptors"), HasSubstr("LimitNOFILE=")));
  const std::string machine = explain_limit(sys_error(ENFILE, "open an event").value(), 100).value().what;
  EXPECT_THAT(machine, AllOf(HasSubstr("fs.file-max is reached"), testing::Not(HasSubstr("NOFILE"))));
}

TEST_F(SmallLimits, RingsShrinkToTheMemoryThatMayBeLocked) {
  const auto with = [&](std::uint64_t limit_bytes) {
    auto plan = plan_recording(config_, sources_, features_, 2, cpus_);
    EXPECT_TRUE(plan) << plan.error().what;
    fit_locked_memory(*plan, 2, 2 * limit_bytes);
    return *plan;
  };
  const std::uint64_t triggers = 3 * (trigger_ring_bytes() + page_bytes());
  const auto bytes = [&](std::uint64_t sideband, std::uint64_t ring) {
    return 2 * (sideband + ring + 2 * page_bytes() + triggers);
  };
  const RecordingPlan whole = with(bytes(4 * kMi, kMi));
  EXPECT_EQ(whole.sideband_ring_bytes, 4 * kMi);
  EXPECT_THAT(whole.warnings, IsEmpty());
  const RecordingPlan smaller = with(bytes(4 * kMi, kMi) - 1);
  EXPECT_EQ(smaller.sideband_ring_bytes, 2 * kMi) << "the largest first";
  EXPECT_EQ(smaller.channels[0].ring_bytes, kMi);
  EXPECT_THAT(smaller.warnings, ElementsAre(AllOf(HasSubstr("the sideband's 2.0M instead of 4.0M"),
                                                  HasSubstr("CAP_IPC_LOCK"), HasSubstr("perf_event_mlock_kb"))));
  const RecordingPlan small = with(bytes(512 * kKi, 256 * kKi));
  EXPECT_EQ(small.sideband_ring_bytes, 512 * kKi);
  EXPECT_EQ(small.channels[0].ring_bytes, 256 * kKi);
  EXPECT_THAT(small.warnings, ElementsAre(HasSubstr("channel 'stacks' 256.0K instead of 1.0M")));
  EXPECT_EQ(with(0).channels[0].ring_bytes, kLeastRingBytes) << "the kernel refuses them";
}

// Another user, whose rings no other test has, with all that a broker needs but CAP_IPC_LOCK.
[[noreturn]] void in_a_container(int out, const std::function<std::string()>& work) {
  constexpr uid_t kUser = 64'990;
  constexpr std::array kKept = {CAP_PERFMON, CAP_SYS_ADMIN, CAP_DAC_READ_SEARCH};
  constexpr rlim_t kLocked = kMi;
  const rlimit locked{kLocked, kLocked};
  bool done = ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && ::setgid(kUser) == 0 && ::setuid(kUser) == 0 &&
              ::setrlimit(RLIMIT_MEMLOCK, &locked) == 0;
  cap_t caps = ::cap_init();
  for (const auto flag : {CAP_PERMITTED, CAP_EFFECTIVE})
    done = done && ::cap_set_flag(caps, flag, kKept.size(), kKept.data(), CAP_SET) == 0;
  done = done && ::cap_set_proc(caps) == 0;
  ::cap_free(caps);
  const auto written = write_all(out, done ? work() : "no such user");
  ::_exit(written ? 0 : 1);
}

// As perf record of the same user does by default.
bool another_ring_can_be_mapped() {
  perf_event_attr attr{};
  attr.size = sizeof attr;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.disabled = 1;
  const UniqueFd event(static_cast<int>(::syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
  void* ring = ::mmap(nullptr, page_bytes() + 512 * kKi, PROT_READ | PROT_WRITE, MAP_SHARED, event.get(), 0);
  return event && ring != MAP_FAILED;
}

TEST_F(SmallLimits, WithoutCapIpcLockSmallerRingsAreRecorded) {
  if (features_.paranoid < 0) return;  // there is no limit then
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0)
    in_a_container(ends[1], [&] {
      const auto recording = open_recording();
      if (!recording) return "refused: " + recording.error().what;
      std::string warnings;
      for (const std::string& warning : recording->manifest().warnings) warnings += warning + "\n";
      return warnings + (another_ring_can_be_mapped() ? "another fits" : "no other fits");
    });
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> some{};
  for (ssize_t count = 1; count > 0;) {
    count = ::read(ends[0], some.data(), some.size());
    if (count > 0) text.append(some.data(), static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(text,
              AllOf(HasSubstr("the kernel locks at most"), HasSubstr("instead of 4.0M"), HasSubstr("another fits")));
}

}  // namespace
}  // namespace flight
