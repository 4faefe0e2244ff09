// SPDX-License-Identifier: Apache-2.0
// Tracepoints beside stacks in one file: their fields decode in perf script, a filter filters, every judge reads it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <map>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/judge.hpp"

namespace flight {
namespace {

class Tracepoints : public testing::Test {
 protected:
  void SetUp() override {
    Json config = stacks_config(499, "512K");
    config["channels"]["sched"] = {
        {"ring", "2M"}, {"events", {"sched:sched_switch", "sched:sched_process_exec", "sched:sched_process_exit"}}};
    config["channels"]["calls"] = {
        {"ring", "1M"},
        {"events", {{{"event", "raw_syscalls:sys_enter"}, {"filter", fmt::format("id == {}", SYS_close)}}}}};
    ASSERT_TRUE(daemon_.start(config));
  }

  void read(const Json& sidecar) {
    Outcome script = Judge::installed().perf(
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
  std::vector<std::string> printed_;  // by perf script
};

TEST_F(Tracepoints, FieldsDecodeBesideStacks) {
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "1"}, -10);
  EXPECT_EQ(burner.wait(30s), 0);
  Json sidecar = daemon_.snapshot();
  read(sidecar);

  std::vector<std::string> execs = lines("sched:sched_process_exec");
  EXPECT_TRUE(any_holds(execs, "filename=" + folder_.load("burner"), fmt::format("pid={}", burner.pid())))
      << "of " << execs.size();
  std::vector<std::string> exits = lines("sched:sched_process_exit");
  EXPECT_TRUE(any_holds(exits, "comm=burner", fmt::format("pid={}", burner.pid()))) << "of " << exits.size();
  // perf's own plugin prints "PREV_COMM:PID [PRIO] STATE ==> NEXT_COMM:PID [PRIO]", older ones the fields by name.
  std::vector<std::string> switches = lines("sched:sched_switch");
  EXPECT_GT(switches.size(), 10U);
  for (const std::string& line : switches) EXPECT_NE(line.find("==>"), std::string::npos) << line;
  EXPECT_TRUE(any_holds(switches, "==>", fmt::format("burner:{} ", burner.pid())) ||
              any_holds(switches, "==>", fmt::format("next_pid={} ", burner.pid())));

  std::size_t hot = 0;
  for (const std::string& line : lines("cpu-clock")) hot += count_of(line, "hot_function_for_flightd");
  EXPECT_GT(hot, 20U);
  // The stacks channel has callchains in the same file.
  Outcome chains = Judge::installed().perf(
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

}  // namespace
}  // namespace flight
