// SPDX-License-Identifier: Apache-2.0
// The parts of a flightd that was killed: what is whole is finished, what cannot be used goes.
#include "daemon/recordings/recovery.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"
#include "tests/unit/daemon/recordings/unfinished_part.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::HasSubstr;
namespace fs = std::filesystem;

using RecoveryTest = UnfinishedPartTest;

TEST_F(RecoveryTest, APartIsFinishedUnderItsName) {
  ASSERT_NO_FATAL_FAILURE(kill_part(3));
  describe();
  // Behind the last round: what was written of the next one.
  std::ofstream(at(part_file(PartFileKind::data, kSeq)), std::ios::app) << "torn";
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("part 7 of recording 5 was finished"));
  EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
  const auto sidecar = parse_sidecar(read_file(at(kStem + ".json")).value());
  ASSERT_TRUE(sidecar) << sidecar.error().what;
  EXPECT_EQ(sidecar->record->ended, "killed");
  EXPECT_EQ(sidecar->record->part, 2U);
  EXPECT_EQ(sidecar->record->holes_known, true) << "there are none, and the journal says so";
  EXPECT_TRUE(sidecar->holes.empty());
  EXPECT_THAT(sidecar->notes, testing::Contains(HasSubstr("can lack their build-id")));
  EXPECT_EQ(sidecar->reason, "slow");
  EXPECT_EQ(sidecar->window.begin_ns, kRoundNs);
  EXPECT_EQ(sidecar->window.end_ns, 3 * kRoundNs);
  EXPECT_EQ(sidecar->window.end, "2026-11-20T03:12:06.000Z");
  EXPECT_EQ(sidecar->size_bytes, fs::file_size(at(kStem + ".perf.data")));
  const auto reader = FileReader::open(at(kStem + ".perf.data"));
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->string_feature(kFeatureHostname), "box");
}

TEST_F(RecoveryTest, WithoutItsSidecarItIsStillFinished) {
  ASSERT_NO_FATAL_FAILURE(kill_part(1));
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  ASSERT_EQ(names().size(), 2U);
  const auto name = parse_snapshot_name(names().front());
  ASSERT_TRUE(name);
  EXPECT_EQ(name->seq, kSeq);
  const auto sidecar = parse_sidecar(read_file(at(name->sidecar_file())).value());
  ASSERT_TRUE(sidecar && sidecar->record);
  EXPECT_EQ(sidecar->record->first, "7");
  EXPECT_EQ(sidecar->record->ended, "killed");
}

// Killed between the names of the two files.
TEST_F(RecoveryTest, ASidecarThatHasItsNameAlreadyIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  fs::rename(at(part_file(PartFileKind::sidecar, kSeq)), at(kStem + ".json"));
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("part 7 of recording 5 was finished"));
  EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
  const auto sidecar = parse_sidecar(read_file(at(kStem + ".json")).value());
  ASSERT_TRUE(sidecar && sidecar->record);
  EXPECT_EQ(sidecar->record->ended, "killed");
  EXPECT_EQ(sidecar->record->part, 2U);
  EXPECT_EQ(sidecar->reason, "slow");
}

// The data was whole before: it gets its name, and the sidecar stays as it is.
TEST_F(RecoveryTest, BetweenTheTwoNamesNoHoleIsForgotten) {
  for (const std::optional<std::string>& ended : {std::optional<std::string>("asked"), std::optional<std::string>()}) {
    ASSERT_NO_FATAL_FAILURE(kill_part(2, true));
    describe();
    Sidecar named = committed();
    named.record->ended = ended;
    name_sidecar(named);
    const std::string data = read_file(at(part_file(PartFileKind::data, kSeq))).value();
    const auto done = recover();
    ASSERT_TRUE(done) << done.error().what;
    EXPECT_THAT(*done, HasSubstr("part 7 of a recording was whole"));
    EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
    EXPECT_EQ(read_file(at(kStem + ".perf.data")).value(), data);
    EXPECT_EQ(bench_.broker->asked(Request::file), 0) << "it is not copied";
    const Sidecar sidecar = stored();
    ASSERT_EQ(sidecar.holes.size(), 1U);
    EXPECT_EQ(sidecar.holes[0].lost, 7U);
    EXPECT_EQ(sidecar.record->holes_known, true);
    EXPECT_EQ(sidecar.record->ended, ended.value_or("killed")) << "the last one says why the recording ended";
    EXPECT_TRUE(sidecar.warnings.empty()) << sidecar.warnings.front();
    EXPECT_TRUE(fs::remove(at(kStem + ".json")) && fs::remove(at(kStem + ".perf.data")));
  }
}

