// SPDX-License-Identifier: Apache-2.0
// Names survive flightd. The broker and the rings continue when flightd is killed. Only the checkpoint in the runtime
// directory has the names of processes that exited.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>

#include "libcore/base/clock.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

class Outlive : public OwnBroker {
 protected:
  Outlive() { config_ = stacks_config(997, "1M"); }
  // A high priority, so that the machine's other work does not push its samples out of the ring.
  Child burn(std::string_view seconds) {
    return start_load({folder_.load("burner"), std::to_string(load_cpu()), std::string(seconds)}, -15);
  }
  TestDaemon daemon_{folder_};
};
using OutliveLong = Outlive;

struct OutlivedTally {
  std::size_t samples = 0, named = 0, in_program = 0, mapped = 0;
  std::string unmapped;  // perf's lines for these samples
};

OutlivedTally tally(const std::vector<NamedSample>& samples, pid_t pid, const std::string& program) {
  OutlivedTally out;
  for (const NamedSample& sample : samples) {
    if (sample.pid != pid) continue;
    ++out.samples;
    // Before its exec the process has this test's name.
    out.named += sample.comm == "burner" || sample.comm == own_comm() ? 1 : 0;
    out.in_program += sample.dso == program && sample.symbol != "[unknown]" ? 1 : 0;
    out.mapped += sample.dso != "[unknown]" ? 1 : 0;
    if (sample.dso == "[unknown]") out.unmapped += sample.line + "\n";
  }
  fmt::print("pid {}: {} samples, {} named, {} in the program, {} in a known one\n", pid, out.samples, out.named,
             out.in_program, out.mapped);
  return out;
}

// One process ended before the kill, and flightd saw all of its life. One was already running when flightd started. One
// ends while there is no flightd.
TEST_F(Outlive, ThreeThatEndedAreKnownToTheNextFlightd) {
  Child before = burn("60");
  ASSERT_TRUE(before.wait_for_line("started"));
  ASSERT_TRUE(daemon_.start(config_, options_));
  Child during = burn("60");
  Child gap = burn("60");
  ASSERT_TRUE(during.wait_for_line("started"));
  ASSERT_TRUE(gap.wait_for_line("started"));
  for (Child* one : {&during, &gap, &before}) ASSERT_TRUE(one->runs_for(300ms));
  during.kill();
  before.kill();
  // flightd drains every 100 ms: the records are in the process tracker, and no longer in a sideband ring.
  usleep(300'000);
  daemon_.process().kill();
  gap.kill();
  ASSERT_TRUE(daemon_.start(config_, options_));
  const Json sidecar = daemon_.snapshot();
  const std::vector<NamedSample> samples = counted_samples(folder_, sidecar);
  for (const pid_t pid : {before.pid(), during.pid(), gap.pid()}) {
    const OutlivedTally of = tally(samples, pid, folder_.load("burner"));
    EXPECT_GT(of.samples, 100U);
    EXPECT_EQ(of.named, of.samples);
    EXPECT_EQ(of.mapped, of.samples) << of.unmapped;
    EXPECT_GT(of.in_program, of.samples * 9 / 10);
  }
  EXPECT_EQ(sidecar["tracker"]["evicted"], 0);
  struct stat info {};
  ASSERT_EQ(stat(checkpoint().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(info.st_uid, kClientId);
  EXPECT_TRUE(daemon_.stop());
}

// The rings hold 40 s: all of a storm, also on a slow machine.
class OutliveStormLong : public Outlive {
 protected:
  OutliveStormLong() {
    config_ = stacks_config(99, "1M");
    config_["memory"] = {{"max", "64M"}};
  }
};

// The fork storm lasts the whole time. The log holds a second of it, so the next flightd has not counted most of its
// forks.
TEST_F(OutliveStormLong, ForksThatWereNotCountedAreNotNone) {
  ASSERT_TRUE(daemon_.start(config_, options_));
  const EventTime began_ns = monotonic_now();
  const Child storm = start_load({"bash", "-c", "while :; do /bin/true; done"});
  const std::uint64_t forked = forks_so_far();
  ASSERT_TRUE(wait_until([&] { return forks_so_far() > forked + 8000; }, 60s)) << "a slow storm";
  const Json whole = daemon_.snapshot()["forks"];
  EXPECT_EQ(whole["complete"], true) << whole;
  ASSERT_TRUE(whole["per_second_before"].is_number()) << whole;
  ASSERT_NO_FATAL_FAILURE(replace(daemon_));
  ::sleep(1);
  const Json sidecar = daemon_.snapshot();
  ASSERT_LT(sidecar["compared"]["before_begin_ns"], began_ns) << "the rings hold only a part of the storm";
  const Json& after = sidecar["forks"];
  EXPECT_EQ(after["complete"], false) << after;
  EXPECT_TRUE(after["per_second_before"].is_null()) << after;
  for (const Json& row : after["by_pid"]) EXPECT_TRUE(row["per_second_before"].is_null()) << row;
  EXPECT_GT(after["count"], 0) << after;
  // The checkpoint has no space for so many names, so the earlier CPU time of `true` is unknown.
  const Json& programs = sidecar["top_programs"];
  for (const Json& row : programs) EXPECT_TRUE(row["cpus_before"].is_null() && row["share_before"].is_null()) << row;
  EXPECT_TRUE(std::any_of(programs.begin(), programs.end(), [](const Json& row) { return row["name"] == "[unknown]"; }))
      << programs;
  EXPECT_THAT(sidecar["warnings"].dump(), HasSubstr("of the samples before have no name any more"));
  const std::string info = daemon_.ctl({"info"}).out;
  EXPECT_THAT(info, HasSubstr("at least")) << after;
  EXPECT_TRUE(daemon_.stop());
}

// Kills flightd again and again, at random moments, while two thousand processes start and exit.
TEST_F(OutliveLong, AStormAndManyKillsLoseNoNames) {
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
    // Before it sets its own name it has its parent's.
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
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

// As with ProtectProc=invisible: flightd cannot look up the names of its clients.
TEST_F(Outlive, TheRequesterIsKnownWithProcHidden) {
  const Arguments hidden{
      "unshare", "--mount", "sh", "-c", R"(mount -t proc -o hidepid=invisible proc /proc && exec "$@")", "sh"};
  options_.prefix.insert(options_.prefix.begin(), hidden.begin(), hidden.end());
  ASSERT_TRUE(daemon_.start(config_, options_));
  const Json asked = daemon_.snapshot();
  EXPECT_EQ(asked["requests"][0]["comm"], "flightctl");
  EXPECT_EQ(asked["requests"][0]["uid"], 0);
  // This sender has exited before flightd looks it up.
  Child sender = Child::start({"kill", "-USR2", std::to_string(daemon_.pid())});
  ASSERT_EQ(sender.wait(10s), 0);
  ASSERT_TRUE(wait_until([&] { return daemon_.ctl_json({"list"}).size() == 2; }, 20s));
  const Json signalled = daemon_.ctl_json({"info", "latest"});
  EXPECT_EQ(signalled["trigger"], "signal");
  EXPECT_EQ(signalled["requests"][0]["comm"], "kill");
  EXPECT_EQ(signalled["requests"][0]["pid"], sender.pid());
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
