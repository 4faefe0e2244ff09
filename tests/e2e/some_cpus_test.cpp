// SPDX-License-Identifier: Apache-2.0
// A channel that records one CPU, beside a load on another one: the file has no sample of that CPU, everything says
// which CPU is recorded, and nothing says that the other one is idle.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class SomeCpus : public DaemonTest {
 protected:
  SomeCpus() : DaemonTest(stacks_config(199, "1M")) { record(std::to_string(recorded_)); }
  // Starts no flightd: one test has a load that begins before it.
  void SetUp() override {
    if (recorded_ == loaded_) GTEST_SKIP() << "needs two CPUs";
  }
  // Empty: all.
  void record(const std::string& cpus) {
    Json& channel = config_["channels"]["stacks"];
    channel.erase("cpus");
    if (!cpus.empty()) channel["cpus"] = cpus;
  }
  void write_config() const { write_text(folder_ / "flightd.json", config_.dump(2)); }
  [[nodiscard]] Child burn_on(int cpu) const {
    return start_load({folder_.load("burner"), std::to_string(cpu), "200"});
  }
  // The CPUs of the samples, as stock perf prints them: "[001]".
  [[nodiscard]] std::set<int> sampled_cpus(const Json& sidecar) const {
    const std::string path = sidecar["path"].get<std::string>();
    const Outcome script = Verifier::installed().perf(folder_, {"script", "-i", path, "-F", "cpu"});
    EXPECT_TRUE(prints_all(script, sidecar));
    std::set<int> out;
    std::size_t lines = 0;
    for (const std::string& line : lines_of(script.out)) {
      const std::size_t bracket = line.find('[');
      if (bracket == std::string::npos) continue;
      out.insert(std::atoi(line.c_str() + bracket + 1));
      ++lines;
    }
    EXPECT_EQ(lines, sidecar["samples"].get<std::size_t>()) << script.text().substr(0, 500);
    return out;
  }
  static bool has_process(const Json& sidecar, pid_t pid) {
    const Json& top = sidecar["top"];
    return std::any_of(top.begin(), top.end(), [&](const Json& row) { return row["pid"] == pid; });
  }

  const int recorded_ = usable_cpus().front(), loaded_ = load_cpu();
};