// The file has another size or other samples than the sidecar says: for example after a power failure, on a file system
// that cannot sync.
TEST_F(RecoveryTest, AWholeFileOfAnotherSidecarDoesNotGetItsName) {
  for (const bool other_size : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(kill_part(2, true));
    describe();
    Sidecar named = committed();
    (other_size ? named.size_bytes : named.samples) += 5;
    name_sidecar(named);
    const auto done = recover();
    ASSERT_TRUE(done) << done.error().what;
    EXPECT_THAT(*done, HasSubstr("part 7 of recording 5 was finished"));
    EXPECT_EQ(stored().holes.size(), 1U);
    EXPECT_EQ(stored().samples, 0U);
    EXPECT_EQ(stored().size_bytes, fs::file_size(at(kStem + ".perf.data")));
    EXPECT_TRUE(fs::remove(at(kStem + ".json")) && fs::remove(at(kStem + ".perf.data")));
  }
}

// The data did not survive as a whole: what the commit knew stays, and events that are missing now are no hole of it.
TEST_F(RecoveryTest, FromItsJournalAPartKeepsTheHolesOfItsCommit) {
  for (const bool all_events : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(kill_part(2));
    describe();
    Sidecar named = committed();
    named.samples = all_events ? 0 : 5;
    name_sidecar(named);
    const auto done = recover();
    ASSERT_TRUE(done) << done.error().what;
    const Sidecar first = stored();
    EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
    ASSERT_EQ(first.holes.size(), 1U);
    EXPECT_EQ(first.holes[0].cause, "overwritten");
    EXPECT_EQ(first.record->holes_known, all_events);
    EXPECT_EQ(first.record->ended, "killed");
    EXPECT_THAT(first.warnings, testing::Contains(HasSubstr(all_events ? "it was finished from its journal"
                                                                       : "holes in it are not known")));
    EXPECT_TRUE(fs::remove(at(kStem + ".json")) && fs::remove(at(kStem + ".perf.data")));
  }
}

// Killed before there was a commit: the holes were written with the rounds.
TEST_F(RecoveryTest, FromItsJournalAPartKnowsTheHolesOfItsRounds) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2, false, 7));
  describe();
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  const Sidecar sidecar = stored();
  EXPECT_EQ(sidecar.record->holes_known, true);
  ASSERT_EQ(sidecar.holes.size(), 2U);
  const SidecarHole& second = sidecar.holes[1];
  EXPECT_EQ(second.channel, "faults");
  EXPECT_EQ(second.cpu, 0);
  EXPECT_EQ(second.begin_ns, 2 * kRoundNs - 5);
  EXPECT_EQ(second.end_ns, 2 * kRoundNs);
  EXPECT_EQ(second.lost, 7U);
  EXPECT_EQ(second.cause, "overwritten");
  EXPECT_EQ(second.bytes, 700U);
  EXPECT_TRUE(second.estimated);
  EXPECT_THAT(sidecar.warnings, testing::Contains(HasSubstr("about 14 of the rings' events are not in this part")));
  EXPECT_THAT(sidecar.warnings, testing::Contains(HasSubstr("anything after its last round is missing")));
}

// The recovery is killed between the two names: the next one says the same, once.
TEST_F(RecoveryTest, ARecoveryAfterAnotherOneDoesNotRepeatIt) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2, false, 7));
  describe();
  std::vector<std::pair<std::string, std::string>> left;
  for (const PartFileKind kind : {PartFileKind::data, PartFileKind::journal, PartFileKind::sidecar})
    left.emplace_back(at(part_file(kind, kSeq)), read_file(at(part_file(kind, kSeq))).value());
  ASSERT_TRUE(recover());
  const std::string once = read_file(at(kStem + ".json")).value();
  ASSERT_TRUE(fs::remove(at(kStem + ".perf.data")));
  for (const auto& [path, text] : left) std::ofstream(path) << text;
  const auto again = recover();
  ASSERT_TRUE(again) << again.error().what;
  EXPECT_EQ(read_file(at(kStem + ".json")).value(), once);
  EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
}

