// SPDX-License-Identifier: Apache-2.0
// Records with the id of no event of ours are not believed, but records of an event that the broker has opened a moment
// ago are.
#include "libcore/sideband/strangers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "tests/unit/sideband/reader_model.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StrangersTest : public testing::Test {
 protected:
  StrangersTest() { strangers_.know(manifest(7)); }  // as the tape's records have

  static Manifest manifest(std::uint64_t id) {
    Manifest out;
    out.events.push_back({.channel = {}, .name = "dummy", .attr = {}, .filter = {}, .ids = {{1, 0, 0}}});
    ManifestRing ring{.kind = RingKind::sideband, .channel = {}, .cpu = 0, .ring_bytes = 4096};
    ring.owner_id = 2;
    ring.live_ids = {id};
    out.rings.push_back(ring);
    return out;
  }
  // The tape's last records, with another id.
  RecordBuffer with_id(std::uint64_t id) {
    RecordBuffer out = tape_.take();
    std::size_t end = 0;
    for (auto record = next_record(out); !record.empty(); record = next_record(std::span(out).subspan(end))) {
      end += record.size();
      std::memcpy(out.data() + end - sizeof(Trailer) + offsetof(Trailer, id), &id, sizeof id);
    }
    return out;
  }
  static std::vector<std::uint32_t> pids_in(std::span<const std::byte> records) {
    std::vector<std::uint32_t> out;
    for (; !records.empty(); records = records.subspan(next_record(records).size()))
      if (const auto comm = parse_comm(next_record(records))) out.push_back(comm->pid);
    return out;
  }
  // What the tracker gets.
  RecordBuffer sift(RecordBuffer records) {
    strangers_.sift(records, now_);
    strangers_.report(records);
    return records;
  }

  Strangers strangers_;
  Tape tape_;
  EventTime now_ = 100 * kSecond;
};

TEST_F(StrangersTest, AreDroppedAndTheOthersStay) {
  RecordBuffer all;
  const auto add = [&](std::uint64_t id, std::uint32_t pid) {
    tape_.comm(99 * kSecond, pid, pid, "name");
    const RecordBuffer more = with_id(id);
    all.insert(all.end(), more.begin(), more.end());
  };
  for (const auto& [id, pid] : {std::pair(9U, 100U), {7U, 101U}, {0U, 102U}, {1U, 103U}, {2U, 104U}, {9U, 105U}})
    add(id, pid);
  tape_.lost(99 * kSecond, 3);
  const RecordBuffer lost = with_id(9);
  all.insert(all.end(), lost.begin(), lost.end());
  ProcessTracker tracker;
  const RecordBuffer kept = sift(all);
  EXPECT_THAT(pids_in(kept), ElementsAre(101, 103, 104));
  tracker.add(kept);
  EXPECT_EQ(tracker.lost(), 3U) << "a loss is always believed";
  EXPECT_EQ(tracker.stats().strangers, 0U) << "they wait";
  EXPECT_FALSE(strangers_.due(now_ + Strangers::kHoldNs - 1));
  now_ += Strangers::kHoldNs;
  EXPECT_TRUE(strangers_.due(now_));
  const RecordBuffer note = sift({});
  EXPECT_THAT(pids_in(note), IsEmpty());
  tracker.add(note);
  EXPECT_EQ(tracker.stats().strangers, 3U);
  EXPECT_FALSE(strangers_.due(now_));
  EXPECT_TRUE(sift({}).empty());
}

TEST_F(StrangersTest, WhoseIdComesLaterAreOurs) {
  tape_.comm(99 * kSecond, 100, 100, "early");
  EXPECT_THAT(pids_in(sift(with_id(12))), IsEmpty());
  tape_.comm(99 * kSecond, 101, 101, "other");
  EXPECT_THAT(pids_in(sift(with_id(13))), IsEmpty());
  strangers_.know(manifest(12));
  EXPECT_TRUE(strangers_.due(now_));
  EXPECT_THAT(pids_in(sift({})), ElementsAre(100));
  tape_.comm(99 * kSecond, 102, 102, "old");
  EXPECT_THAT(pids_in(sift(with_id(7))), ElementsAre(102)) << "its ring may still have records of the event before";
}

TEST_F(StrangersTest, ManyDoNotWait) {
  for (std::uint32_t i = 0; i < 10'000; ++i) tape_.comm(99 * kSecond, i + 1, i + 1, "name");
  ProcessTracker tracker;
  tracker.add(sift(with_id(9)));
  const std::uint64_t at_once = tracker.stats().strangers;
  EXPECT_GT(at_once, 5000U);
  EXPECT_LT(at_once, 10'000U);
  now_ += Strangers::kHoldNs;
  tracker.add(sift({}));
  EXPECT_EQ(tracker.stats().strangers, 10'000U);
}

TEST_F(StrangersTest, AreReportedForTheirWindowAndAskForAScan) {
  ProcessTracker tracker;
  tape_.fork(50 * kSecond, 1, 100);
  tracker.add(sift(tape_.take()));
  ASSERT_FALSE(tracker.wants_scan());
  tape_.exec(100 * kSecond, 100, "wrong");
  EXPECT_TRUE(sift(with_id(9)).empty());
  now_ += Strangers::kHoldNs;
  tracker.add(sift({}));
  EXPECT_TRUE(tracker.wants_scan());
  const auto check = [](const ProcessTracker& one) {
    const auto window = one.export_window(90 * kSecond, 101 * kSecond, {100});
    EXPECT_THAT(window.warnings, ElementsAre(HasSubstr("names: 1 sideband record had an unknown event id")));
    EXPECT_EQ(read(window).comm_of(100, 100), "");
    EXPECT_THAT(one.export_window(90 * kSecond, 95 * kSecond, {100}).warnings, IsEmpty());
    EXPECT_THAT(one.export_window(101 * kSecond, 105 * kSecond, {100}).warnings, IsEmpty());
  };
  check(tracker);
  RecordBuffer records;
  const auto omissions = tracker.checkpoint(
      1U << 20U, [&](std::span<const std::byte> some) { records.insert(records.end(), some.begin(), some.end()); });
  ProcessTracker after;
  after.replay(records, omissions.losses);
  check(after);
}

}  // namespace
}  // namespace flight
