// SPDX-License-Identifier: Apache-2.0
// The names outlive flightd. The broker and the rings live on when flightd is killed; who burned and has ended is told
// of by the spool in the runtime folder, and by nothing else.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "tests/e2e/judge.hpp"
#include "tests/e2e/own_broker.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class Outlive : public OwnBroker {
 protected:
  Outlive() { config_ = stacks_config(997, "1M"); }
  // Below others, so that what the machine does does not push its samples out of the ring.
  Child burn(std::string_view seconds) {
    return start_load({folder_.load("burner"), std::to_string(load_cpu()), std::string(seconds)}, -15);
  }
  // kill -9, and the next one.
  void replace(TestDaemon& daemon) {
    daemon.process().kill();
    ASSERT_TRUE(daemon.start(config_, options_));
  }
  [[nodiscard]] std::string spool() const { return folder_ / "run/ledger.spool"; }

  TestDaemon daemon_{folder_};
};

struct Tally {
  std::size_t samples = 0, named = 0, in_program = 0, mapped = 0;
  std::string unmapped;  // the lines
};

Tally tally(const std::vector<NamedSample>& samples, pid_t pid, const std::string& program) {
  Tally out;
  for (const NamedSample& sample : samples) {
    if (sample.pid != pid) continue;
    ++out.samples;
    // Before its exec it has this test's name.
    out.named += sample.comm == "burner" || sample.comm == "e2e-outlive" ? 1 : 0;
    out.in_program += sample.dso == program && sample.symbol != "[unknown]" ? 1 : 0;
    out.mapped += sample.dso != "[unknown]" ? 1 : 0;
    if (sample.dso == "[unknown]") out.unmapped += sample.line + "\n";
  }
  fmt::print("pid {}: {} samples, {} named, {} in the program, {} in a known one\n", pid, out.samples, out.named,
             out.in_program, out.mapped);
  return out;
}

