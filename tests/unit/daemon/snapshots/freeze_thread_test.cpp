// SPDX-License-Identifier: Apache-2.0
// Which work runs on the freeze thread, at real-time priority, and which does not.
#include "daemon/snapshots/freeze_thread.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "libcore/perf/attr.hpp"
#include "libcore/recorder/channel.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::daemon {
namespace {

constexpr std::uint64_t kRingBytes = 16U << 20U;

std::chrono::nanoseconds own_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// CPU time of this process's thread of that name (proc(5), schedstat's first number).
std::chrono::nanoseconds cpu_time_of(const std::string& name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    std::int64_t ns = 0;
    if (comm == name && std::ifstream(task.path() / "schedstat") >> ns) return std::chrono::nanoseconds(ns);
  }
  return std::chrono::nanoseconds(-1);
}

TEST(FreezeThread, LeavesTheBulkOfTheCopyToItsCaller) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  auto owner = open_event(owner_attr(KernelFeatures{}), 0, "owner");
  ASSERT_TRUE(owner) << owner.error().what;
  const ManifestRing info{.kind = RingKind::channel, .channel = "quiet", .cpu = 0, .ring_bytes = kRingBytes};
  auto ring = Ring::open(std::move(*owner), info);
  ASSERT_TRUE(ring) << ring.error().what;
  Rings rings;
  rings.push_back(std::make_shared<const Ring>(std::move(*ring)));
  auto staging = Staging::create(rings);
  ASSERT_TRUE(staging) << staging.error().what;
  const auto made = FreezeThread::start().value();
  FreezeThread& freezer = *made;
  for (const CaptureMode mode : {CaptureMode::pause, CaptureMode::live}) {
    const auto own_before = own_cpu_time(), freezer_before = cpu_time_of("freeze");
    ASSERT_GE(freezer_before.count(), 0) << "there is no thread of that name, or no schedstat";
    for (int i = 0; i < 10; ++i) freezer.freeze(*staging, mode);
    EXPECT_LT(cpu_time_of("freeze") - freezer_before, (own_cpu_time() - own_before) / 2) << to_string(mode);
  }
}

}  // namespace
}  // namespace flight::daemon
