// SPDX-License-Identifier: Apache-2.0
// The attrs, opened on this kernel, and the errors, provoked on it.
#include "libcore/perf/attr.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>

#include "libcore/base/files.hpp"
#include "libcore/perf/record.hpp"
#include "tests/unit/perf/live_ring.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Also without tracefs.
EventSpec cpu_clock() { return parse_event("cpu-clock", {"", "/sys"}).value(); }

TEST(Attr, WhatAllOfThemShare) {
  KernelFeatures features;
  features.format_lost = true;
  for (const auto& attr : {owner_attr(features), sideband_attr(features), event_attr(cpu_clock(), {}, features)}) {
    EXPECT_EQ(attr.size, 128U);
    EXPECT_EQ(attr.disabled, 1U);
    EXPECT_EQ(attr.inherit, 0U);
    EXPECT_EQ(attr.sample_id_all, 1U);
    EXPECT_EQ(attr.exclude_guest, 1U);
    EXPECT_EQ(attr.use_clockid, 1U);
    EXPECT_EQ(attr.clockid, CLOCK_MONOTONIC);
    EXPECT_EQ(attr.sample_type & kSidebandSampleType, kSidebandSampleType);
    EXPECT_EQ(attr.read_format, std::uint64_t{PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED |
                                              PERF_FORMAT_TOTAL_TIME_RUNNING | PERF_FORMAT_LOST});
  }
  features.format_lost = false;
  EXPECT_EQ(owner_attr(features).read_format & PERF_FORMAT_LOST, 0U);
}

TEST(Attr, OfAnEvent) {
  KernelFeatures features;
  features.sample_cgroup = true;
  features.max_stack = 100;
  SamplingOptions options;
  options.stack = true;
  const auto attr = event_attr(cpu_clock(), options, features);
  EXPECT_EQ(attr.write_backward, 1U);
  EXPECT_EQ(attr.exclude_idle, 1U);
  EXPECT_EQ(attr.freq, 1U);
  EXPECT_EQ(attr.sample_freq, 99U);
  EXPECT_EQ(attr.sample_max_stack, 100U);
  EXPECT_EQ(attr.sample_type,
            kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_CGROUP);
  options.max_stack = 16;
  EXPECT_EQ(event_attr(cpu_clock(), options, features).sample_max_stack, 16U);
  features.sample_cgroup = false;
  EXPECT_EQ(event_attr(cpu_clock(), {}, features).sample_type,
            kSidebandSampleType | PERF_SAMPLE_IP | PERF_SAMPLE_PERIOD);
}

TEST(Attr, CopiesOfTheUsersStack) {
  SamplingOptions options;
  options.stack_bytes = 12288;
  EXPECT_EQ(event_attr(cpu_clock(), options, {}).sample_type & kUserCopies, 0U) << "an event without stacks";
  options.stack = true;
  const auto attr = event_attr(cpu_clock(), options, {});
  EXPECT_EQ(attr.sample_type & kUserCopies, kUserCopies);
  EXPECT_EQ(attr.sample_regs_user, kUserRegisters);
  EXPECT_EQ(attr.sample_stack_user, 12288U);
  EXPECT_NE(attr.sample_type & PERF_SAMPLE_CALLCHAIN, 0U);
  EXPECT_EQ(attr.exclude_callchain_user, 0U);
  EXPECT_EQ(attr.size, 128U);
  KernelFeatures crashes;
  crashes.copies_stacks = false;
  const auto on_that_kernel = event_attr(cpu_clock(), options, crashes);
  options.stack_bytes = 0;
  for (const auto& by_frame_pointer : {on_that_kernel, event_attr(cpu_clock(), options, {})}) {
    EXPECT_EQ(by_frame_pointer.sample_type & (kUserCopies | PERF_SAMPLE_CALLCHAIN), PERF_SAMPLE_CALLCHAIN);
    EXPECT_EQ(by_frame_pointer.sample_regs_user, 0U);
    EXPECT_EQ(by_frame_pointer.sample_stack_user, 0U);
  }
}

// On arm64; no other kernel crashes.
TEST(KernelFeatures, WhichKernelsMayCopyStacks) {
  constexpr const char* kNoVersion = "#1 SMP PREEMPT";
  for (const char* release : {"6.16.0", "6.16", "6.18.44", "7.0.1-arm64", "6.15.4", "6.12.35-v8+", "6.6.95", "6.1.142",
                              "5.15.186-1", "5.10.239"})
    EXPECT_TRUE(can_copy_stacks(release, kNoVersion, true)) << release;
  for (const char* release : {"6.15.3", "6.15", "6.14.11", "6.12.34", "6.6.94", "6.1.141", "6.1.0-37-arm64",
                              "6.8.0-64-generic", "5.15.185", "5.10.238", "5.4.295", "", "x"}) {
    EXPECT_FALSE(can_copy_stacks(release, kNoVersion, true)) << release;
    EXPECT_TRUE(can_copy_stacks(release, kNoVersion, false)) << release;
  }
  EXPECT_TRUE(can_copy_stacks("6.1.0-38-arm64", "#1 SMP Debian 6.1.147-1 (2025-08-02)", true));
  EXPECT_FALSE(can_copy_stacks("6.1.0-37-arm64", "#1 SMP Debian 6.1.140-1 (2025-05-22)", true));
}

