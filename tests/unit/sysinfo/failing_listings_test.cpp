// SPDX-License-Identifier: Apache-2.0
// A directory of /proc that cannot be read to its end: who is not listed has not ended.
#include "tests/unit/base/failing_listings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "libcore/sysinfo/processes.hpp"

namespace flight {
namespace {

using test::with_failing_listings;
using testing::Contains;
using testing::HasSubstr;

TEST(FailingListings, NoListOfProcessesIsAnErrorAndNotEmpty) {
  const auto listed = with_failing_listings([] { return list_processes(); });
  ASSERT_FALSE(listed) << listed->size() << " processes";
  EXPECT_EQ(listed.error().errno_value(), EIO);
  EXPECT_THAT(listed.error().what, HasSubstr("/proc"));
  int visited = 0;
  const auto done =
      with_failing_listings([&visited] { return for_each_process([&visited](const ProcessInfo&) { ++visited; }); });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value(), EIO);
  EXPECT_EQ(visited, 0);
  EXPECT_THAT(list_processes().value(), Contains(static_cast<std::uint32_t>(::getpid()))) << "on another thread";
}

TEST(FailingListings, ThreadsThatCannotBeListedAreMissing) {
  ProcessInfo info;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  ASSERT_TRUE(with_failing_listings([&] { return read_process(pid, info); }));
  EXPECT_EQ(info.pid, pid);
  EXPECT_TRUE(info.threads_cut);
  ASSERT_TRUE(read_process(pid, info));
}

}  // namespace
}  // namespace flight
