// SPDX-License-Identifier: Apache-2.0
// A tracepoint's bytes as text: real formats of kernels, and bytes that do not fit the format.
#include "libcore/perf/tracepoint_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "libcore/base/text.hpp"
#include "libcore/perf/tracepoint.hpp"
#include "tests/unit/root_test.hpp"

namespace flight {
namespace {

constexpr std::string_view kMarkVictim =
    "name: mark_victim\nID: 609\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n"
    "\tfield:__data_loc char[] comm;\toffset:12;\tsize:4;\tsigned:0;\n"
    "\tfield:unsigned long total_vm;\toffset:16;\tsize:8;\tsigned:0;\n"
    "\tfield:short oom_score_adj;\toffset:24;\tsize:2;\tsigned:1;\n\n"
    "print fmt: \"pid=%d\", REC->pid\n";

class Bytes {
 public:
  explicit Bytes(std::size_t size, std::uint16_t id = 609) : bytes_(size) { put(0, id); }
  template <typename T>
  Bytes& put(std::size_t at, T value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  Bytes& text(std::size_t at, std::string_view text) {
    std::memcpy(bytes_.data() + at, text.data(), text.size());
    return *this;
  }
  operator std::span<const std::byte>() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Bytes victim(std::uint32_t comm_place) {
  Bytes bytes(40);
  bytes.put(8, 1234).put(12, comm_place).put(16, std::uint64_t{77}).put(24, std::int16_t{-998}).text(28, "stress");
  return bytes;
}

TEST(TracepointText, PrintsAllFields) {
  const auto format = TracepointFormat::parse(kMarkVictim);
  EXPECT_EQ(format.id, 609U);
  ASSERT_EQ(format.fields.size(), 4U) << "the common ones are left out";
  EXPECT_EQ(tracepoint_text(format, victim(7U << 16U | 28U)), "pid=1234, comm=stress, total_vm=77, oom_score_adj=-998");
}

TEST(TracepointText, APlaceOutsideTheRecordIsLeftOut) {
  const auto format = TracepointFormat::parse(kMarkVictim);
  for (const std::uint32_t place : {0xffffffffU, 7U << 16U | 36U, 0xffffU << 16U | 28U, 1U << 16U | 40U, 41U})
    EXPECT_EQ(tracepoint_text(format, victim(place)), "pid=1234, total_vm=77, oom_score_adj=-998") << place;
}

TEST(TracepointText, ARecordOfAnotherTracepointOrTooShortSaysNothing) {
  const auto format = TracepointFormat::parse(kMarkVictim);
  EXPECT_EQ(tracepoint_text(format, Bytes(40, 610)), "");
  EXPECT_EQ(tracepoint_text(format, {}), "");
  EXPECT_EQ(tracepoint_text(format, Bytes(2)), "");
  EXPECT_EQ(tracepoint_text(format, Bytes(12).put(8, -5)), "pid=-5") << "what is there is shown";
}

TEST(TracepointText, AStrangersTextIsCleanAndBounded) {
  const auto format = TracepointFormat::parse(
      "ID: 609\n\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
      "\tfield:char long_text[300];\toffset:24;\tsize:300;\tsigned:0;\n"
      "\tfield:char more[200];\toffset:324;\tsize:200;\tsigned:0;\n\tfield:int "
      "last;\toffset:524;\tsize:4;\tsigned:1;\n");
  Bytes bytes(528);
  bytes.text(8, "a\x1b[31m\n\xff").text(24, std::string(300, 'x')).text(324, std::string(200, 'y'));
  const std::string text = tracepoint_text(format, bytes);
  EXPECT_TRUE(is_printable(text)) << text;
  EXPECT_LE(text.size(), kMaxTracepointTextBytes);
  EXPECT_THAT(text, testing::StartsWith("comm=a?[31m??, long_text=xxx"));
}

TEST(TracepointText, KnowsPointersFlagsDevicesAndRelativePlaces) {
  const auto format = TracepointFormat::parse(
      "ID: 609\n\tfield:void * address;\toffset:8;\tsize:8;\tsigned:0;\n"
      "\tfield:unsigned int gfp_flags;\toffset:16;\tsize:4;\tsigned:0;\n"
      "\tfield:dev_t dev;\toffset:20;\tsize:4;\tsigned:0;\n"
      "\tfield:__rel_loc char[] name;\toffset:24;\tsize:4;\tsigned:0;\n"
      "\tfield:u8 list[4];\toffset:28;\tsize:4;\tsigned:0;\n\tfield:struct x y;\toffset:8;\tsize:3;\tsigned:0;\n");
  Bytes bytes(40);
  bytes.put(8, std::uint64_t{0x1000}).put(16, 0x10U).put(20, 8U << 20U | 1U).put(24, 4U << 16U | 4U).text(32, "sda");
  EXPECT_EQ(tracepoint_text(format, bytes), "address=0x1000, gfp_flags=0x10, dev=8:1, name=sda");
}

// Neither the format nor the bytes are trusted: for any content, no read goes outside, and the text is printable.
TEST(TracepointText, GarbageIsHarmless) {
  std::mt19937 random(7);
  std::string format_text(kMarkVictim);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = format_text;
    for (int i = 0; i < 4; ++i) text[random() % text.size()] = static_cast<char>(random());
    std::vector<std::byte> bytes(random() % 64);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    auto format = TracepointFormat::parse(text);
    if (bytes.size() >= 2) std::memcpy(&format.id, bytes.data(), 2), format.id &= 0xffffU;
    const std::string shown = tracepoint_text(format, bytes);
    ASSERT_TRUE(is_printable(shown));
    ASSERT_LE(shown.size(), kMaxTracepointTextBytes);
  }
  for (const char* text :
       {"", "\tfield:", "\tfield:;", "\tfield:int;\toffset:0;\tsize:4;", "\tfield:int x;\toffset:-1;\tsize:4;",
        "\tfield:int x;\toffset:99999999999999999999;\tsize:4;", "ID: x"})
    EXPECT_TRUE(TracepointFormat::parse(text).fields.empty()) << text;
}

TEST(TracepointText, EveryFormatOfThisKernelIsRead) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const auto tracefs = find_or_mount_tracefs();
  if (!tracefs) GTEST_SKIP() << tracefs.error().what;
  std::size_t fields = 0;
  for (const char* name : {"sched_switch", "sched_process_exec", "sched_process_exit"}) {
    const auto text = tracepoint_format(*tracefs, "sched", name);
    ASSERT_TRUE(text) << text.error().what;
    const auto format = TracepointFormat::parse(*text);
    EXPECT_EQ(format.id, tracepoint_id(*tracefs, "sched", name).value());
    fields += format.fields.size();
  }
  EXPECT_GT(fields, 8U);
}

}  // namespace
}  // namespace flight
