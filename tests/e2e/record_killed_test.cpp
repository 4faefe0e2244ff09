// SPDX-License-Identifier: Apache-2.0
// A flightd that is killed while it records: the next one finishes the part that was open.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "libcore/store/names.hpp"
#include "tests/e2e/journaled.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/record_fixture.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// The part that was open has its holes, too: they were written with its rounds.
TEST_F(RecordLong, AKilledFlightdLeavesItsHoles) {
  const Json config = plain_calls_config();
  start_calls(config);
  const auto begun = begin();
  const std::string& id = begun.second;
  ASSERT_TRUE(closer_->runs_for(300ms)) << "thousands of calls";
  EXPECT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  usleep(500'000);  // a fixed time: the length of the hole is checked
  EXPECT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  const std::uint64_t resumed_ns = now_ns();
  const auto is_journaled = [&] { return has_pause_and_events(journal_in(daemon_.snapshots_dir()), resumed_ns); };
  ASSERT_TRUE(wait_until(is_journaled, 30s)) << daemon_.log();
  daemon_.process().kill();
  closer_->kill();
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config, options_));
  const auto is_finished = [&] {
    const std::vector<Json> rows = rows_of(next, id);
    return !rows.empty() && rows.back()["record"]["ended"] == "killed";
  };
  ASSERT_TRUE(wait_until(is_finished, 30s)) << next.log();
  const std::vector<Json> parts = sidecars_of(next, id);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0]["record"]["holes_known"], true);
  EXPECT_GT(parts[0]["window"]["end_ns"], resumed_ns);
  EXPECT_GT(paused_ns(parts[0]), 400'000'000U) << parts[0]["holes"];
  EXPECT_GT(expect_each_once(parts), 1000U);
  EXPECT_TRUE(next.stop());
}

// The part that was open is finished by the next flightd.
TEST_F(Record, AKilledFlightdLeavesWholeParts) {
  const Json config = plain_calls_config();
  start_calls(config);
  Child recorder = Child::start(daemon_.ctl_command({"record", "--switch-size", "4M"}));
  ASSERT_TRUE(wait_until([&] { return !rows_of(daemon_).empty(); }, 30s)) << recorder.err() << daemon_.log();
  const std::string id = rows_of(daemon_)[0]["id"];
  // More than what it begins with, which is the names of all processes.
  ASSERT_TRUE(wait_until([&] { return partial_bytes() > 2U << 20U && partial_bytes() < 7U << 19U; }, 20s));
  daemon_.process().kill();
  closer_->kill();
  EXPECT_EQ(recorder.finish(20s).exit_status, 1);
  TestDaemon next(folder_);
  ASSERT_TRUE(next.start(config, options_));
  const auto last = [&] {
    const std::vector<Json> rows = rows_of(next, id);
    return rows.empty() ? Json() : rows.back()["record"]["ended"];
  };
  EXPECT_TRUE(wait_until([&] { return last() == "killed"; }, 30s)) << next.log();
  const std::vector<Json> parts = sidecars_of(next, id);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_GT(parts.back()["samples"], 1000U);
  expect_each_once(parts);
  for (const Json& part : parts) expect_perf_reads(part, "closer");
  EXPECT_TRUE(no_partials(next.snapshots_dir()));
  EXPECT_THAT(next.log(), HasSubstr("was finished: flightd was killed"));
  EXPECT_GT(std::stoul(next.snapshot()["id"].get<std::string>()), std::stoul(parts.back()["id"].get<std::string>()));
  EXPECT_TRUE(next.stop());
}

