// SPDX-License-Identifier: Apache-2.0
// kill -9 after each named step of a snapshot, in one store: every file with a final name is complete, and the next
// flightd removes the others and logs what is missing. flightd-steps stops itself after the given step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "libcore/base/steps.hpp"
#include "libcore/store/names.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;

bool is_stopped(pid_t pid) {
  const std::string stat = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t close = stat.rfind(')');
  return close != std::string::npos && stat.substr(close, 3) == ") T";
}

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
        EXPECT_TRUE(counts_all(Verifier::installed(), folder_, Json::parse(read_text(sidecar))));
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

  TempFolder folder_;
  std::set<std::string> verified_;
  std::set<std::string> reported_;
};

TEST_F(StepsLong, KilledAfterEachOfThem) {
  const Json config = stacks_config(499, "64K");
  for (const std::string_view step : kStepNames) {
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

}  // namespace
}  // namespace flight
