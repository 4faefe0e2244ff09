// SPDX-License-Identifier: Apache-2.0
// flightctl record: a load's rising numbers are in the parts of a recording, each once or inside a hole that a sidecar
// states, and stock perf reads each part, also of one that ends at a limit.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/mounts.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/record_fixture.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(Record, PartsHaveEachNumberOnceUntilCtrlC) {
  start_calls(plain_calls_config("16M"));  // of some six seconds
  ASSERT_TRUE(wait_until([&] { return daemon_.snapshot()["samples"] > 10'000; }, 20s));
  const std::string copy = folder_ / "copy";
  Child recorder = Child::start(daemon_.ctl_command(
      {"--json", "record", "--past", "2s", "--switch-size", "1M", "--channel", "calls", "-o", copy}));
  ASSERT_TRUE(wait_until([&] { return rows_of(daemon_).size() >= 2; }, 30s)) << recorder.err() << daemon_.log();
  const Json meanwhile = daemon_.snapshot({"--capture", "pause"});
  EXPECT_EQ(meanwhile["capture"], "live");
  EXPECT_THAT(meanwhile["messages"].dump(), HasSubstr("copied live"));
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(30s);
  closer_->kill();
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const Json result = Json::parse(outcome.out);
  const std::string id = result["id"];
  EXPECT_EQ(result["ended"], "asked");

  const std::vector<Json> parts = sidecars_of(daemon_, id);
  ASSERT_GE(parts.size(), 3U);
  EXPECT_EQ(parts.size(), result["paths"].size());
  EXPECT_EQ(parts.back()["record"]["ended"], "asked");
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  const Json& first = parts.front();
  EXPECT_LT(first["window"]["begin"], first["requests"][0]["time"]) << "the past is missing";
  for (const Json& part : parts) expect_perf_reads(part, "closer");

  // Each part was copied when it was whole; `get` of the first one copies all of them, too.
  EXPECT_EQ(daemon_.ctl({"get", id, "-o", copy + "-again"}).exit_status, 0);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string suffix = i == 0 ? "" : fmt::format(".{}", i + 1), all = read_text(parts[i]["path"]);
    EXPECT_FALSE(all.empty());
    EXPECT_TRUE(read_text(copy + suffix) == all) << copy + suffix;
    EXPECT_TRUE(read_text(copy + "-again" + suffix) == all) << copy + "-again" + suffix;
  }
  const std::string list = daemon_.ctl({"list"}).out;
  EXPECT_EQ(count_of(list, "record"), 1U) << list;
  EXPECT_THAT(list, HasSubstr(fmt::format("{} parts", parts.size())));
  EXPECT_EQ(daemon_.ctl({"remove", id}).exit_status, 0);
  EXPECT_TRUE(rows_of(daemon_).empty());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordLong, CompressedPartsHaveEachNumberOnce) {
  start_calls(calls_config(sanitized() ? 20'000 : 200'000, "16M"));
  const Json result = daemon_.ctl_json({"record", "--for", "10s", "--switch-size", "1M"});
  closer_->kill();
  EXPECT_EQ(result["ended"], "asked");
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_EQ(expect_each_once(parts), result["progress"]["events"]);
  std::uint64_t lost = 0;
  for (const Json& part : parts)
    for (const Json& hole : part["holes"]) lost += hole["lost"].get<std::uint64_t>();
  EXPECT_EQ(lost, result["progress"]["lost"]);
  for (const Json& part : parts) expect_perf_reads(part, "closer", &part == &parts.back());
  EXPECT_TRUE(daemon_.stop());
}

// It wakes its reader: a look once a second would find a third of it.
TEST_F(RecordLong, ARingThatTurnsInAThirdOfASecondIsRead) {
  start_calls(plain_calls_config("512K"));
  const Json result = daemon_.ctl_json({"record", "--for", "6s"});
  closer_->kill();
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  const std::size_t events = expect_each_once(parts);
  EXPECT_GT(events, 10'000U);
  EXPECT_LT(result["progress"]["lost"], events / 4);
  EXPECT_TRUE(daemon_.stop());
}

// It has other rings then: its part ends, and the next one begins.
TEST_F(RecordLong, AReloadThatChangesAChannelBeginsAnotherPart) {
  Json config = plain_calls_config();
  start_calls(config);
  auto begun = begin();
  const std::string& id = begun.second;
  ASSERT_TRUE(has_events(begun.first, 2000));
  config["channels"]["calls"]["ring"] = "8M";
  write_text(folder_ / "flightd.json", config.dump(2));
  const Outcome reload = daemon_.ctl({"reload"});
  EXPECT_EQ(reload.exit_status, 0) << reload.text();
  ASSERT_TRUE(wait_until([&] { return rows_of(daemon_, id).size() == 1; }, 20s)) << daemon_.log();
  const std::uint64_t events_before = daemon_.ctl_json({"info", id})["samples"];
  ASSERT_TRUE(has_events(begun.first, events_before + 2000)) << "in the second part";
  EXPECT_EQ(stop(id)["ended"], "asked");
  const std::vector<Json> parts = sidecars_of(daemon_, id);
  ASSERT_EQ(parts.size(), 2U);
  for (const Json& part : parts) {
    EXPECT_GT(part["samples"], 1000U);
    expect_perf_reads(part, "closer");
  }
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(RecordLong, EndsAtItsMaximum) {
  start_calls(plain_calls_config());
  const Json result = daemon_.ctl_json({"record", "--for", "60s", "--max-size", "16M", "--switch-size", "4M"}, 120s);
  EXPECT_EQ(result["ended"], "max_size");
  EXPECT_GE(result["progress"]["bytes"], 16U << 20U);
  EXPECT_LT(result["progress"]["bytes"], 20U << 20U);
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  EXPECT_GE(parts.size(), 2U);
  EXPECT_EQ(parts.back()["record"]["ended"], "max_size");
  EXPECT_TRUE(daemon_.stop());
}

class RecordOnSmallDiskLong : public Record {
 protected:
  void SetUp() override {
    ASSERT_EQ(mkdir(disk_.c_str(), 0755), 0);
    ASSERT_TRUE(mount_tmpfs(disk_, "size=16m"));
    options_.state_dir = disk_ + "/state";
  }
  void TearDown() override { unmount(disk_); }
  std::string disk_ = folder_ / "disk";
};

class LayoutOnSmallDiskLong : public RecordOnSmallDiskLong, public testing::WithParamInterface<const char*> {};

TEST_P(LayoutOnSmallDiskLong, EndsWithWholePartsWhenItIsFull) {
  Json config = plain_calls_config();
  config["record"]["layout"] = GetParam();
  config["store"]["keep_free"] = "0";
  start_calls(config);
  const Outcome outcome = daemon_.ctl({"--json", "record", "--for", "60s", "--switch-size", "3M"}, 120s);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
  const Json result = Json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(result.is_object()) << outcome.text();
  EXPECT_EQ(result["ended"], "disk");
  EXPECT_FALSE(result["warnings"].empty());
  const std::vector<Json> parts = sidecars_of(daemon_, result["id"]);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_GT(expect_each_once(parts), 10'000U);
  for (const Json& part : parts) {
    EXPECT_EQ(fs::is_directory(part["path"].get<std::string>()), std::string(GetParam()) == "directory");
    expect_perf_reads(part, "closer");
  }
  EXPECT_EQ(daemon_.ctl({"remove", result["id"]}).exit_status, 0);
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

INSTANTIATE_TEST_SUITE_P(Layouts, LayoutOnSmallDiskLong, testing::Values("file", "directory"));

TEST_F(RecordOnSmallDiskLong, DoesNotBeginWhenItIsFullAlready) {
  Json config = stacks_config(997, "64K");
  config["store"]["keep_free"] = "0";
  ASSERT_TRUE(daemon_.start(config, options_));
  const std::string others = disk_ + "/others";
  EXPECT_NE(run({"dd", "if=/dev/zero", "of=" + others, "bs=64k"}).exit_status, 0) << "the disk is not full?";
  const Outcome refused = daemon_.ctl({"--json", "record", "--for", "1s"});
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  EXPECT_THAT(refused.err, AllOf(HasSubstr("StoreFull"), HasSubstr("Nothing was recorded into a file")));
  EXPECT_TRUE(rows_of(daemon_).empty());
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(records(daemon_.status()));
  ASSERT_TRUE(fs::remove(others));
  const Json result = daemon_.ctl_json({"record", "--for", "1s"});
  EXPECT_EQ(result["ended"], "asked");
  for (const Json& part : sidecars_of(daemon_, result["id"]))
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, as_perf_sees(part)));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