// One ended before the kill, and flightd saw all of its life; one it had found running; one ends while there is no
// flightd.
TEST_F(Outlive, ThreeThatEndedAreKnownToTheNextFlightd) {
  Child before = burn("60");
  ASSERT_TRUE(before.wait_for_line("started"));
  ASSERT_TRUE(daemon_.start(config_, options_));
  Child during = burn("1");
  Child gap = burn("60");
  ASSERT_TRUE(during.wait_for_line("started"));
  ASSERT_TRUE(gap.wait_for_line("started"));
  ASSERT_EQ(during.wait(30s), 0);
  before.kill();
  // Drained every 100 ms: they are in the ledger, and no longer in a sideband ring.
  usleep(300'000);
  daemon_.process().kill();
  gap.kill();
  ASSERT_TRUE(daemon_.start(config_, options_));
  const Json sidecar = daemon_.snapshot();
  const std::vector<NamedSample> samples = named_samples(folder_, sidecar["path"]);
  for (const pid_t pid : {before.pid(), during.pid(), gap.pid()}) {
    const Tally of = tally(samples, pid, folder_.load("burner"));
    EXPECT_GT(of.samples, 100U);
    EXPECT_EQ(of.named, of.samples);
    EXPECT_EQ(of.mapped, of.samples) << of.unmapped;
    EXPECT_GT(of.in_program, of.samples * 9 / 10);
  }
  EXPECT_TRUE(counts_all(Judge::installed(), folder_, sidecar));
  EXPECT_EQ(sidecar["ledger"]["evicted"], 0);
  struct stat info {};
  ASSERT_EQ(stat(spool().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(info.st_uid, kClientId);
  EXPECT_TRUE(daemon_.stop());
}

// Again and again, at any moment, while two thousand are born and die.
TEST_F(Outlive, AStormAndManyKillsLeaveNobodyWithoutAName) {
  ASSERT_TRUE(daemon_.start(config_, options_));
  Child forker = start_load({folder_.load("forker"), std::to_string(load_cpu()), "2000", "4"}, -15);
  ASSERT_TRUE(forker.wait_for_line("started"));
  int kills = 0;
  for (; forker.running(); ++kills) {
    usleep(20'000 + kills % 7 * 37'000);
    ASSERT_NO_FATAL_FAILURE(replace(daemon_));
  }
  ASSERT_EQ(forker.wait(60s), 0);
  ASSERT_NO_FATAL_FAILURE(replace(daemon_));
  const Json sidecar = daemon_.snapshot();

  std::map<pid_t, std::string> expected;
  for (const std::string& line : lines_of(forker.out())) {
    if (line.starts_with("tiny-")) expected[std::stoi(line.substr(10))] = line.substr(0, 9);
  }
  ASSERT_EQ(expected.size(), 2000U);
  std::set<pid_t> seen;
  std::size_t samples = 0, named = 0, mapped = 0;
  std::string unmapped;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    const auto child = expected.find(sample.pid);
    if (child == expected.end()) continue;
    ++samples;
    seen.insert(sample.pid);
    // Before it takes its own name it has its parent's.
    named += sample.comm == child->second || sample.comm == "forker" ? 1 : 0;
    mapped += sample.dso != "[unknown]" ? 1 : 0;
    if (sample.dso == "[unknown]") unmapped += sample.line + "\n";
  }
  fmt::print("{} kills; {} samples of {} short-lived processes, {} named, {} in a known program\n", kills, samples,
             seen.size(), named, mapped);
  EXPECT_GE(kills, 3);
  EXPECT_GT(seen.size(), 500U);
  EXPECT_EQ(named, samples);
  EXPECT_EQ(mapped, samples) << unmapped;
  EXPECT_TRUE(counts_all(Judge::installed(), folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

// As behind ProtectProc=invisible: flightd cannot look up what its clients are called.
TEST_F(Outlive, WhoAskedIsKnownWhereProcIsHidden) {
  const Arguments hidden{
      "unshare", "--mount", "sh", "-c", R"(mount -t proc -o hidepid=invisible proc /proc && exec "$@")", "sh"};
  options_.prefix.insert(options_.prefix.begin(), hidden.begin(), hidden.end());
  ASSERT_TRUE(daemon_.start(config_, options_));
  const Json asked = daemon_.snapshot();
  EXPECT_EQ(asked["requests"][0]["comm"], "flightctl");
  EXPECT_EQ(asked["requests"][0]["uid"], 0);
  // One that has gone when it is looked for.
  Child sender = Child::start({"kill", "-USR2", std::to_string(daemon_.pid())});
  ASSERT_EQ(sender.wait(10s), 0);
  ASSERT_TRUE(wait_until([&] { return daemon_.ctl_json({"list"}).size() == 2; }, 20s));
  const Json signalled = daemon_.ctl_json({"info", "latest"});
  EXPECT_EQ(signalled["trigger"], "signal");
  EXPECT_EQ(signalled["requests"][0]["comm"], "kill");
  EXPECT_EQ(signalled["requests"][0]["pid"], sender.pid());
  EXPECT_TRUE(daemon_.stop());
}

// What somebody left there does no harm, and is told.
TEST_F(Outlive, ASpoolThatIsNoneIsToldAndReplaced) {
  std::ofstream(spool()) << std::string(100'000, 'x');
  ASSERT_EQ(chown(spool().c_str(), kClientId, kClientId), 0);
  ASSERT_EQ(chmod(spool().c_str(), 0600), 0);
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_THAT(daemon_.log(), HasSubstr("is no spool of this flightd's"));
  EXPECT_EQ(daemon_.status()["warnings"].dump().find("spool"), std::string::npos) << "it has a good one now";
  replace(daemon_);
  EXPECT_EQ(daemon_.log().find("is no spool of this flightd's"), std::string::npos);
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Outlive, ASpoolThatCannotBeMadeIsToldAndMadeGood) {
  ASSERT_TRUE(std::filesystem::create_directory(spool() + ".new"));  // where it is made
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_THAT(daemon_.log(), HasSubstr("those that ended before have no names"));
  EXPECT_THAT(daemon_.status()["warnings"].dump(), HasSubstr("those that ended before have no names"));
  std::filesystem::remove(spool() + ".new");
  EXPECT_TRUE(
      wait_until([&] { return daemon_.status()["warnings"].dump().find("no names") == std::string::npos; }, 30s));
  EXPECT_TRUE(daemon_.goes_on());
  // Whoever comes after one that could not keep it is told.
  ASSERT_TRUE(std::filesystem::create_directory(spool() + ".new"));
  replace(daemon_);
  std::filesystem::remove(spool() + ".new");
  EXPECT_EQ(daemon_.log().find("could not keep all that it knew"), std::string::npos);
  replace(daemon_);
  EXPECT_THAT(daemon_.log(), HasSubstr("could not keep all that it knew"));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Outlive, ASpoolThatIsNotThereIsTold) {
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_EQ(daemon_.log().find("events have been recorded for"), std::string::npos) << "it is the first";
  ASSERT_TRUE(wait_until([&] { return daemon_.status()["uptime_seconds"] > 10.5; }, 30s)) << "longer than a start";
  daemon_.process().kill();
  ASSERT_TRUE(std::filesystem::remove(spool()));
  ASSERT_TRUE(daemon_.start(config_, options_));
  EXPECT_THAT(daemon_.log(), HasSubstr("what an earlier flightd knew of processes is not there"));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