// Of a journal that is cut, the rounds before the cut are used. With one that is changed the part is removed, and
// nothing else.
TEST_F(RecordLong, ADamagedJournalCostsNoMoreThanItsPart) {
  for (const bool is_cut : {true, false}) {
    SCOPED_TRACE(is_cut ? "cut" : "changed");
    const Json config = plain_calls_config();
    std::string store;
    {
      TestDaemon killed(folder_);
      ASSERT_TRUE(killed.start(config));
      store = killed.snapshots_dir();
      closer_->go();
      RawSocket client = RawSocket::connect(killed.socket());
      const Json call = {{"method", "io.flightd.Recorder.Record"}, {"parameters", Json::object()}, {"more", true}};
      ASSERT_TRUE(client.call(call.dump()));
      ASSERT_TRUE(wait_for_rounds(store, 4)) << killed.log();
      killed.process().kill();
    }
    closer_->kill();
    std::string journal;
    for (const auto& entry : fs::directory_iterator(store))
      if (const auto name = parse_part_file(entry.path().filename().string());
          name && name->kind == PartFileKind::journal)
        journal = entry.path().string();
    ASSERT_FALSE(journal.empty());
    std::string text = read_text(journal);
    constexpr std::size_t kInTheFacts = 32;
    ASSERT_GT(text.size(), kInTheFacts);
    if (is_cut)
      text.pop_back();
    else
      text[kInTheFacts] = static_cast<char>(~text[kInTheFacts]);
    write_text(journal, text);
    TestDaemon next(folder_);
    ASSERT_TRUE(next.start(config));
    ASSERT_TRUE(wait_until([&] { return !has_unfinished_part(next); }, 60s)) << next.log();
    const std::vector<Json> rows = rows_of(next);
    ASSERT_EQ(rows.size(), 1U) << "that of the cut journal";
    const std::vector<Json> parts = sidecars_of(next, rows[0]["record"]["first"]);
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts[0]["record"]["ended"], "killed");
    EXPECT_GT(expect_each_once(parts), 1000U);
    expect_perf_reads(parts[0], "closer");
    EXPECT_THAT(next.log(), HasSubstr(is_cut ? "was finished: flightd was killed" : "nothing in it can be used"));
    EXPECT_TRUE(no_partials(store));
    EXPECT_TRUE(next.stop());
  }
}

// From before its first file to its third part. FLIGHT_RECORD_SEED repeats a run. A round is in the file or is not:
// what is missing comes after all that is there, and is no more than what came after the last report.
TEST_F(RecordLong, KilledAtAnyMomentLosesOnlyItsLastRound) {
  const char* chosen = std::getenv("FLIGHT_RECORD_SEED");
  const std::uint64_t seed = chosen == nullptr ? std::random_device()() : std::strtoull(chosen, nullptr, 10);
  fmt::print("FLIGHT_RECORD_SEED={}\n", seed);
  std::mt19937_64 generator(seed);
  std::uniform_int_distribution<useconds_t> moments(0, 4'000'000);
  std::uint64_t events = 0;
  for (int i = 0; i < (sanitized() ? 3 : 25) && !HasFailure(); ++i) {
    const useconds_t moment_us = moments(generator);
    Json config = plain_calls_config("16M");  // of some six seconds: the reader cannot be late
    config["record"]["layout"] = generator() % 2 == 0 ? "file" : "directory";
    if (generator() % 2 == 0) config["snapshot"]["compression"] = "zstd";
    SCOPED_TRACE(
        fmt::format("{}: killed after {} us, {} {}", i, moment_us, config["record"].dump(), config["snapshot"].dump()));
    std::uint64_t reported = 0, killed_ns = 0;
    {
      TestDaemon killed(folder_);
      ASSERT_TRUE(killed.start(config));
      closer_->go();
      RawSocket client = RawSocket::connect(killed.socket());
      const Json call = {
          {"method", "io.flightd.Recorder.Record"}, {"parameters", {{"part_bytes", 1U << 20U}}}, {"more", true}};
      ASSERT_TRUE(client.call(call.dump()));
      usleep(moment_us);  // a fixed time: the moment is what varies
      killed_ns = now_ns();
      killed.process().kill();
      reported = events_reported(client);
    }
    TestDaemon next(folder_);
    ASSERT_TRUE(next.start(config));
    ASSERT_TRUE(wait_until([&] { return !has_unfinished_part(next); }, 60s)) << next.log();
    const std::vector<Json> rows = rows_of(next);
    std::uint64_t found = 0;
    if (!rows.empty()) {
      const std::vector<Json> parts = sidecars_of(next, rows[0]["record"]["first"]);
      ASSERT_EQ(parts.size(), rows.size());
      EXPECT_EQ(parts.back()["record"]["ended"], "killed");
      found = expect_each_once(parts);
      for (const Json& part : parts) expect_perf_reads(part, "closer");
      const std::uint64_t end_ns = parts.back()["window"]["end_ns"];
      fmt::print("the last one {} ms before the kill\n", (killed_ns - std::min(killed_ns, end_ns)) / 1'000'000);
      EXPECT_EQ(next.ctl({"remove", rows[0]["id"]}).exit_status, 0);
    }
    EXPECT_GE(found, reported) << "flightd said that they are in files";
    events += found;
    EXPECT_TRUE(no_partials(next.snapshots_dir()));
    EXPECT_TRUE(next.stop());
    closer_->kill();
  }
  if (!sanitized()) {
    EXPECT_GT(events, 100'000U);
  }
}

}  // namespace
}  // namespace flight
