// SPDX-License-Identifier: Apache-2.0
// Scheduling in a real snapshot, against `perf sched timehist` of the same file.
#include "libcore/profile/sched.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

// In us, as perf prints them.
struct TimesOfPerf {
  std::uint64_t run = 0, sleep = 0, iowait = 0, preempt = 0, delay = 0;
};

// "12.345" ms.
std::uint64_t micros_of(std::string text) {
  std::erase(text, '.');
  return std::strtoull(text.c_str(), nullptr, 10);
}

// By the number of the thread, of lines as "  perf[65/60]   2   7   0.129   43.823   0.000   0.000   0.142".
std::map<std::uint32_t, TimesOfPerf> times_of_perf(const std::string& summary) {
  constexpr std::size_t kWords = 7;
  std::map<std::uint32_t, TimesOfPerf> out;
  for (const std::string& line : lines_of(summary)) {
    const std::size_t end = line.rfind(']');
    const std::size_t begin = end == std::string::npos ? end : line.rfind('[', end);
    if (begin == std::string::npos) continue;
    std::istringstream rest(line.substr(end + 1));
    std::vector<std::string> words;
    for (std::string word; rest >> word;) words.push_back(word);
    const long tid = std::strtol(line.c_str() + begin + 1, nullptr, 10);
    if (words.size() != kWords || tid <= 0) continue;
    TimesOfPerf& times = out[static_cast<std::uint32_t>(tid)];
    times.run += micros_of(words[2]);
    times.sleep += micros_of(words[3]);
    times.iowait += micros_of(words[4]);
    times.preempt += micros_of(words[5]);
    times.delay += micros_of(words[6]);
  }
  return out;
}

// perf cuts each number to whole microseconds.
void expect_near(std::uint64_t ns, std::uint64_t us, const char* what, const SchedThread& thread) {
  constexpr std::uint64_t kCut = 3;
  const std::uint64_t mine = ns / 1000;
  EXPECT_LE(std::max(mine, us) - std::min(mine, us), kCut)
      << what << " of " << thread.tid << ": " << mine << " us, perf has " << us;
}

class SchedulingLong : public testing::Test {
 protected:
  void SetUp() override {
    Json config = stacks_config(99, "1M");
    config["channels"]["sched"] = {{"ring", "8M"}, {"events", {"sched:sched_switch", "sched:sched_wakeup"}}};
    ASSERT_TRUE(daemon_.start(config));
    const Arguments burner{folder_.load("burner"), std::to_string(load_cpu()), "60"};
    for (int i = 0; i < 2; ++i) burners_.push_back(start_load(burner, kBusy));
    for (const Child& one : burners_) ASSERT_TRUE(one.runs_for(1s));
    sidecar_ = daemon_.snapshot();
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::vector<Child> burners_;
  Json sidecar_;
};

// A thread that has ended is left out: perf counts its last time for another one, since its ids were released. So is
// the last wait of one that runs: perf counts it when it leaves the CPU.
TEST_F(SchedulingLong, HasTheTimesOfPerf) {
  const std::string path = sidecar_.at("path").get<std::string>();
  const auto file = FileReader::open(path);
  ASSERT_TRUE(file) << file.error().what;
  const auto profile = SchedProfile::read(*file, {.count_what_goes_on = false});
  ASSERT_TRUE(profile) << profile.error().what;
  EXPECT_GT(profile->switches, 100U);
  EXPECT_TRUE(profile->knowledge.normal_wakeups);
  EXPECT_EQ(profile->malformed + profile->left_out + profile->left_out_threads + profile->lost, 0U);
  for (const SchedCpu& cpu : profile->cpus) EXPECT_EQ(cpu.breaks, 0U);

  const Outcome outcome =
      Verifier::installed().perf(folder_, {"sched", "timehist", "-i", path, "--summary", "--state"});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text();
  const auto perfs = times_of_perf(outcome.out);
  std::map<std::uint32_t, int> lives;
  for (const SchedThread& one : profile->threads) ++lives[one.tid];
  std::size_t compared = 0;
  for (const SchedThread& one : profile->threads) {
    const auto found = perfs.find(one.tid);
    if (one.state == SchedState::ended || lives[one.tid] > 1) continue;
    if (found == perfs.end()) {
      EXPECT_EQ(one.run.total_ns, 0U) << one.tid << " is not in\n" << outcome.out;
      continue;
    }
    ++compared;
    const TimesOfPerf& perf = found->second;
    expect_near(one.run.total_ns, perf.run, "run time", one);
    if (one.state == SchedState::running) continue;
    expect_near(one.blocked.total_ns, perf.iowait, "time in D", one);
    // perf 6.1 counts a thread that was preempted in the kernel, whose state is 0x100, as one that sleeps.
    expect_near(one.slept.total_ns + one.preempted.total_ns, perf.sleep + perf.preempt, "sleep and preemption", one);
    expect_near(one.delayed.total_ns, perf.delay, "delay", one);
  }
  EXPECT_GT(compared, 10U) << outcome.text();
  EXPECT_TRUE(daemon_.stop());
}

// Two programs that share a CPU: each waits for the other.
TEST_F(SchedulingLong, ShowsWhoRanInstead) {
  const Json said = daemon_.ctl_json({"sched", "latest"});
  EXPECT_EQ(said.at("wakeups_of"), "all");
  for (std::size_t i : {0U, 1U}) {
    const pid_t own = burners_[i].pid(), other = burners_[1 - i].pid();
    const auto& threads = said.at("threads");
    const auto found =
        std::find_if(threads.begin(), threads.end(), [own](const Json& one) { return one.at("tid") == own; });
    ASSERT_TRUE(found != threads.end()) << said.dump(2);
    EXPECT_EQ(found->at("comm"), "burner");
    EXPECT_GT(found->at("wait").at("ns").get<std::uint64_t>(), 100'000'000U) << found->dump(2);
    ASSERT_FALSE(found->at("instead").empty()) << found->dump(2);
    EXPECT_EQ(found->at("instead").at(0).at("tid"), other) << found->dump(2);
  }
  const Outcome page = daemon_.ctl({"sched"});
  EXPECT_EQ(page.exit_status, 0) << page.text();
  EXPECT_NE(page.out.find("who ran on their CPUs instead:\n"), std::string::npos) << page.text();
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
