// SPDX-License-Identifier: Apache-2.0
// Nothing is missing: a load calls close(-n) with rising n, and a tracepoint records each call. The numbers in a
// snapshot have gaps only at blackouts of earlier snapshots, and each gap is exactly as wide as the sidecar's `holes`
// say.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cstdlib>
#include <map>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

constexpr std::string_view kRing = "8M";  // about 60,000 calls

struct Call {
  std::uint64_t time_ns = 0;
  long number = 0;
};

// "12.345678901: raw_syscalls:sys_enter: NR 3 (fffffffffffffffe, …)"
std::vector<Call> calls_in(const TempFolder& folder, const Json& sidecar) {
  Outcome script = Verifier::installed().perf(
      folder, {"script", "-i", sidecar["path"], "--ns", "-G", "-F", "trace:time,event,trace"});
  EXPECT_TRUE(stderr_is_right(script, !sidecar["holes"].empty()));
  std::vector<Call> calls;
  for (const std::string& line : lines_of(script.out)) {
    char* after = nullptr;
    std::uint64_t seconds = std::strtoull(line.c_str(), &after, 10);
    if (*after != '.') continue;
    std::uint64_t nanoseconds = std::strtoull(after + 1, nullptr, 10);
    std::size_t arguments = line.find(" (");
    if (line.find(fmt::format("NR {} ", SYS_close)) == std::string::npos || arguments == std::string::npos) {
      ADD_FAILURE() << "not a close: " << line;
      return calls;
    }
    std::uint64_t argument = std::strtoull(line.c_str() + arguments + 2, nullptr, 16);
    calls.push_back({seconds * 1'000'000'000U + nanoseconds, -static_cast<long>(argument)});
  }
  EXPECT_EQ(calls.size(), sidecar["samples"]);
  return calls;
}

class NumbersLong : public testing::Test {
 protected:
  // Takes snapshots while numbers rise at `per_second`. Each round takes two short ones, and one with the whole
  // history, in which the blackouts of the short ones are holes.
  void record(unsigned per_second, int rounds) {
    Child closer =
        start_load({folder_.load("closer"), std::to_string(cpu_), std::to_string(per_second), "60"}, -10, true);
    ASSERT_TRUE(closer.wait_for_line("ready")) << closer.err();
    Json config = stacks_config(49, "64K");
    // The event counts only the load's calls, so every lost call is one of ours.
    config["channels"] = Json::object();
    config["channels"]["calls"] = {
        {"ring", kRing},
        {"events",
         {{{"event", "raw_syscalls:sys_enter"},
           {"filter", fmt::format("id == {} && common_pid == {}", SYS_close, closer.pid())}}}}};
    // A freeze on the load's own CPU would stop the load, and nothing would be lost.
    StartOptions options;
    if (usable_cpus().size() > 1) options.prefix = {"taskset", "-c", std::to_string(usable_cpus().front())};
    ASSERT_TRUE(daemon_.start(config, options));
    closer.go();
    ASSERT_TRUE(closer.runs_for(200ms)) << "thousands of numbers for the first snapshot, too";
    for (int i = 0; i < rounds; ++i) {
      for (const char* last : {"20ms", "20ms", "1h"}) {
        sidecars_.push_back(daemon_.snapshot({"--capture", "pause", "--last", last}));
      }
    }
    closer.kill();
    for (const Json& sidecar : sidecars_) verify(sidecar);
    EXPECT_LE(sparse_, sidecars_.size() / 4);
    EXPECT_TRUE(all_count_all(folder_, sidecars_.back()));
    EXPECT_TRUE(daemon_.stop());
  }

  std::vector<Json> holes_of_calls(const Json& sidecar) const {
    std::vector<Json> holes;
    for (const Json& hole : sidecar["holes"]) {
      if (hole["channel"] == "calls" && hole["cpu"] == cpu_) holes.push_back(hole);
    }
    return holes;
  }

  void verify(const Json& sidecar) {
    SCOPED_TRACE("snapshot " + sidecar["id"].get<std::string>());
    std::vector<Call> calls = calls_in(folder_, sidecar);
    // In 20 ms another process can have the load's CPU, but not in most windows.
    if (calls.size() <= 50) {
      EXPECT_LT(sidecar["window"]["seconds"], 0.1) << calls.size();
      ++sparse_;
    }
    all_calls_ += calls.size();
    std::vector<Json> holes = holes_of_calls(sidecar);
    std::size_t next_hole = 0;
    for (std::size_t i = 1; i < calls.size(); ++i) {
      long missing = calls[i].number - calls[i - 1].number - 1;
      ASSERT_GE(missing, 0) << "out of order at " << calls[i].number;
      if (missing == 0) continue;
      // The next hole in time must be this gap: it accounts for all of the missing calls.
      ASSERT_LT(next_hole, holes.size()) << missing << " calls are missing after " << calls[i - 1].number
                                         << " and no hole says so: " << sidecar["holes"];
      const Json& hole = holes[next_hole++];
      EXPECT_EQ(hole["lost"], missing) << hole;
      EXPECT_LE(calls[i - 1].time_ns, hole["end_ns"].get<std::uint64_t>()) << hole;
      EXPECT_GE(calls[i].time_ns, hole["begin_ns"].get<std::uint64_t>()) << hole;
      ++gaps_;
    }
    EXPECT_EQ(next_hole, holes.size()) << "a hole without a gap: " << sidecar["holes"];
    for (const Json& hole : holes) EXPECT_TRUE(was_a_blackout(hole, sidecar)) << hole;
  }

  // A hole is the blackout of an earlier snapshot, which counted the same number of calls.
  bool was_a_blackout(const Json& hole, const Json& later) const {
    for (const Json& earlier : sidecars_) {
      if (std::stoul(earlier["id"].get<std::string>()) >= std::stoul(later["id"].get<std::string>())) continue;
      // The ring was paused right after its freeze.
      if (hole["begin_ns"] < earlier["window"]["end_ns"]) continue;
      for (const Json& ring : earlier["rings"]) {
        if (ring["channel"] == "calls" && ring["cpu"] == cpu_ && ring["lost"] == hole["lost"]) return true;
      }
    }
    return false;
  }

  int cpu_ = load_cpu();
  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::vector<Json> sidecars_;
  std::size_t all_calls_ = 0, gaps_ = 0, sparse_ = 0;
};

TEST_F(NumbersLong, FiftyThousandPerSecondHaveGapsOnlyAtHoles) {
  record(50'000, sanitized() ? 2 : 4);
  fmt::print("50 k/s: {} calls in {} snapshots, {} gaps, each a hole\n", all_calls_, sidecars_.size(), gaps_);
}

// The calls are so frequent that a blackout loses some. This checks the counts in `holes`.
TEST_F(NumbersLong, FastNumbersShowTheHoles) {
  record(250'000, sanitized() ? 2 : 6);
  fmt::print("250 k/s: {} calls in {} snapshots, {} gaps, each a hole\n", all_calls_, sidecars_.size(), gaps_);
  if (!sanitized() && usable_cpus().size() > 1) {
    EXPECT_GT(gaps_, 0U) << "no blackout was seen twice: is the ring too small for the rate?";
  }
}

}  // namespace
}  // namespace flight
