// SPDX-License-Identifier: Apache-2.0
// Tracepoints beside stacks in one file: their fields decode in perf script, a filter filters, every verifier reads it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

class Tracepoints : public testing::Test {
 protected:
  void SetUp() override {
    Json config = stacks_config(499, "512K");
    config["channels"]["sched"] = {
        {"ring", "2M"}, {"events", {"sched:sched_switch", "sched:sched_process_exec", "sched:sched_process_exit"}}};
    // The filter lets the calls of all programs through. The ring is large, so that one which closes thousands of files
    // does not overwrite what a test counts.
    config["channels"]["calls"] = {
        {"ring", "8M"},
        {"events", {{{"event", "raw_syscalls:sys_enter"}, {"filter", fmt::format("id == {}", SYS_close)}}}}};
    ASSERT_TRUE(daemon_.start(config));
  }

  void read(const Json& sidecar) {
    Outcome script = Verifier::installed().perf(
        folder_, {"script", "-i", sidecar["path"], "-G", "-F", "trace:comm,pid,cpu,time,event,trace", "-F",
                  "sw:comm,pid,cpu,time,event,ip,sym"});
    EXPECT_TRUE(stderr_is_right(script, !sidecar["holes"].empty()));
    printed_ = lines_of(script.out);
  }
  std::vector<std::string> lines(const std::string& event) const {
    std::vector<std::string> found;
    for (const std::string& line : printed_) {
      if (line.find(" " + event + ":") != std::string::npos) found.push_back(line);
    }
    return found;
  }
  static bool any_holds(const std::vector<std::string>& lines, const std::string& a, const std::string& b) {
    for (const std::string& line : lines) {
      if (line.find(a) != std::string::npos && line.find(b) != std::string::npos) return true;
    }
    return false;
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::vector<std::string> printed_;  // the lines of perf script
};
using TracepointsLong = Tracepoints;

TEST_F(TracepointsLong, FieldsDecodeBesideStacks) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "1"}, -10);
  EXPECT_EQ(burner.wait(30s), 0);
  Json sidecar = daemon_.snapshot();
  read(sidecar);

  std::vector<std::string> execs = lines("sched:sched_process_exec");
  EXPECT_TRUE(any_holds(execs, "filename=" + folder_.load("burner"), fmt::format("pid={}", burner.pid())))
      << "of " << execs.size();
  std::vector<std::string> exits = lines("sched:sched_process_exit");
  EXPECT_TRUE(any_holds(exits, "comm=burner", fmt::format("pid={}", burner.pid()))) << "of " << exits.size();
  // perf's own plugin prints "PREV_COMM:PID [PRIO] STATE ==> NEXT_COMM:PID [PRIO]"; older ones print the fields by
  // name.
  std::vector<std::string> switches = lines("sched:sched_switch");
  EXPECT_GT(switches.size(), 10U);
  for (const std::string& line : switches) EXPECT_NE(line.find("==>"), std::string::npos) << line;
  EXPECT_TRUE(any_holds(switches, "==>", fmt::format("burner:{} ", burner.pid())) ||
              any_holds(switches, "==>", fmt::format("next_pid={} ", burner.pid())));

  std::size_t hot = 0;
  for (const std::string& line : lines("cpu-clock")) hot += count_of(line, "hot_function_for_flightd");
  EXPECT_GT(hot, 20U);
  // The stacks channel has callchains in the same file.
  Outcome chains = Verifier::installed().perf(
      folder_, {"script", "-i", sidecar["path"], "-F", "ip,sym", "--comms", "burner", "--max-stack", "16"});
  EXPECT_GT(count_of(chains.out, "main"), 20U) << "callers of the hot function";
  EXPECT_TRUE(all_count_all(folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Tracepoints, FilterFilters) {
  Child closer = start_load({folder_.load("closer"), std::to_string(load_cpu()), "2000", "1"}, 0, true);
  ASSERT_TRUE(closer.wait_for_line("ready"));
  closer.go();
  EXPECT_EQ(closer.wait(30s), 0);
  std::uint64_t last = number_in(closer.wait_for_line("closed").value_or(""), "last");
  Json sidecar = daemon_.snapshot();
  read(sidecar);
  std::uint64_t from_closer = 0;
  for (const std::string& line : lines("raw_syscalls:sys_enter")) {
    EXPECT_NE(line.find(fmt::format("NR {} ", SYS_close)), std::string::npos) << line;
    from_closer += count_of(line, "closer") > 0 && count_of(line, "(ffffffff") > 0 ? 1U : 0U;
  }
  EXPECT_EQ(from_closer, last) << "every one it lets through";
  EXPECT_GT(last, 1000U);
  EXPECT_TRUE(all_count_all(folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

// Starts a child with a pid of our choice (clone3(2), set_tid; Linux 5.5; 0: any pid). The child does `busy` work and
// exits.
pid_t run_as(pid_t wanted, Milliseconds busy) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  if (wanted > 0) {
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&wanted);
    arguments.set_tid_size = 1;
  }
  const auto pid = static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
  if (pid == 0) {
    const auto end = std::chrono::steady_clock::now() + busy;
    while (std::chrono::steady_clock::now() < end) continue;
    _exit(0);
  }
  if (pid > 0) waitpid(pid, nullptr, 0);
  return pid;
}

// perf keeps the last callchain that it resolved, with mappings of its process, for samples of events without a
// callchain. When the process's pid is used again, these mappings are freed, and `perf report --children` of 6.1
// crashed. Samples over which it did not crash were attributed to the callers of another sample.
TEST_F(TracepointsLong, ReportsTakeNumbersUsedAgainAndAPause) {
  const pid_t number = run_as(0, 0ms);
  ASSERT_GT(number, 0);
  const auto reuse = [&] {
    int made = 0;
    for (int i = 0; i < 40; ++i) made += run_as(number, 10ms) == number ? 1 : 0;
    return made;
  };
  // Another program may have had the pid for a moment.
  EXPECT_GT(reuse(), 20);
  EXPECT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  EXPECT_GT(reuse(), 20);
  EXPECT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  EXPECT_GT(reuse(), 20);
  Json sidecar = daemon_.snapshot();
  // glibc overwrites freed memory, so that a use after free crashes each time (mallopt(3)).
  setenv("MALLOC_PERTURB_", "85", 1);
  for (const Verifier& verifier : Verifier::all()) {
    for (const std::string mode : {"--children", "--no-children"}) {
      SCOPED_TRACE(verifier.name() + " " + mode);
      Outcome report = verifier.perf(folder_, {"report", "-i", sidecar["path"], "--stdio", "--sort", "comm", mode});
      EXPECT_EQ(report.exit_status, 0) << report.text();
      EXPECT_TRUE(stderr_is_right(report, !sidecar["holes"].empty()));
      EXPECT_NE(report.out.find("of event 'sched:sched_switch'"), std::string::npos) << report.text();
    }
  }
  unsetenv("MALLOC_PERTURB_");
  EXPECT_TRUE(all_count_all(folder_, sidecar));
  // A switch has no callers here: the event has no callchain.
  Outcome callers = Verifier::installed().perf(
      folder_, {"report", "-i", sidecar["path"], "--stdio", "--children", "--sort", "sym", "-g", "none"});
  const std::size_t begin = callers.out.find("of event 'sched:sched_switch'");
  ASSERT_NE(begin, std::string::npos) << callers.text();
  std::size_t rows = 0;
  for (const std::string& line : lines_of(callers.out.substr(begin, callers.out.find("\n# Samples", begin) - begin))) {
    double children = 0, self = 0;
    if (line.starts_with("#") || std::sscanf(line.c_str(), " %lf%% %lf%%", &children, &self) != 2) continue;
    ++rows;
    EXPECT_EQ(children, self) << line;
  }
  EXPECT_GT(rows, 0U) << callers.text();
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
