// SPDX-License-Identifier: Apache-2.0
// Copies of the user's registers and stack as this kernel writes them.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "libcore/base/clock.hpp"
#include "libcore/perf/sample_parts.hpp"
#include "tests/unit/perf/live_ring.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {
namespace {

constexpr std::uint32_t kCopiedBytes = 4096;
// The places of stack pointer and pc among kUserRegisters (asm/perf_regs.h).
#if defined(__x86_64__)
constexpr std::size_t kStackPointerAt = 7, kPcAt = 8;
#else
constexpr std::size_t kStackPointerAt = 31, kPcAt = 32;
#endif

struct LiveCopy {
  EventTime time_ns = 0;
  bool user = false;
  SampleFields fields;
  SampleParts parts;
  std::vector<std::byte> record;

  [[nodiscard]] std::uint64_t word(std::size_t at) const { return load<std::uint64_t>(record.data() + at); }
  [[nodiscard]] std::uint64_t user_register(std::size_t number) const { return word(parts.registers + 8 * number); }
  // Among the valid bytes. arm64 may sign return addresses: only the address is compared.
  [[nodiscard]] bool has_on_stack(std::uint64_t value) const {
    constexpr std::uint64_t kAddress = (std::uint64_t{1} << 48U) - 1;
    for (std::uint64_t at = 0; at + 8 <= parts.valid_bytes; at += 8)
      if ((word(parts.stack + at) & kAddress) == (value & kAddress)) return true;
    return false;
  }
};

// Works for a moment; its return address is on the stack meanwhile. Returns it.
[[gnu::noinline]] std::uint64_t work_a_moment() {
  const EventTime end = monotonic_now() + 3'000'000;
  volatile std::uint64_t sum = 0;
  while (monotonic_now() < end) {
    for (std::uint64_t i = 0; i < 10'000; ++i) sum = sum + i;
  }
  return reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
}

[[noreturn]] void spin_without_stack() {
#if defined(__x86_64__)
  asm volatile("xor %%esp, %%esp\n1: jmp 1b" ::: "memory");
#elif defined(__aarch64__)
  asm volatile("mov x9, #0\nmov sp, x9\n1: b 1b" ::: "x9", "memory");
#endif
  std::abort();
}

class LiveCopies : public RootTest {
 protected:
  void SetUp() override {
    ring_.emplace(4U << 20U);
    ASSERT_FALSE(HasFailure());
    if (!ring_->features().copies_stacks) GTEST_SKIP() << "this kernel can crash";
    fd_ = ring_->add("cpu-clock", "", true, {.period = 1'000'000, .stack = true, .stack_bytes = kCopiedBytes});
    ASSERT_FALSE(HasFailure());
    ASSERT_EQ(::ioctl(fd_, PERF_EVENT_IOC_ENABLE, 0), 0);
  }

  // All samples, the oldest first; how many the walk dropped is in dropped_.
  std::vector<LiveCopy> look() {
    const RingImage image = ring_->image();
    const WalkResult walk = walk_ring(image, ring_->table());
    dropped_ = walk.bad_records;
    std::vector<std::byte> scratch(kMaxRecordBytes);
    std::vector<LiveCopy> all;
    for (const RecordRef& ref : walk.records) {
      if (ref.type != PERF_RECORD_SAMPLE) continue;
      const auto record = record_bytes(image, ref, scratch);
      const RecordLayout& layout = ring_->table().layout(0);
      const auto fields = sample_fields(record, layout);
      const auto parts = sample_parts(record, layout);
      EXPECT_TRUE(fields && parts);
      if (!fields || !parts) continue;
      const bool user =
          (load<perf_event_header>(record.data()).misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
      all.push_back({.time_ns = ref.time_ns,
                     .user = user,
                     .fields = *fields,
                     .parts = *parts,
                     .record = {record.begin(), record.end()}});
    }
    return all;
  }
  // This thread's, taken in user mode.
  std::vector<LiveCopy> mine() {
    std::vector<LiveCopy> all = look();
    std::erase_if(all, [](const LiveCopy& copy) {
      return !copy.user || copy.fields.pid != static_cast<std::uint32_t>(::getpid());
    });
    return all;
  }
  // False: it did not happen in half a minute.
  template <typename Done>
  bool until(const Done& done) {
    const EventTime end = monotonic_now() + 30'000'000'000;
    while (!done())
      if (monotonic_now() > end) return false;
    return true;
  }

  std::optional<LiveRing> ring_;
  int fd_ = -1;
  std::uint64_t dropped_ = 0;
};

TEST_F(LiveCopies, AreThoseOfTheSampledThread) {
  std::vector<LiveCopy> seen;
  std::uint64_t return_address = 0;
  ASSERT_TRUE(until([&] {
    return_address = work_a_moment();
    seen = mine();
    return seen.size() >= 20;
  }));
  EXPECT_EQ(dropped_, 0U);
  const auto frame = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  constexpr std::uint64_t kNear = 1U << 20U;
  for (const LiveCopy& copy : seen) {
    ASSERT_EQ(copy.parts.abi, PERF_SAMPLE_REGS_ABI_64);
    EXPECT_EQ(copy.parts.stack_bytes, kCopiedBytes);
    EXPECT_GT(copy.parts.valid_bytes, 0U);
    EXPECT_EQ(copy.user_register(kPcAt), copy.fields.ip);
    const std::uint64_t stack_pointer = copy.user_register(kStackPointerAt);
    EXPECT_LT(stack_pointer, frame + kNear);
    EXPECT_GT(stack_pointer, frame - kNear);
    if (ring_->features().sample_cgroup) {
      EXPECT_NE(copy.fields.cgroup, 0U);
    }
  }
  EXPECT_TRUE(
      std::any_of(seen.begin(), seen.end(), [&](const LiveCopy& copy) { return copy.has_on_stack(return_address); }));
}

// Its samples are written over the headers of those before (overruns() in sample_parts.hpp).
TEST_F(LiveCopies, AProgramWithoutAStackPointerHidesNothing) {
  ASSERT_TRUE(until([&] {
    static_cast<void>(work_a_moment());
    return mine().size() >= 3;
  }));
  const EventTime before_ns = mine().back().time_ns;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    spin_without_stack();
  }
  ASSERT_GT(child, 0);
  const bool sampled = until([&] {
    ::usleep(5000);
    const std::vector<LiveCopy> all = look();
    const auto its = std::count_if(all.begin(), all.end(), [&](const LiveCopy& copy) {
      return copy.fields.pid == static_cast<std::uint32_t>(child);
    });
    return static_cast<std::uint64_t>(its) + dropped_ >= 3;
  });
  EXPECT_EQ(::ioctl(fd_, PERF_EVENT_IOC_DISABLE, 0), 0);
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_TRUE(sampled);
  const std::vector<LiveCopy> all = look();
  ASSERT_FALSE(all.empty());
  EXPECT_LE(all.front().time_ns, before_ns);
}

}  // namespace
}  // namespace flight::test
