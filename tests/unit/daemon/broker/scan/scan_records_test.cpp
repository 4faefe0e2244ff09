// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_records.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace flight::broker
