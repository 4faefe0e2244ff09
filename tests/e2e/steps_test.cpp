// SPDX-License-Identifier: Apache-2.0
// kill -9 after each named step of a snapshot or a recording, in one store: every file with a final name is complete,
// and the next flightd removes or finishes the others and logs what is missing. flightd-steps stops itself after the
// given step; then it is killed, or its broker or its client is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <set>
#include <span>

#include "libcore/base/steps.hpp"
#include "libcore/store/names.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/journaled.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;

bool is_stopped(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close != std::string::npos && stat.substr(close, 3) == ") T";
}

// It may take the same step more than once.
void go_on(pid_t pid) {
  if (is_stopped(pid)) ::kill(pid, SIGCONT);
}

// Those of a recording with one part, in their order.
constexpr std::array<std::string_view, 8> kRecordingSteps{"seq_written",     "part_made",      "part_described",
                                                          "sidecar_written", "sidecar_synced", "sidecar_named",
                                                          "data_named",      "part_tidied"};

class StepsLong : public testing::Test {
 protected:
  [[nodiscard]] StartOptions stop_after(std::string_view step) const {
    return {.program = required_env("FLIGHTD_STEPS"),
            .prefix = {"env", "FLIGHT_STOP_AFTER=" + std::string(step)},
            .arguments = {},
            .state_dir = {},
            .runtime_dir = {}};
  }

  // Checks the store as the dead flightd left it.
  void expect_only_whole_files() {
    for (const auto& entry : fs::directory_iterator(folder_ / "state/snapshots")) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".perf.data")) {
        const std::string sidecar = entry.path().string().substr(0, entry.path().string().size() - 10) + ".json";
        ASSERT_TRUE(fs::exists(sidecar)) << name << " has its name before its sidecar has";
        if (!verified_.insert(name).second) continue;
        Json contents = Json::parse(read_text(sidecar));
        if (contents.contains("record")) contents = as_perf_sees(std::move(contents));
        EXPECT_TRUE(counts_all(Verifier::installed(), folder_, contents));
      } else if (name.ends_with(".json")) {
        EXPECT_TRUE(Json::accept(read_text(entry.path()))) << name;
      } else if (name.ends_with(".zst")) {
        EXPECT_EQ(run({"zstd", "-tq", entry.path()}).exit_status, 0) << name;
      } else if (name == ".seq") {
        EXPECT_TRUE(parse_seq(lines_of(read_text(entry.path())).at(0))) << name;
      } else if (!name.starts_with(".flightd-spare-")) {
        EXPECT_TRUE(name.starts_with(".flight") && name.ends_with(".partial")) << name;
      }
    }
  }

  // Checks what the next flightd does with it.
  void expect_cleaned_and_listed(const TestDaemon& next) {
    EXPECT_TRUE(no_partials(next.snapshots_dir()));
    std::set<std::string> data, sidecars;
    for (const auto& entry : fs::directory_iterator(next.snapshots_dir())) {
      const std::string name = entry.path().filename();
      if (name.ends_with(".perf.data")) data.insert(entry.path());
      if (name.ends_with(".json")) sidecars.insert(entry.path().string().substr(0, entry.path().string().size() - 5));
    }
    const Json rows = next.ctl_json({"list"});
    EXPECT_EQ(rows.size(), sidecars.size());
    std::set<std::string> ids;
    for (const Json& row : rows) {
      EXPECT_TRUE(ids.insert(row["id"].get<std::string>()).second) << "twice: " << row;
      EXPECT_EQ(row["state"], data.contains(row["path"]) ? "present" : "missing") << row;
    }
    for (const std::string& id : reported_) EXPECT_TRUE(ids.contains(id)) << "flightd reported snapshot " << id;
  }

  // A flightd that only finishes what is left: all recordings are whole, and each is there once.
  void expect_recordings(const Json& config, std::size_t count) {
    TestDaemon next(folder_);
    ASSERT_TRUE(next.start(config));
    const auto unfinished = [&] {
      for (const auto& entry : fs::directory_iterator(next.snapshots_dir()))
        if (parse_part_file(entry.path().filename().string())) return true;
      return false;
    };
    ASSERT_TRUE(wait_until([&] { return !unfinished(); }, 60s)) << next.log();
    expect_cleaned_and_listed(next);
    expect_only_whole_files();
    std::size_t found = 0;
    for (const Json& row : next.ctl_json({"list"})) {
      if (!row.contains("record")) continue;
      ++found;
      EXPECT_EQ(row["state"], "present") << row;
      EXPECT_EQ(row["record"]["first"], row["id"]);
      EXPECT_FALSE(row["record"]["ended"].is_null()) << row;
      EXPECT_EQ(next.ctl_json({"info", row["id"]})["reason"], "steps") << "what it knew when it began";
    }
    EXPECT_EQ(found, count);
    EXPECT_TRUE(next.stop());
  }

  TempFolder folder_;
  std::set<std::string> verified_;
  std::set<std::string> reported_;
};

