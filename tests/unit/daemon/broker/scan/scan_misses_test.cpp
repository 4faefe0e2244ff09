// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_misses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/config/memory_share.hpp"

namespace flight::broker {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TEST(ScanMisses, TheWarningHasReasonAndAdvice) {
  const std::size_t small = scan_bytes(kLeastBesideRingsBytes), largest = scan_bytes(kMostBesideRingsBytes);
  ScanMisses misses;
  EXPECT_EQ(misses.warning(small), "");
  misses.add(ScanMiss::memory, 12, "bash");
  EXPECT_THAT(misses.warning(small),
              AllOf(HasSubstr("scan of /proc"), HasSubstr("mappings of 1 process "), HasSubstr("(limit of memory.max"),
                    HasSubstr("raise memory.max)"), HasSubstr("no names"), EndsWith(": 12 (bash)")));
  EXPECT_EQ(misses.warning(largest).find("raise memory.max"), std::string::npos) << "it would not help";
  misses.add(ScanMiss::late, 13, "");
  misses.unread = 1;
  EXPECT_THAT(misses.warning(small), AllOf(HasSubstr("scan of /proc"), HasSubstr("mappings of 2 processes "),
                                           HasSubstr("(1: limit of memory.max"), HasSubstr("raise memory.max; "),
                                           HasSubstr(" 1: not read in time)"), HasSubstr("no names"),
                                           HasSubstr(": 12 (bash), 13 (?);"), HasSubstr("of 1 process, only the pid")));
  for (std::uint32_t pid = 14; pid < 24; ++pid) misses.add(ScanMiss::cut, pid, "x");
  EXPECT_EQ(misses.count(), 12U);
  EXPECT_NE(misses.warning(small).find("10: more mappings or threads than flightd reads of one process"),
            std::string::npos);
  EXPECT_NE(misses.warning(small).find("19 (x) and 4 more;"), std::string::npos) << misses.warning(small);
}

// Their mappings are there, and the next scan would find no more.
TEST(ScanMisses, ThreadsBeyondTheLimitAreCounted) {
  const std::size_t bytes = scan_bytes(kMostBesideRingsBytes);
  ScanMisses misses;
  misses.leave_out(0);
  EXPECT_EQ(misses.warning(bytes), "");
  misses.leave_out(4464);
  misses.leave_out(36);
  EXPECT_EQ(misses.count(), 0U);
  const std::string alone = misses.warning(bytes);
  EXPECT_THAT(alone, AllOf(StartsWith("4500 threads of 2 processes"), HasSubstr("65536")));
  misses.add(ScanMiss::late, 12, "bash");
  EXPECT_THAT(misses.warning(bytes), AllOf(HasSubstr("mappings of 1 process"), EndsWith(": 12 (bash); " + alone)));
}

}  // namespace
}  // namespace flight::broker