// The first flightd was killed in its commit, and the next one in that of its recovery.
TEST_F(RecoveryTest, ASecondKillForgetsNoHoleEither) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  Sidecar so_far = committed();
  std::ofstream(at(part_file(PartFileKind::sidecar, kSeq))) << to_json(so_far);
  so_far.record->holes_known = false;
  so_far.holes.clear();
  so_far.size_bytes += 100;
  so_far.warnings = {"said by a recovery"};
  name_sidecar(so_far);
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(stored().holes.size(), 1U);
  EXPECT_EQ(stored().record->holes_known, true);
  EXPECT_THAT(stored().warnings, testing::ElementsAre(HasSubstr("flightd was killed")));
}

// The same in a recovery: what the first flightd knew is there, too.
TEST_F(RecoveryTest, ASidecarOfARecoveryThatWasKilledIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  std::ofstream(at(kStem + ".json")) << "cut";
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
  EXPECT_EQ(parse_sidecar(read_file(at(kStem + ".json")).value())->record->first, "5");
}

// A recovery was killed behind its last name: the copy is whole, and what it was made from is still there.
TEST_F(RecoveryTest, APartWithItsNameIsNotFinishedAgain) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  const std::string journal = read_file(at(part_file(PartFileKind::journal, kSeq))).value();
  const std::string data = read_file(at(part_file(PartFileKind::data, kSeq))).value();
  ASSERT_TRUE(recover());
  const std::string whole = read_file(at(kStem + ".perf.data")).value();
  std::ofstream(at(part_file(PartFileKind::journal, kSeq))) << journal;
  std::ofstream(at(part_file(PartFileKind::data, kSeq))) << data;
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("had its name already"));
  EXPECT_THAT(names(), testing::ElementsAre(kStem + ".json", kStem + ".perf.data"));
  EXPECT_EQ(read_file(at(kStem + ".perf.data")).value(), whole);
}

// It was copied here, with its number, and is no part of this one.
TEST_F(RecoveryTest, APartOfAnotherHostIsLeftAlone) {
  const std::string others = "flight-other-20261120T031204.123Z-record-7";
  for (const bool has_data : {true, false}) {
    ASSERT_NO_FATAL_FAILURE(kill_part(2));
    describe();
    Sidecar other = begun();
    other.path = at(others + ".perf.data");
    std::ofstream(at(others + ".json")) << to_json(other);
    if (has_data) std::ofstream(at(others + ".perf.data")) << "data";
    const auto done = recover();
    ASSERT_TRUE(done) << done.error().what;
    EXPECT_THAT(*done, HasSubstr("part 7 of recording 5 was finished"));
    EXPECT_TRUE(fs::exists(at(others + ".json")));
    EXPECT_EQ(fs::exists(at(others + ".perf.data")), has_data);
    EXPECT_TRUE(fs::remove(at(kStem + ".json")) && fs::remove(at(kStem + ".perf.data")));
    fs::remove(at(others + ".perf.data"));
  }
  // Nor is it the one behind this one, or before it.
  const std::string behind = "flight-other-20261120T031204.123Z-record-8.json";
  std::ofstream(at(behind)) << to_json(begun());
  ASSERT_NO_FATAL_FAILURE(kill_part(0));
  describe();
  EXPECT_THAT(last_parts(bench_.snapshots(), {7}, "box"), testing::ElementsAre(7U));
  const std::string before = "flight-other-20261120T031204.123Z-record-6.json";
  std::ofstream(at(before)) << to_json(begun());
  ASSERT_TRUE(recover());
  EXPECT_EQ(parse_sidecar(read_file(at(before)).value())->record->ended, std::nullopt);
}

TEST_F(RecoveryTest, WhatHasNoRoundGoes) {
  ASSERT_NO_FATAL_FAILURE(kill_part(0));
  describe();
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("was removed"));
  EXPECT_TRUE(names().empty());
}

TEST_F(RecoveryTest, AJournalThatLiesRemovesThePartAndNothingElse) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  std::ofstream(at(part_file(PartFileKind::journal, kSeq))) << "no journal";
  std::ofstream(at("flight-box-20261120T031204.123Z-manual-6.perf.data")) << "another's";
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(names().size(), 1U);
}

