// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/folded.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <sstream>
#include <string>
#include <vector>

#include "libcore/base/text.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kUserContext = PERF_CONTEXT_USER;

Result<SnapshotProfile> profile_of_records(const RecordBuffer& records) {
  return SnapshotProfile::read(test::made_file(records), {.read_files = false});
}

std::vector<std::string> folded(const SnapshotProfile& profile, std::size_t event) {
  std::string text;
  const auto written = write_folded(profile, event, [&](std::string_view lines) -> Result<void> {
    EXPECT_TRUE(lines.ends_with('\n'));
    text += lines;
    return {};
  });
  EXPECT_TRUE(written);
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) out.push_back(line);
  std::sort(out.begin(), out.end());
  return out;
}

RecordBuffer records_of_a_server(std::string_view comm) {
  RecordBuffer out;
  append_comm(out, {.pid = 10, .tid = 10, .name = comm}, {});
  append_mmap2(out, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/usr/bin/a;b"}, {});
  for (const EventTime time_ns : {1000U, 1001U, 1002U})
    test::append_sample(out, {.time_ns = time_ns, .ip = 0x400010, .chain = {kUserContext, 0x400010, 0x400020}});
  test::append_sample(out, {.time_ns = 1003, .ip = 0x400020, .chain = {kUserContext, 0x400020}});
  test::append_switch(out, {.time_ns = 1004, .ip = 0x400030});
  return out;
}

TEST(Folded, ALineForEachStack) {
  const auto profile = profile_of_records(records_of_a_server("server"));
  ASSERT_TRUE(profile);
  EXPECT_EQ(main_event(*profile), 1U);
  EXPECT_THAT(folded(*profile, 1), testing::ElementsAre("server;a:b+0x20 1", "server;a:b+0x20;a:b+0x10 3"));
  EXPECT_THAT(folded(*profile, 2), testing::ElementsAre("server;a:b+0x30 1"));
  EXPECT_TRUE(folded(*profile, 0).empty());
}

TEST(Folded, AHostileNameIsOneFrame) {
  for (const char* comm : {"a;b 1\nc", "\x1b[2J", "\xff\xfe", "\xe2\x80\xae"}) {
    const auto profile = profile_of_records(records_of_a_server(comm));
    ASSERT_TRUE(profile);
    const auto lines = folded(*profile, 1);
    ASSERT_EQ(lines.size(), 2U) << comm;
    for (const std::string& line : lines) {
      EXPECT_TRUE(is_printable(line)) << line;
      EXPECT_LE(std::count(line.begin(), line.end(), ';'), 2);
    }
  }
  const auto nameless = profile_of_records(records_of_a_server(""));
  ASSERT_TRUE(nameless);
  EXPECT_EQ(folded(*nameless, 1).size(), 2U);
}

TEST(Folded, TheMainEventIsOneWithSamples) {
  RecordBuffer switches, none;
  append_comm(none, {.pid = 10, .tid = 10, .name = "idle"}, {});
  test::append_switch(switches, {.time_ns = 1004, .ip = 0x400030});
  EXPECT_EQ(main_event(*profile_of_records(switches)), 2U);
  EXPECT_EQ(main_event(*profile_of_records(none)), 1U) << "the one with a frequency";
  const auto wanted = SnapshotProfile::read(test::made_file(none), {.only = {.event = "context-*"}});
  ASSERT_TRUE(wanted);
  EXPECT_EQ(main_event(*wanted), 2U) << "the one that is asked for";
}

TEST(Folded, StopsWhereNothingCanBeWritten) {
  const auto profile = profile_of_records(records_of_a_server("server"));
  ASSERT_TRUE(profile);
  const auto written =
      write_folded(*profile, 1, [](std::string_view) -> Result<void> { return sys_error(ENOSPC, "write"); });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().errno_value(), ENOSPC);
}

}  // namespace
}  // namespace flight
