// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/cpu_watch.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/daemon/broker/broker_process.hpp"

namespace flight::broker {
namespace {

// Makes the kernel send a uevent again (Documentation/ABI/testing/sysfs-uevent). False if this machine does not permit
// it.
bool send_uevent_of_a_cpu() {
  std::ofstream file("/sys/devices/system/cpu/cpu0/uevent");
  return (file << "change" << std::flush).good();
}

// The uevent is consumed before the CPUs are read. If reading fails, the next check still reports the change.
TEST(CpuWatch, ALookThatFailedIsRepeatedWithItsReason) {
  const test::TempFolder folder;
  const std::string sys = folder / "sys/devices/system/cpu";
  std::filesystem::create_directories(sys);
  CpuWatch watch = CpuWatch::open(folder.path());
  if (watch.fd() < 0 || !send_uevent_of_a_cpu()) GTEST_SKIP() << "no uevents here";
  pollfd watched{watch.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&watched, 1, 5000), 1);
  EXPECT_FALSE(watch.look()) << "there is no list of CPUs";
  std::ofstream(sys + "/online") << "0-1\n";
  EXPECT_FALSE(watch.look()) << "at once would be a busy loop where it fails again";
  std::this_thread::sleep_for(kWatchEvery);
  const auto look = watch.look();
  ASSERT_TRUE(look);
  EXPECT_EQ(look->online, (std::vector<int>{0, 1}));
  EXPECT_EQ(look->probe, Probe::suspected);
  std::this_thread::sleep_for(kWatchEvery);
  const auto next = watch.look();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->probe, Probe::none) << "that was settled";
}

}  // namespace
}  // namespace flight::broker
