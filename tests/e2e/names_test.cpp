// SPDX-License-Identifier: Apache-2.0
// No name is better than a wrong one: pids that are used again, an exec whose record is missing, lost records.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <set>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

// A high priority: few samples of other processes, and a sample at every moment of the load.

std::string comm_of(pid_t pid) {
  std::string comm = read_text(fmt::format("/proc/{}/comm", pid));
  if (!comm.empty()) comm.pop_back();
  return comm;
}

std::string texts(const Json& list) {
  std::string out;
  for (const Json& one : list) out += one.get<std::string>() + "\n";
  return out;
}

class Names : public testing::Test {
 protected:
  // Every sample of `pid` in its own functions has the name of the program that ran at that moment, or no name.
  struct Seen {
    std::size_t before = 0, after = 0, unknown = 0;
  };
  Seen look_at_execer(const Json& sidecar, pid_t pid) {
    Seen seen;
    for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
      if (sample.pid != pid) continue;
      if (sample.symbol == "hot_before_exec") {
        EXPECT_EQ(sample.comm, "execer") << sample.line;
        ++seen.before;
      } else if (sample.symbol == "hot_function_for_flightd") {
        EXPECT_EQ(sample.comm, "burner") << sample.line;
        ++seen.after;
      } else if (sample.comm == "[lost]" || sample.comm.starts_with(":")) {
        ++seen.unknown;
        EXPECT_EQ(sample.dso == "[unknown]" || sample.dso.starts_with("["), true) << sample.line;
      }
    }
    fmt::print("execer: {} samples before, {} after, {} of nobody knows whom\n", seen.before, seen.after, seen.unknown);
    return seen;
  }
  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::string cpu_ = std::to_string(load_cpu());
};

TEST_F(Names, AThreadWithTheNumberOfADeadProcessIsNotCalledSo) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child reuser = start_load({folder_.load("reuser"), cpu_, "4"}, kBusy);
  const auto line = reuser.wait_for_line("began", 30s);
  ASSERT_TRUE(line) << reuser.err();
  const auto victim = static_cast<int>(number_in(*line, "victim"));
  usleep(1'700'000);
  const Json overlapping = daemon_.snapshot();
  const Json sidecar = daemon_.snapshot({"--last", "1s"});
  std::size_t of_heir = 0;
  std::size_t of_victim = 0;
  for (const Json* one : {&overlapping, &sidecar}) {
    for (const NamedSample& sample : named_samples(folder_, (*one)["path"])) {
      if (sample.tid != victim) continue;
      if (sample.symbol == "hot_in_heir") {
        EXPECT_EQ(sample.comm, "heir") << sample.line;
        EXPECT_EQ(sample.pid, reuser.pid());
        of_heir += one == &sidecar ? 1 : 0;
      } else if (sample.symbol == "hot_in_victim") {
        EXPECT_EQ(sample.comm, "victim") << sample.line;
        ++of_victim;
        EXPECT_EQ(one, &overlapping);
      }
    }
  }
  fmt::print("{} samples of the thread in the last second, {} of the process before\n", of_heir, of_victim);
  EXPECT_GT(of_heir, 300U);
  EXPECT_GT(of_victim, 30U);
  EXPECT_EQ(reuser.wait(30s), 0) << reuser.err();
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Names, AnExecDuringAPauseIsKnownAfterwards) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child execer = start_load({folder_.load("execer"), cpu_, "1.5", folder_.load("burner"), cpu_, "4"}, kBusy);
  Child burner = start_load({folder_.load("burner"), cpu_, "10"}, kBusy);
  ASSERT_TRUE(execer.wait_for_line("started"));
  usleep(500'000);
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  ASSERT_TRUE(wait_until([&] { return comm_of(execer.pid()) == "burner"; }, 20s));
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  usleep(1'000'000);
  const Json sidecar = daemon_.snapshot();
  const Seen seen = look_at_execer(sidecar, execer.pid());
  EXPECT_GT(seen.before, 50U);
  EXPECT_GT(seen.after, 50U) << "what changed is known after resume";
  EXPECT_LT(seen.unknown, 30U) << "only while events were being switched off and on";
  std::size_t of_burner = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != burner.pid() || sample.symbol != "hot_function_for_flightd") continue;
    EXPECT_EQ(sample.comm, "burner") << sample.line;
    ++of_burner;
  }
  EXPECT_GT(of_burner, 50U);
  EXPECT_TRUE(daemon_.stop());
}

// flightd is stopped for a moment. Meanwhile one thread on each CPU fills the sideband rings, and a process executes
// another program; the record is lost.
TEST_F(Names, AfterLostRecordsUncertainNamesAreLost) {
  ASSERT_TRUE(daemon_.start(stacks_config(997, "2M")));
  Child burner = start_load({folder_.load("burner"), cpu_, "60"}, kBusy);
  Child execer = start_load({folder_.load("execer"), cpu_, "2", folder_.load("burner"), cpu_, "30"}, kBusy);
  ASSERT_TRUE(execer.wait_for_line("started"));
  ASSERT_TRUE(burner.wait_for_line("started"));
  usleep(500'000);
  daemon_.process().signal(SIGSTOP);
  std::vector<Child> togglers;
  for (const int cpu : usable_cpus())
    togglers.push_back(start_load({folder_.load("toggler"), std::to_string(cpu), "1.5", "1"}, kBusy));
  const bool execed = wait_until([&] { return comm_of(execer.pid()) == "burner"; }, 30s);
  std::vector<std::string> pids;
  for (Child& toggler : togglers) {
    pids.push_back(fmt::format("(pid {}", toggler.pid()));
    (void)toggler.wait(30s);
  }
  daemon_.process().signal(SIGCONT);
  ASSERT_TRUE(execed);
  const Json first = daemon_.snapshot();
  usleep(500'000);
  const Json sidecar = daemon_.snapshot();
  for (const Json* one : {&first, &sidecar}) {
    (void)look_at_execer(*one, execer.pid());
    EXPECT_THAT(texts((*one)["warnings"]), HasSubstr("lost within"));
    // The record of its fork or its exec may be lost. Its pid is always known.
    const std::string warnings = texts((*one)["warnings"]);
    EXPECT_TRUE(
        std::ranges::any_of(pids, [&](const std::string& pid) { return warnings.find(pid) != std::string::npos; }))
        << "who wrote them: " << warnings;
    EXPECT_FALSE((*one)["tracker"]["stale"]) << "a snapshot waits for the scan";
  }
  const Seen seen = look_at_execer(sidecar, execer.pid());
  EXPECT_GT(seen.before, 30U);
  EXPECT_GT(seen.after, 100U);
  // A process that executed nothing keeps its name all the time.
  std::size_t of_burner = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    if (sample.pid != burner.pid() || sample.time_ns < sidecar["window"]["begin_ns"].get<std::uint64_t>()) continue;
    // A sanitized build may be too slow to confirm the name in time. Then the process has no name, never a wrong one.
    const bool lost = sanitized() && sample.comm == "[lost]";
    EXPECT_TRUE(sample.comm == "burner" || sample.comm == own_comm() || lost) << sample.line;
    of_burner += sample.symbol == "hot_function_for_flightd" ? 1 : 0;
  }
  EXPECT_GT(of_burner, 100U);
  EXPECT_THAT(texts(daemon_.status()["warnings"]), HasSubstr("sideband record"));
  const Outcome text = daemon_.ctl({"info", sidecar["id"]});
  EXPECT_LT(text.out.find("sideband records"), text.out.find("window")) << "it stands on top:\n" << text.out;
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