// With data that is a file, and with directories.
class LayoutStepsLong : public StepsLong, public testing::WithParamInterface<const char*> {
 protected:
  static Json layout_config() {
    Json config = stacks_config(499, "64K");
    config["snapshot"]["layout"] = config["record"]["layout"] = GetParam();
    return config;
  }
};

TEST_P(LayoutStepsLong, KilledAfterEachOfThem) {
  const Json config = layout_config();
  for (const std::string_view step : std::span(kStepNames).first(kSnapshotSteps)) {
    SCOPED_TRACE(step);
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config, stop_after(step)));
    expect_cleaned_and_listed(daemon);
    // The symbols are kept once for each boot.
    for (const auto& entry : fs::directory_iterator(daemon.snapshots_dir()))
      if (entry.path().filename().string().starts_with("kallsyms-")) fs::remove(entry.path());

    Child asker = Child::start(daemon.ctl_command({"--json", "snapshot"}));
    ASSERT_TRUE(wait_until([&] { return is_stopped(daemon.pid()); }, 60s)) << "this step is never taken";
    daemon.process().kill();
    const Outcome answer = asker.finish(20s);
    if (answer.exit_status == 0) reported_.insert(Json::parse(answer.out)["id"].get<std::string>());
    expect_only_whole_files();
  }
  TestDaemon last(folder_);
  ASSERT_TRUE(last.start(config));
  expect_cleaned_and_listed(last);
  const Json rows = last.ctl_json({"list"});
  ASSERT_FALSE(rows.empty());
  EXPECT_GT(std::stoul(last.snapshot()["id"].get<std::string>()), std::stoul(rows.back()["id"].get<std::string>()));
  EXPECT_THAT(rows.dump(), testing::HasSubstr("missing")) << "none was killed between the two names?";
  EXPECT_TRUE(last.stop());
}

TEST_P(LayoutStepsLong, ARecordingKilledAfterEachOfThemIsFinished) {
  const Json config = layout_config();
  std::size_t recordings = 0;
  bool has_rounds = false;
  for (const std::string_view step : kRecordingSteps) {
    SCOPED_TRACE(step);
    has_rounds = has_rounds || step == "sidecar_written";
    {
      TestDaemon daemon(folder_);
      ASSERT_TRUE(daemon.start(config, stop_after(step)));
      Child recorder = Child::start(daemon.ctl_command({"record", "--for", "1s", "--reason", "steps"}));
      ASSERT_TRUE(wait_until([&] { return is_stopped(daemon.pid()); }, 60s)) << "this step is never taken";
      daemon.process().kill();
      EXPECT_EQ(recorder.finish(20s).exit_status, 1);
      expect_only_whole_files();
    }
    if (has_rounds) ++recordings;
    ASSERT_NO_FATAL_FAILURE(expect_recordings(config, recordings));
  }
}

// Twice: the flightd that recorded, and the one that finishes its part.
TEST_P(LayoutStepsLong, ARecoveryKilledAfterEachOfThemIsRepeated) {
  const Json config = layout_config();
  std::size_t recordings = 0;
  for (const std::string_view step :
       {"sidecar_written", "sidecar_synced", "sidecar_named", "data_named", "part_tidied"}) {
    SCOPED_TRACE(step);
    {
      TestDaemon daemon(folder_);
      ASSERT_TRUE(daemon.start(config));
      Child recorder = Child::start(daemon.ctl_command({"record", "--reason", "steps"}));
      ASSERT_TRUE(wait_for_rounds(daemon.snapshots_dir(), 2)) << recorder.err() << daemon.log();
      daemon.process().kill();
      EXPECT_EQ(recorder.finish(20s).exit_status, 1);
    }
    {
      TestDaemon killed_again(folder_);
      killed_again.launch(config.dump(2), stop_after(step));
      ASSERT_TRUE(wait_until([&] { return is_stopped(killed_again.pid()); }, 60s)) << "this step is never taken";
      killed_again.process().kill();
    }
    ASSERT_NO_FATAL_FAILURE(expect_recordings(config, ++recordings));
  }
}