TEST(Attr, RatesOfAnEvent) {
  EventSpec tracepoint;
  tracepoint.type = PERF_TYPE_TRACEPOINT;
  tracepoint.system = "sched";
  SamplingOptions options;
  EXPECT_EQ(event_attr(tracepoint, options, {}).freq, 0U);
  EXPECT_EQ(event_attr(tracepoint, options, {}).sample_period, 1U);
  EXPECT_NE(event_attr(tracepoint, options, {}).sample_type & PERF_SAMPLE_PERIOD, 0U);
  EXPECT_NE(event_attr(tracepoint, options, {}).sample_type & PERF_SAMPLE_RAW, 0U);
  EXPECT_EQ(event_attr(tracepoint, options, {}).exclude_callchain_user, 0U);
  options.period = 1000;
  EXPECT_EQ(event_attr(tracepoint, options, {}).sample_period, 1000U);
  EXPECT_EQ(event_attr(tracepoint, options, {}).sample_type & PERF_SAMPLE_PERIOD, 0U) << "else it records each";
  EXPECT_EQ(event_attr(cpu_clock(), options, {}).sample_period, 1000U);
  EXPECT_EQ(event_attr(cpu_clock(), options, {}).freq, 0U);
  options.frequency = 49;
  EXPECT_EQ(event_attr(cpu_clock(), options, {}).freq, 1U);
  EXPECT_EQ(event_attr(cpu_clock(), options, {}).sample_freq, 49U);
}

TEST(Attr, ModesOfAnEvent) {
  EventSpec spec = cpu_clock();
  spec.exclude_kernel = true;
  spec.precise_ip = 2;
  const auto attr = event_attr(spec, {}, {});
  EXPECT_EQ(attr.exclude_kernel, 1U);
  EXPECT_EQ(attr.exclude_user, 0U);
  EXPECT_EQ(attr.exclude_hv, 1U);
  EXPECT_EQ(attr.precise_ip, 2U);
  EXPECT_EQ(event_attr(cpu_clock(), {}, {}).exclude_hv, 0U);
}

// With this kernel's features, and with those of the oldest supported kernel.
TEST(OpenEvent, TheKernelTakesAllOfThem) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const OnCpu here;
  const auto probed = KernelFeatures::probe(here.cpu());
  SamplingOptions stack;
  stack.stack = true;
  SamplingOptions copies = stack;
  copies.stack_bytes = 12288;
  for (const auto& features : {probed, KernelFeatures{}}) {
    for (const auto& attr :
         {owner_attr(features), sideband_attr(features), event_attr(cpu_clock(), stack, features),
          event_attr(cpu_clock(), copies, features), event_attr(must_parse("sched:sched_switch"), copies, features),
          event_attr(must_parse("cpu-clock:u"), {}, features), event_attr(must_parse("page-faults"), {}, features),
          event_attr(must_parse("sched:sched_switch"), stack, features)}) {
      const auto event = open_event(attr, here.cpu(), "x");
      ASSERT_TRUE(event) << event.error().what;
      EXPECT_NE(::fcntl(event->get(), F_GETFD) & FD_CLOEXEC, 0);
      const auto id = event_id(event->get());
      ASSERT_TRUE(id);
      EXPECT_GT(*id, 0U);
    }
  }
}

TEST(OpenEvent, SaysWhatIsWrong) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const OnCpu here;
  const auto offline = open_event(owner_attr({}), 100000, "owner");
  ASSERT_FALSE(offline);
  EXPECT_THAT(offline.error().what, HasSubstr("'owner' on CPU 100000"));

  perf_event_attr no_pmu = owner_attr({});
  no_pmu.type = 4242;
  const auto unknown = open_event(no_pmu, here.cpu(), "nonsense/x=1/");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().errno_value(), ENOENT);
  EXPECT_THAT(unknown.error().what, HasSubstr("'nonsense/x=1/'"));
  EXPECT_THAT(unknown.error().what, HasSubstr("no PMU"));

  SamplingOptions fast;
  fast.frequency = 100'000'000;
  const auto refused = open_event(event_attr(cpu_clock(), fast, {}), here.cpu(), "cpu-clock");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EINVAL);
  EXPECT_THAT(refused.error().what, HasSubstr("perf_event_max_sample_rate"));

  EXPECT_FALSE(event_id(-1));
}

// Cycles open, or the error gives the cause and an event that works.
TEST(OpenEvent, CyclesAreAsTheProbeSaid) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const OnCpu here;
  const auto features = KernelFeatures::probe(here.cpu());
  const auto cycles = open_event(event_attr(must_parse("cycles"), {}, features), here.cpu(), "cycles");
  EXPECT_EQ(cycles.has_value(), features.hardware_pmu);
  if (cycles) return;
  EXPECT_EQ(cycles.error().errno_value(), ENOENT);
  EXPECT_THAT(cycles.error().what, HasSubstr("cpu-clock"));
}

