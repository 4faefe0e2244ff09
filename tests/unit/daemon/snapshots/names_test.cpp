// SPDX-License-Identifier: Apache-2.0
// The reason that a snapshot states for a mapped file without a build-id, and whether it is a note or a warning.
#include "daemon/snapshots/names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/perf/record_build.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;

class UnnamedFiles : public testing::Test {
 protected:
  static constexpr EventTime kMappedNs = 99;
  static constexpr FileIdentity kMapped{.major = 8, .minor = 1, .inode = 1, .generation = 5};

  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    ASSERT_NO_FATAL_FAILURE(bench_.start({.processes = scan_with(kUnknownPid, "first")}));
  }
  // Whether a snapshot with one mapping states this reason. The broker may be late, and is asked again then.
  bool states(const KnownFiles& known, std::string_view reason, bool warns = false) {
    bench_.broker->change([&](BrokerSetup& setup) { setup.known_files = known; });
    return soon([&] {
      const TrackerExport window = named();
      const auto has_reason = [reason](const std::string& text) { return text.find(reason) != std::string::npos; };
      const auto& messages = warns ? window.warnings : window.notes;
      return std::any_of(messages.begin(), messages.end(), has_reason);
    });
  }
  TrackerExport named() {
    TrackerExport window;
    append_mmap2(window.log,
                 {.pid = 7,
                  .tid = 7,
                  .address = 0x1000,
                  .bytes = 0x1000,
                  .major = kMapped.major,
                  .minor = kMapped.minor,
                  .inode = kMapped.inode,
                  .inode_generation = kMapped.generation,
                  .name = "/bin/x"},
                 {.pid = 7, .tid = 7, .time_ns = kMappedNs, .cpu = 0, .id = 1});
    name_files(*bench_.recorder, window);
    return window;
  }
  static KnownFiles knows(KnownFile file) {
    KnownFiles out;
    file.file = kMapped;
    out.files.push_back(std::move(file));
    return out;
  }
  static std::vector<std::uint8_t> build_id() { return std::vector<std::uint8_t>(20, 0x11); }

  RecorderBench bench_;
};

TEST_F(UnnamedFiles, AFileWithABuildIdIsNotMentioned) {
  bench_.broker->change([](BrokerSetup& setup) { setup.known_files = knows({.build_id = build_id()}); });
  EXPECT_TRUE(soon([this] {
    const TrackerExport window = named();
    return window.build_ids.size() == 1 && window.notes.empty();
  }));
}

TEST_F(UnnamedFiles, WhatIsWrongWithTheFileIsNoted) {
  EXPECT_TRUE(states(knows({.build_id = build_id(), .from_ns = kMappedNs + 1}),
                     "1 of 1 mapped files have no build-id here: they were written after they had been mapped"));
  EXPECT_TRUE(states(knows({.is_two = true}), "another file has the same device and inode numbers"));
  EXPECT_TRUE(states(knows({.recorded_name = "/bin/x", .host_path = "/bin/x (not the host's)", .to_ns = kMappedNs + 1}),
                     "they contain none, and their path leads to another file or to none"));
  EXPECT_TRUE(states(knows({.recorded_name = "/bin/x", .host_path = "/bin/x (not verified)", .to_ns = kMappedNs + 1}),
                     "they contain none, and were changed after they had been mapped"));
}

TEST_F(UnnamedFiles, WhatKeptTheBrokerFromReadingItIsNoted) {
  KnownFiles known;
  EXPECT_TRUE(states(known, "they were deleted or unmapped before they could be read"));
  known.missed_bytes = 1;
  EXPECT_TRUE(states(known, "or too many files were mapped at once"));
  known = {};
  known.served.push_back({.disk = {.major = kMapped.major, .minor = kMapped.minor}, .type = "fuse.sshfs"});
  EXPECT_TRUE(states(known, "build-id unread: on fuse.sshfs (1 of 1 mapped files)"));
  known = {};
  known.waiting.push_back({.file = numbers_of(kMapped)});
  EXPECT_TRUE(
      states(known, "build-id unread, later: not read yet with flightd-broker's share of a CPU (1 of 1 mapped files)"));
  known = {};
  known.left_out_ns = kMappedNs + 1;
  EXPECT_TRUE(states(known, "more files were mapped than flightd-broker can note with its share of a CPU"));
  known = {};
  known.forgotten_ns = kMappedNs + 1;
  EXPECT_TRUE(states(known, "flightd-broker knows the 16384 files that were mapped last"));
}

// In a part of a recording.
TEST_F(UnnamedFiles, WhatIsReadTooLateIsNoted) {
  const FileMessages messages =
      messages_of(*bench_.recorder, KnownFiles(), {.with = 2, .without = 1, .too_late = 1, .served_types = {}});
  ASSERT_EQ(messages.notes.size(), 1U) << "no other reason";
  EXPECT_THAT(messages.notes[0], testing::AllOf(testing::StartsWith("1 of 3 mapped files"),
                                                testing::HasSubstr("build-id"), testing::HasSubstr("read after")));
}

TEST_F(UnnamedFiles, WhatHangsIsAWarning) {
  KnownFiles known;
  known.unanswered.push_back({.major = kMapped.major, .minor = kMapped.minor});
  EXPECT_TRUE(states(known, "their disk has not answered yet", true));
  known = {};
  known.hung_processes = 1;
  EXPECT_TRUE(states(known, "the mappings of 1 process cannot be read: reading them hangs", true));
  bench_.broker->leave(Request::build_ids);
  EXPECT_TRUE(states(known, "flightd-broker did not answer within 300 ms", true));
}

}  // namespace
}  // namespace flight::daemon