// Nobody follows the recording any more, so flightd ends it in order.
TEST_P(LayoutStepsLong, ARecordingWhoseClientIsKilledAfterEachOfThemIsWhole) {
  const Json config = layout_config();
  std::size_t recordings = 0;
  bool ends = false;
  for (const std::string_view step : kRecordingSteps) {
    SCOPED_TRACE(step);
    ends = ends || step == "sidecar_written";
    {
      TestDaemon daemon(folder_);
      ASSERT_TRUE(daemon.start(config, stop_after(step)));
      Child recorder = Child::start(
          daemon.ctl_command({"record", "--past", "1min", "--for", ends ? "1s" : "10min", "--reason", "steps"}));
      ASSERT_TRUE(wait_until([&] { return is_stopped(daemon.pid()); }, 60s)) << "this step is never taken";
      recorder.kill();
      const auto has_ended = [&] {
        go_on(daemon.pid());
        return daemon.log().find("ended (asked)") != std::string::npos;
      };
      ASSERT_TRUE(wait_until(has_ended, 60s)) << daemon.log();
      expect_only_whole_files();
      daemon.process().kill();
    }
    ASSERT_NO_FATAL_FAILURE(expect_recordings(config, ++recordings));
  }
}

// A flightd that was started by hand ends without its broker. What the rings held is in the recording.
TEST_P(LayoutStepsLong, ARecordingWhoseBrokerIsKilledAfterEachOfThemIsWhole) {
  const Json config = layout_config();
  std::size_t recordings = 0;
  for (const std::string_view step : kRecordingSteps) {
    SCOPED_TRACE(step);
    {
      TestDaemon daemon(folder_);
      ASSERT_TRUE(daemon.start(config, stop_after(step)));
      Child recorder =
          Child::start(daemon.ctl_command({"record", "--past", "1min", "--for", "1s", "--reason", "steps"}));
      ASSERT_TRUE(wait_until([&] { return is_stopped(daemon.pid()); }, 60s)) << "this step is never taken";
      ASSERT_EQ(::kill(daemon.broker_pid(), SIGKILL), 0);
      const auto has_ended = [&] {
        go_on(daemon.pid());
        return !daemon.process().running();
      };
      ASSERT_TRUE(wait_until(has_ended, 60s)) << daemon.log();
      EXPECT_EQ(daemon.process().wait(1s), 1) << daemon.log();
      expect_only_whole_files();
    }
    // Nobody made its files in the first case.
    if (step != "seq_written") ++recordings;
    ASSERT_NO_FATAL_FAILURE(expect_recordings(config, recordings));
  }
}

// The broker is another process, and systemd keeps its events for the next one.
class NextBrokerStepsLong : public OwnBroker, public testing::WithParamInterface<const char*> {
 protected:
  [[nodiscard]] StartOptions stop_after(std::string_view step) const {
    StartOptions out = options_;
    out.program = required_env("FLIGHTD_STEPS");
    out.prefix = {"env", "FLIGHT_STOP_AFTER=" + std::string(step)};
    out.prefix.insert(out.prefix.end(), options_.prefix.begin(), options_.prefix.end());
    return out;
  }
};

TEST_P(NextBrokerStepsLong, ARecordingGoesOnWithItAfterEachOfThem) {
  config_["record"]["layout"] = GetParam();
  write_text(folder_ / "broker.json", config_.dump(2));
  test::ServiceManager manager(folder_ / "notify");
  ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
  for (const std::string_view step : kRecordingSteps) {
    SCOPED_TRACE(step);
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config_, stop_after(step)));
    Child recorder = Child::start(daemon.ctl_command({"--json", "record", "--past", "1min", "--for", "1s"}));
    ASSERT_TRUE(wait_until([&] { return is_stopped(daemon.pid()); }, 60s)) << "this step is never taken";
    manager.receive_all();
    broker_->kill();
    ASSERT_NO_FATAL_FAILURE(start_broker(&manager));
    const auto has_ended = [&] {
      go_on(daemon.pid());
      manager.receive_all();
      return !recorder.running();
    };
    ASSERT_TRUE(wait_until(has_ended, 60s)) << daemon.log();
    const Outcome outcome = recorder.finish(1s);
    ASSERT_EQ(outcome.exit_status, 0) << outcome.text() << daemon.log();
    const Json result = Json::parse(outcome.out);
    EXPECT_EQ(result["ended"], "asked");
    ASSERT_FALSE(result["progress"]["finished"].empty());
    EXPECT_GT(result["progress"]["events"], 0);
    for (const Json& id : result["progress"]["finished"]) {
      const Json part = daemon.ctl_json({"info", id.get<std::string>()});
      EXPECT_TRUE(counts_all(Verifier::installed(), folder_, as_perf_sees(part)));
    }
    EXPECT_TRUE(no_partials(daemon.snapshots_dir()));
    daemon.process().kill();
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, LayoutStepsLong, testing::Values("file", "directory"));
INSTANTIATE_TEST_SUITE_P(Layouts, NextBrokerStepsLong, testing::Values("file", "directory"));

}  // namespace
}  // namespace flight