TEST_F(SomeCpus, TheOthersAreNotShownAsIdle) {
  const std::string only = fmt::format("{}", recorded_);
  // It begins on any CPU, so it begins before the recording.
  Child other = burn_on(loaded_);
  ASSERT_TRUE(other.wait_for_line("started"));
  ASSERT_TRUE(daemon_.start(config_));
  Child own = burn_on(recorded_);
  ASSERT_TRUE(own.wait_for_line("started"));
  ASSERT_TRUE(own.runs_for(400ms));
  Json sidecar;
  ASSERT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        return sidecar["samples"].get<std::uint64_t>() > 50 && has_process(sidecar, own.pid());
      },
      60s))
      << sidecar.dump();
  own.kill();  // perf needs a CPU
  EXPECT_EQ(sampled_cpus(sidecar), std::set<int>{recorded_});
  ASSERT_EQ(sidecar["rings"].size(), 1U);
  EXPECT_EQ(sidecar["rings"][0]["cpu"], recorded_);
  EXPECT_EQ(sidecar["channel_cpus"], Json::parse(R"([{"channel": "stacks", "cpus": ")" + only + R"("}])"));
  EXPECT_EQ(sidecar["top_cpus"], only);
  EXPECT_FALSE(has_process(sidecar, other.pid())) << "it has no samples";
  for (const Json& message : sidecar.value("messages", Json::array()))
    EXPECT_THAT(message["text"].get<std::string>(), Not(HasSubstr(fmt::format("CPU {}", loaded_))));
  const std::string info = daemon_.ctl({"info", sidecar["id"]}).out;
  EXPECT_THAT(info, AllOf(ContainsRegex(fmt::format("only\\s+CPU\\s+{}\\s+is\\s+sampled", only)),
                          HasSubstr(fmt::format("stacks: {}; other channels: all", only)), Not(HasSubstr("idle"))));
  EXPECT_THAT(daemon_.log(), HasSubstr(fmt::format("only CPU {} is sampled", only)));

  // The other CPU is busy all the time and delivers nothing, which is no fault.
  Json status = daemon_.status();
  EXPECT_TRUE(records(status)) << status.dump();
  EXPECT_EQ(status["cpus"], 1);
  ASSERT_EQ(status["rings"].size(), 1U);
  EXPECT_EQ(status["rings"][0]["cpu"], recorded_);
  EXPECT_EQ(status["channels"][0]["cpus"], only);
  // Once it has seen samples, it could miss those of the other CPU.
  std::string page;
  EXPECT_TRUE(wait_until(
      [&] {
        page = daemon_.ctl({"status"}).out;
        return page.find("recording 1 CPU,") != std::string::npos;
      },
      20s))
      << page;
  EXPECT_THAT(page, AllOf(HasSubstr(fmt::format("Channel stacks records only the CPUs {}.", only)),
                          Not(HasSubstr(fmt::format("CPU {}", loaded_))), Not(HasSubstr("idle"))));

  record("");
  write_config();
  EXPECT_EQ(daemon_.ctl_json({"reload"})["changed"], true);
  ASSERT_TRUE(other.runs_for(400ms));
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        const std::set<int> cpus = sampled_cpus(sidecar);
        return cpus.contains(recorded_) && cpus.contains(loaded_) && has_process(sidecar, other.pid());
      },
      60s))
      << sidecar.dump();
  EXPECT_FALSE(sidecar.contains("channel_cpus"));
  EXPECT_FALSE(sidecar.contains("top_cpus"));
  status = daemon_.status();
  EXPECT_FALSE(status["channels"][0].contains("cpus"));
  EXPECT_GT(status["cpus"].get<int>(), 1);
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(SomeCpus, CpusThatTheMachineDoesNotHave) {
  ASSERT_TRUE(daemon_.start(config_));
  const std::string file = folder_ / "flightd.json";
  const auto check = [&] { return run({required_env("FLIGHTD"), "--check-config", "--config", file}); };
  record("8190-8191");
  write_config();
  const Outcome refused = daemon_.ctl({"--json", "reload"});
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  const Json error = Json::parse(refused.err, nullptr, false);
  EXPECT_EQ(error.value("error", ""), "io.flightd.Recorder.BadConfig") << refused.text();
  EXPECT_THAT(error.value("message", ""), AllOf(HasSubstr(file + ":"), HasSubstr("none of the CPUs 8190-8191")));
  EXPECT_NE(check().exit_status, 0);
  EXPECT_THAT(check().err, HasSubstr("none of the CPUs 8190-8191"));
  EXPECT_EQ(daemon_.status()["channels"][0]["cpus"], fmt::format("{}", recorded_)) << "the old one stays in force";

  record(fmt::format("{},8190-8191", recorded_));
  write_config();
  EXPECT_EQ(daemon_.ctl_json({"reload"})["changed"], true);
  const Json status = daemon_.status();
  EXPECT_EQ(status["channels"][0]["cpus"], fmt::format("{}", recorded_));
  EXPECT_THAT(status["warnings"].dump(), HasSubstr("this machine does not have the CPUs 8190-8191"));
  EXPECT_EQ(check().exit_status, 0);
  EXPECT_THAT(check().err, HasSubstr("this machine does not have the CPUs 8190-8191"));

  // A mask of the workers that has no CPU of this machine.
  config_["record"]["workers"] = fmt::format("{}/8190", recorded_);
  write_config();
  const Outcome no_mask = daemon_.ctl({"--json", "reload"});
  EXPECT_EQ(no_mask.exit_status, 1) << no_mask.text();
  EXPECT_THAT(Json::parse(no_mask.err, nullptr, false).value("message", ""),
              AllOf(HasSubstr("record.workers"), HasSubstr("none of the CPUs 8190")));
  EXPECT_TRUE(records(daemon_.status()));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