TEST(KernelFeatures, AreThisKernels) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const OnCpu here;
  const auto features = KernelFeatures::probe(here.cpu());
  const auto paranoid = read_line("/proc/sys/kernel/perf_event_paranoid");
  ASSERT_TRUE(paranoid);
  EXPECT_EQ(std::to_string(features.paranoid), *paranoid);
  const auto max_stack = read_line("/proc/sys/kernel/perf_event_max_stack");
  ASSERT_TRUE(max_stack);
  EXPECT_EQ(std::to_string(features.max_stack), *max_stack);
  EXPECT_EQ(std::to_string(features.max_contexts),
            read_line("/proc/sys/kernel/perf_event_max_contexts_per_stack").value_or("8"));
  // A stack one frame too deep is refused, so the limit was read correctly.
  SamplingOptions options;
  options.stack = true;
  auto attr = event_attr(cpu_clock(), options, features);
  attr.sample_max_stack = static_cast<std::uint16_t>(features.max_stack + 1);
  EXPECT_EQ(open_event(attr, here.cpu(), "deep").error().errno_value(), EOVERFLOW);
}

// Runs `work` in a child after `prepare`, and returns its text.
std::string in_child(const std::function<void()>& prepare, const std::function<std::string()>& work) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    prepare();
    const auto written = write_all(ends[1], work());
    ::_exit(written ? 0 : 1);
  }
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
  return text;
}

void become_nobody() {
  constexpr uid_t kNobody = 65534;
  if (::setgroups(0, nullptr) != 0 || ::setgid(kNobody) != 0 || ::setuid(kNobody) != 0) ::_exit(2);
}

void lose_ipc_lock_and_memlock() {
  const rlimit none{0, 0};
  cap_t caps = ::cap_get_proc();
  const cap_value_t lock = CAP_IPC_LOCK;
  const bool done = ::cap_set_flag(caps, CAP_EFFECTIVE, 1, &lock, CAP_CLEAR) == 0 &&
                    ::cap_set_flag(caps, CAP_PERMITTED, 1, &lock, CAP_CLEAR) == 0 && ::cap_set_proc(caps) == 0;
  ::cap_free(caps);
  if (!done || ::setrlimit(RLIMIT_MEMLOCK, &none) != 0) ::_exit(2);
}

// It would break the records of other users' perf.
TEST(SidebandAttr, NeverAsksTheKernelForBuildIds) {
  EXPECT_EQ(sideband_attr(KernelFeatures::probe(::sched_getcpu())).build_id, 0U);
}

TEST(SidebandAttr, WakesItsReaderAt128KiB) {
  const perf_event_attr attr = sideband_attr({});
  EXPECT_EQ(attr.watermark, 1U);
  EXPECT_EQ(attr.wakeup_watermark, 128U << 10U);
}

int paranoid_now() { return KernelFeatures::probe(0).paranoid; }

TEST(Privilege, AsNobodyTheErrorNamesTheCapability) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const OnCpu here;
  const auto text = in_child(become_nobody, [&] {
    const auto event = open_event(sideband_attr({}), here.cpu(), "sideband");
    return event ? std::string("opened") : event.error().what;
  });
  if (paranoid_now() < 0) {
    EXPECT_EQ(text, "opened");
    return;
  }
  EXPECT_THAT(text, HasSubstr("'sideband' on CPU"));
  EXPECT_THAT(text, AnyOf(HasSubstr("CAP_PERFMON"), HasSubstr("CAP_SYS_ADMIN")));
  EXPECT_THAT(text, HasSubstr("kernel.perf_event_paranoid is " + std::to_string(paranoid_now())));
}

TEST(Privilege, RootLacksNothing) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  EXPECT_THAT(explain_privilege(EACCES), IsEmpty());
  EXPECT_THAT(explain_privilege(EPERM), IsEmpty());
  EXPECT_THAT(explain_privilege(ENOENT), IsEmpty());
}

TEST(Privilege, ARefusedRingIsExplained) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  const OnCpu here;
  const auto text = in_child(lose_ipc_lock_and_memlock, [&] {
    const auto owner = open_event(owner_attr({}), here.cpu(), "owner");
    if (!owner) return owner.error().what;
    const auto ring = Mapping::open(owner->get(), kPage + (64U << 20U), PROT_READ);
    if (ring) return std::string("mapped");
    return ring.error().errno_value() == EPERM ? explain_privilege(EPERM) : ring.error().what;
  });
  if (paranoid_now() < 0) {
    EXPECT_EQ(text, "mapped");
    return;
  }
  EXPECT_THAT(text, HasSubstr("CAP_IPC_LOCK"));
  EXPECT_THAT(text, HasSubstr("perf_event_mlock_kb"));
  EXPECT_THAT(text, HasSubstr("RLIMIT_MEMLOCK (0 KiB)"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("CAP_PERFMON")));
}

}  // namespace
}  // namespace flight::test
