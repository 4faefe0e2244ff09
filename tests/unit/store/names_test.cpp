// SPDX-License-Identifier: Apache-2.0
#include "libcore/store/names.hpp"

#include <gtest/gtest.h>

namespace flight {
namespace {

// 2026-11-20T03:12:04.123Z
constexpr WallTime kTime = std::chrono::milliseconds(1795144324123);

SnapshotName name_of(std::string host, std::string trigger, std::uint64_t seq) {
  return {.host = std::move(host), .time = kTime, .trigger = std::move(trigger), .seq = seq};
}

TEST(SnapshotName, IsBuiltAsTheManualHasIt) {
  const SnapshotName name = name_of("web3", "manual", 42);
  EXPECT_EQ(name.data_file(), "flight-web3-20261120T031204.123Z-manual-42.perf.data");
  EXPECT_EQ(name.sidecar_file(), "flight-web3-20261120T031204.123Z-manual-42.json");
}

TEST(SnapshotName, ReadsWhatItWrote) {
  // Hosts and triggers with dashes, digits, and text that looks like a time or a suffix.
  for (const std::string host :
       {"web3", "a", "web-3.example-7.com", "-", "Z-Z", "x-20261120T031204.123Z-manual-7", "a.perf.data", "h_h"})
    for (const std::string trigger : {"manual", "broker-lost", "0", "cpu-spike-2-", "a--b"})
      for (const std::uint64_t seq : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX}) {
        const SnapshotName name = name_of(host, trigger, seq);
        for (const std::string& file : {name.data_file(), name.sidecar_file()}) {
          const auto read = parse_snapshot_name(file);
          ASSERT_TRUE(read) << file;
          EXPECT_EQ(read->host, host) << file;
          EXPECT_EQ(read->time, kTime) << file;
          EXPECT_EQ(read->trigger, trigger) << file;
          EXPECT_EQ(read->seq, seq) << file;
        }
      }
}

// A machine's clock may be wrong by centuries.
TEST(SnapshotName, ReadsWhatItWroteInAnyYear) {
  for (const std::int64_t seconds : {0LL, 7'258'118'400LL, 8'277'292'036LL}) {  // the last one is of 2232
    SnapshotName name = name_of("web3", "manual", 1);
    name.time = std::chrono::seconds(seconds);
    const auto read = parse_snapshot_name(name.data_file());
    ASSERT_TRUE(read) << name.data_file();
    EXPECT_EQ(read->time, name.time);
  }
}

TEST(SnapshotName, LookAlikesAreNotOurs) {
  for (const char* file : {"",
                           "flight-",
                           ".perf.data",
                           "perf.data",
                           "flight-web3-20261120T031204.123Z-manual-42",
                           "flight-web3-20261120T031204.123Z-manual-42.perf.data.old",
                           "flight-web3-20261120T031204.123Z-manual-42.json~",
                           "flight-web3-20261120T031204.123Z-manual-42.perf.data.partial",
                           "Flight-web3-20261120T031204.123Z-manual-42.perf.data",
                           "xflight-web3-20261120T031204.123Z-manual-42.json",
                           "flight-web3-20261120T031204.123Z-manual-042.json",
                           "flight-web3-20261120T031204.123Z-manual-.json",
                           "flight-web3-20261120T031204.123Z-manual.json",
                           "flight-web3-20261120T031204.123Z--42.json",
                           "flight-web3-20261120T031204.123Z-Manual-42.json",
                           "flight-web3-20261120T031204.123Z-man_ual-42.json",
                           "flight-web3-20261120T031204.123Z-manual-4x.json",
                           "flight-web3-20261120T031204.123Z-manual--42.json.json",
                           "flight-web3-20261120T031204.123Z-manual-99999999999999999999.json",
                           "flight--20261120T031204.123Z-manual-42.json",
                           "flight-20261120T031204.123Z-manual-42.json",
                           "flight-web3-20261320T031204.123Z-manual-42.json",
                           "flight-web3-20260231T031204.123Z-manual-42.json",
                           "flight-web3-20261120T241204.123Z-manual-42.json",
                           "flight-web3-99991120T031204.123Z-manual-42.json",
                           "flight-web3-19691120T031204.123Z-manual-42.json",
                           "flight-web3-20261120T031204.12xZ-manual-42.json",
                           "flight-web3-2026-1120T031204.123Z-manual-42.json",
                           "flight-we b-20261120T031204.123Z-manual-42.json",
                           "flight-we/b-20261120T031204.123Z-manual-42.json",
                           "flight-../x-20261120T031204.123Z-manual-42.json",
                           "flight-web3-20261120T031204.123Z-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-42.json"})
    EXPECT_FALSE(parse_snapshot_name(file)) << file;
  EXPECT_FALSE(parse_snapshot_name("flight-" + std::string(65, 'h') + "-20261120T031204.123Z-manual-42.json"));
  EXPECT_FALSE(parse_snapshot_name(std::string("flight-a\0b-20261120T031204.123Z-manual-42.json", 47)));
}

TEST(PartFile, NamesAreReadAsTheyAreWritten) {
  EXPECT_EQ(part_file(PartFileKind::data, 12), ".flightd-part-12.partial");
  EXPECT_EQ(part_file(PartFileKind::journal, 12), ".flightd-rec-12.partial");
  EXPECT_EQ(part_file(PartFileKind::sidecar, 12), ".flightd-side-12.partial");
  for (const PartFileKind kind : {PartFileKind::data, PartFileKind::journal, PartFileKind::sidecar}) {
    const auto name = parse_part_file(part_file(kind, 7));
    ASSERT_TRUE(name);
    EXPECT_EQ(name->kind, kind);
    EXPECT_EQ(name->seq, 7U);
  }
  for (const char* other :
       {".flightd-part-.partial", ".flightd-part-07.partial", ".flightd-part-7x.partial", ".flightd-part-7",
        ".flightd-0123456789abcdef.partial", "flightd-part-7.partial", ".flightd-rec-99999999999999999999.partial", ""})
    EXPECT_FALSE(parse_part_file(other)) << other;
}

TEST(SnapshotName, CutAnywhereIsNotOurs) {
  const std::string file = name_of("web-3", "cpu-spike", 42).data_file();
  for (std::size_t i = 0; i < file.size(); ++i) {
    EXPECT_FALSE(parse_snapshot_name(file.substr(0, i))) << i;
  }
}

TEST(CleanHost, KeepsWhatFileNamesCanCarry) {
  EXPECT_EQ(clean_host("web-3.example_7.com"), "web-3.example_7.com");
  EXPECT_EQ(clean_host("a/b c\xc3\xa4\n"), "a_b_c___");
  EXPECT_EQ(clean_host(std::string(80, 'x')), std::string(64, 'x'));
  EXPECT_FALSE(clean_host("").empty());
}

TEST(TriggerName, Rule) {
  for (const char* good : {"a", "0", "cpu-spike", "a-", "abcdefghijklmnopqrstuvwxyz012345"})
    EXPECT_TRUE(valid_trigger_name(good)) << good;
  for (const char* bad : {"", "-a", "A", "a_b", "a.b", "a b", "ä", "abcdefghijklmnopqrstuvwxyz0123456"})
    EXPECT_FALSE(valid_trigger_name(bad)) << bad;
}

TEST(ParseSeq, OnlyDecimal) {
  EXPECT_EQ(parse_seq("0"), 0U);
  EXPECT_EQ(parse_seq("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "00", "01", "+1", "-1", " 1", "1 ", "0x1", "1.0", "18446744073709551616", "../1"})
    EXPECT_FALSE(parse_seq(bad)) << bad;
}

TEST(Kallsyms, Names) {
  const std::string file = kallsyms_file("0f7c7b3e-6a0f-4a53-9f7a-0d6a4a9a2f11");
  EXPECT_EQ(file, "kallsyms-0f7c7b3e-6a0f-4a53-9f7a-0d6a4a9a2f11.zst");
  EXPECT_TRUE(is_kallsyms_file(file));
  EXPECT_EQ(kallsyms_file("0f7c", "0123456789abcdef"), "kallsyms-0f7c-0123456789abcdef.zst");
  EXPECT_TRUE(is_kallsyms_file(kallsyms_file("0f7c", "0123456789abcdef")));
  for (const char* bad :
       {"kallsyms-.zst", "kallsyms.zst", "kallsyms-a.zst.partial", "kallsyms-a/b.zst", "xkallsyms-a.zst"})
    EXPECT_FALSE(is_kallsyms_file(bad)) << bad;
}

}  // namespace
}  // namespace flight