// The facts in the part's sidecar are not overwritten before the new sidecar has its name.
TEST_F(RecoveryTest, ACommitThatFailsLeavesWhatRecoveryNeeds) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  const auto before = names();
  std::ofstream(at(kStem + ".perf.data")) << "in the way";
  auto ready = store_->ready(kSeq, std::move(*open_file(at(part_file(PartFileKind::sidecar, kSeq)), O_RDWR)));
  EXPECT_FALSE(store_->commit(std::move(ready), *parse_snapshot_name(kStem + ".perf.data"), Sidecar()));
  fs::remove(at(kStem + ".perf.data"));
  EXPECT_EQ(names(), before);
  ASSERT_TRUE(recover());
  EXPECT_EQ(parse_sidecar(read_file(at(kStem + ".json")).value())->reason, "slow");
}

// Two parts of a recording were not finished: only the last one says that it was killed.
TEST_F(RecoveryTest, OnlyTheLastPartSaysWhyTheRecordingEnded) {
  ASSERT_NO_FATAL_FAILURE(kill_part(1));
  describe();
  Sidecar other = begun();
  other.id = "9";
  std::ofstream(at(part_file(PartFileKind::sidecar, 9))) << to_json(other);
  other.record->first = other.id = "8";
  std::ofstream(at(part_file(PartFileKind::sidecar, 8))) << to_json(other);
  EXPECT_THAT(last_parts(bench_.snapshots(), {7, 8, 9}, "box"), testing::ElementsAre(8U, 9U));
  other.record->first = "8";
  std::ofstream(at("flight-box-20261120T031205.123Z-record-10.json")) << to_json(other);
  EXPECT_THAT(last_parts(bench_.snapshots(), {7, 8, 9}, "box"), testing::ElementsAre(9U)) << "10 is behind 8";
  ASSERT_TRUE(recover(false));
  EXPECT_EQ(parse_sidecar(read_file(at(kStem + ".json")).value())->record->ended, std::nullopt);
}

TEST_F(RecoveryTest, WithoutTheLastPartTheOneBeforeSaysWhy) {
  const std::string before = "flight-box-20261120T031203.123Z-record-6";
  Sidecar sidecar = begun();
  sidecar.id = "6";
  sidecar.record->part = 1;
  sidecar.path = at(before + ".perf.data");
  std::ofstream(at(before + ".perf.data")) << "data";
  std::ofstream(at(before + ".json")) << to_json(sidecar);
  ASSERT_NO_FATAL_FAILURE(kill_part(0));
  describe();
  ASSERT_TRUE(recover());
  EXPECT_THAT(names(), testing::ElementsAre(before + ".json", before + ".perf.data"));
  const auto after = parse_sidecar(read_file(at(before + ".json")).value());
  ASSERT_TRUE(after && after->record);
  EXPECT_EQ(after->record->ended, "killed");
  EXPECT_EQ(after->reason, "slow");
  EXPECT_THAT(after->warnings, testing::Contains(HasSubstr("one more part")));
}

TEST_F(RecoveryTest, WithoutSpaceItIsNotCopied) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  const auto before = names();
  const std::uint64_t bytes = fs::file_size(at(part_file(PartFileKind::data, kSeq)));
  std::uint64_t asked = 0;
  const auto no_room = [&asked](std::uint64_t wanted) -> Result<void> {
    asked = wanted;
    return sys_error(ENOSPC, "a test");
  };
  const auto done = recover_part(*store_, {.seq = kSeq, .host = "box", .make_room = no_room, .stop = {}});
  ASSERT_FALSE(done);
  EXPECT_EQ(asked, bytes);
  EXPECT_EQ(bench_.broker->asked(Request::file), 0);
  EXPECT_EQ(names(), before);
  using std::chrono::seconds;
  EXPECT_EQ(recover_again_after(done.error()), seconds(3600)) << "not every 10 s";
  EXPECT_EQ(recover_again_after(sys_error(ETIMEDOUT, "a test").value()), seconds(10));
}

TEST_F(RecoveryTest, ItStopsWithFlightd) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  const auto before = names();
  const auto done = recover_part(*store_, {.seq = kSeq, .host = "box", .make_room = {}, .stop = [] { return true; }});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().errno_value(), ECANCELED);
  EXPECT_EQ(names(), before);
}

TEST_F(RecoveryTest, WithoutABrokerItStaysForTheNextTime) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  describe();
  const auto before = names();
  bench_.broker->refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  EXPECT_FALSE(recover());
  EXPECT_EQ(names(), before);
  bench_.broker->obey(Request::file);
  EXPECT_TRUE(recover());
}

}  // namespace
}  // namespace flight::daemon
