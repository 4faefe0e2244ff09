// SPDX-License-Identifier: Apache-2.0
// Records that claim to be longer than they are, as the kernel writes them beside another user's perf.
#include "libcore/perf/record_cut.hpp"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <array>
#include <cstring>
#include <string>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr Trailer kCutTrailer{.pid = 1, .tid = 2, .time_ns = 345, .cpu = 3, .reserved = 0, .id = 77};
constexpr KsymbolRecord kCutSymbol{
    .address = 0xffffffffc0000000, .bytes = 64, .kind = 1, .flags = 0, .name = "bpf_prog_x"};

void append_bpf_event(RecordBuffer& out) {
  std::array<std::byte, 24> record{};
  perf_event_header header{};
  header.type = PERF_RECORD_BPF_EVENT;
  header.size = record.size() + sizeof(Trailer);
  std::memcpy(record.data(), &header, sizeof header);
  out.insert(out.end(), record.begin(), record.end());
  const auto trailer = std::as_bytes(std::span(&kCutTrailer, 1));
  out.insert(out.end(), trailer.begin(), trailer.end());
}

// The record that begins at `at` and ends at the end of `records` claims `more` bytes, which are stale.
void lengthen(RecordBuffer& records, std::size_t at, std::size_t more) {
  auto header = load<perf_event_header>(records.data() + at);
  header.size = static_cast<std::uint16_t>(header.size + more);
  std::memcpy(records.data() + at, &header, sizeof header);
  records.insert(records.end(), more, std::byte{0xee});
}

TEST(RecordCut, ALengthenedRecordIsAsItShouldBe) {
  RecordBuffer expected, records;
  append_comm(expected, {.pid = 1, .tid = 1, .name = "before"}, kCutTrailer);
  records = expected;
  for (const std::size_t more : {32U, 64U}) {
    std::size_t at = records.size();
    append_ksymbol(records, kCutSymbol, kCutTrailer);
    lengthen(records, at, more);
    append_ksymbol(expected, kCutSymbol, kCutTrailer);
    at = records.size();
    append_bpf_event(records);
    lengthen(records, at, more);
    append_bpf_event(expected);
  }
  append_cgroup(records, {.id = 9, .path = "/behind"}, kCutTrailer);
  append_cgroup(expected, {.id = 9, .path = "/behind"}, kCutTrailer);
  EXPECT_EQ(repair_records(records), 4U);
  EXPECT_EQ(records, expected);
}

TEST(RecordCut, NamesOfEveryLengthKeepTheirTrailer) {
  for (std::size_t length = 0; length < 40; ++length) {
    const std::string name(length, 'n');
    KsymbolRecord symbol = kCutSymbol;
    symbol.name = name;
    RecordBuffer records, expected;
    append_ksymbol(expected, symbol, kCutTrailer);
    append_ksymbol(records, symbol, kCutTrailer);
    EXPECT_EQ(repair_records(records), 0U) << length;
    EXPECT_EQ(records, expected);
    lengthen(records, 0, 40);
    EXPECT_EQ(repair_records(records), 1U) << length;
    EXPECT_EQ(records, expected);
    ASSERT_TRUE(parse_trailer(records));
    EXPECT_EQ(parse_trailer(records)->time_ns, kCutTrailer.time_ns);
  }
}

// By the device's number: the low byte of `major` would be the length of the build-id.
TEST(RecordCut, AMarkOfABuildIdThatIsNotThereIsTakenBack) {
  for (const std::uint32_t major : {0U, 8U, 20U, 254U, 259U}) {
    RecordBuffer expected;
    append_comm(expected, {.pid = 1, .tid = 1, .name = "before"}, kCutTrailer);
    const std::size_t at = expected.size();
    Mmap2Record map{.pid = 1, .tid = 1, .address = 0x1000, .bytes = 0x2000, .name = "/usr/bin/program"};
    map.major = major;
    map.minor = 3;
    map.inode = 12345;
    map.inode_generation = 6;
    append_mmap2(expected, map, kCutTrailer);
    append_comm(expected, {.pid = 1, .tid = 1, .name = "behind"}, kCutTrailer);
    RecordBuffer records = expected;
    auto header = load<perf_event_header>(records.data() + at);
    header.misc = static_cast<std::uint16_t>(header.misc | PERF_RECORD_MISC_MMAP_BUILD_ID);
    std::memcpy(records.data() + at, &header, sizeof header);
    clear_build_id_marks(records);
    EXPECT_EQ(records, expected) << major;
    const auto parsed = parse_mmap2(std::span(records).subspan(at));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->inode, 12345U);
    EXPECT_EQ(parsed->major, major);
  }
}

// Another user's session makes both mistakes in the same second: the marks are behind records that become shorter.
TEST(RecordCut, MarksBetweenLengthenedRecordsAreTakenBack) {
  const Mmap2Record map{.pid = 1, .tid = 1, .address = 0x1000, .bytes = 0x2000, .inode = 12345, .name = "/usr/bin/one"};
  RecordBuffer expected, records;
  for (const std::size_t more : {0U, 32U, 0U, 64U}) {
    std::size_t at = records.size();
    append_ksymbol(records, kCutSymbol, kCutTrailer);
    if (more != 0) lengthen(records, at, more);
    append_ksymbol(expected, kCutSymbol, kCutTrailer);
    at = records.size();
    append_mmap2(records, map, kCutTrailer);
    auto header = load<perf_event_header>(records.data() + at);
    header.misc = static_cast<std::uint16_t>(header.misc | PERF_RECORD_MISC_MMAP_BUILD_ID);
    std::memcpy(records.data() + at, &header, sizeof header);
    append_mmap2(expected, map, kCutTrailer);
  }
  RecordBuffer marks_only = records;
  EXPECT_EQ(repair_records(records), 2U);
  EXPECT_EQ(records, expected);
  clear_build_id_marks(marks_only);
  EXPECT_EQ(marks_only.size(), expected.size() + 96U) << "no record is cut";
  EXPECT_EQ(repair_records(marks_only), 2U);
  EXPECT_EQ(marks_only, expected);
}

TEST(RecordCut, RecordsOfUnknownLengthAreLeftAlone) {
  RecordBuffer records;
  append_comm(records, {.pid = 1, .tid = 1, .name = "x"}, kCutTrailer);
  lengthen(records, 0, 32);
  const std::size_t at = records.size();
  append_ksymbol(records, kCutSymbol, kCutTrailer);
  // No end of the name within the record.
  std::fill(records.begin() + static_cast<std::ptrdiff_t>(at + 24), records.end(), std::byte{'x'});
  const RecordBuffer before = records;
  EXPECT_EQ(repair_records(records), 0U);
  EXPECT_EQ(records, before);
  RecordBuffer none;
  EXPECT_EQ(repair_records(none), 0U);
}

}  // namespace
}  // namespace flight
