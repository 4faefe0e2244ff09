// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record.hpp"

namespace flight::broker {
namespace {

std::string executable_in(const RecordBuffer& records) {
  const auto map = parse_mmap2(records);
  return map && map->is_program && map->bytes == 0 ? std::string(map->name) : std::string();
}

// The parent of a kernel thread is kthreadd, and so is that of a helper that the kernel has started.
TEST(ScanRecords, AChildOfKthreaddThatIsNoKernelThreadHasAnExecutable) {
  const Trailer at{.pid = 20, .tid = 20, .time_ns = 5};
  ProcessStat helper;
  helper.pid = 20;
  helper.parent = 2;
  RecordBuffer unread;
  append_unread_program(unread, helper, {}, at);
  EXPECT_EQ(executable_in(unread), kUnreadProgram);
  EXPECT_EQ(next_record(unread).size(), unread.size());

  ProcessInfo info;
  info.executable = "/sbin/helper";
  RecordBuffer known, none;
  append_executable(known, info, at);
  EXPECT_EQ(executable_in(known), "/sbin/helper");
  append_unread_program(none, helper, known, at);
  helper.is_kernel_thread = true;
  append_unread_program(none, helper, {}, at);
  helper.is_kernel_thread = false;
  helper.parent = 1;
  append_unread_program(none, helper, {}, at);
  EXPECT_TRUE(none.empty());
}

TEST(ScanRecords, ThreadsThatAreNotListedAreCounted) {
  ProcessInfo info;
  info.pid = 20;
  info.threads.push_back({21, "worker"});
  RecordBuffer all, some;
  append_threads(all, info, {.time_ns = 5});
  info.threads_left_out = 7;
  append_threads(some, info, {.time_ns = 5});
  ASSERT_GT(some.size(), all.size());
  EXPECT_TRUE(std::equal(all.begin(), all.end(), some.begin()));
  const auto last = std::span<const std::byte>(some).subspan(all.size());
  const auto fields = lost_fields(last);
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->id, 7U);
  EXPECT_EQ(next_record(last).size(), last.size());
  EXPECT_EQ(parse_trailer(last)->reserved, kScanThreadsLeftOut);
  EXPECT_EQ(parse_trailer(last)->pid, 20U);
}

}  // namespace
}  // namespace flight::broker
