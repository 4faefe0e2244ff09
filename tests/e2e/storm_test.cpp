// SPDX-License-Identifier: Apache-2.0
// A fork storm: thousands of processes a second come and go, and the ledger loses none of their records, stays within
// its bounds and still gives every sample its name.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/judge.hpp"

namespace flight {
namespace {

// libcore/sideband/ledger.hpp: log and state; what flightd needs beside them is some MiB.
constexpr std::uint64_t kMostRssBytes = (8U + 48U + 64U) << 20U;

std::uint64_t forks_so_far() {
  for (const std::string& line : lines_of(read_text("/proc/stat")))
    if (line.starts_with("processes ")) return std::stoull(line.substr(10));
  return 0;
}

class Storm : public testing::Test {
 protected:
  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

TEST_F(Storm, NoSidebandIsLostAndNamesAreRight) {
  ASSERT_TRUE(daemon_.start(stacks_config(1999, "2M")));
  const std::uint64_t forks_before = forks_so_far();
  const std::uint64_t begin_ns = now_ns();
  Child storm =
      Child::start({"stress-ng", "--fork", "4", "--exec", "2", "--temp-path", folder_ / "scratch", "-t", "60"});
  ASSERT_TRUE(wait_until([&] { return forks_so_far() > forks_before + 2000; }, 30s)) << storm.err();
  // Each has a name of its own and burns for a while, in the midst of it.
  Child forker = start_load({folder_.load("forker"), std::to_string(load_cpu()), "300", "5"}, -10);
  ASSERT_TRUE(forker.wait_for_line("ended", 60s)) << forker.err();
  const Json sidecar = daemon_.snapshot();
  const double seconds = static_cast<double>(now_ns() - begin_ns) / 1e9;
  const std::uint64_t forks = forks_so_far() - forks_before;
  const Json status = daemon_.status();
  storm.signal(SIGTERM);
  (void)storm.wait(10s);

  EXPECT_FALSE(sidecar["ledger"]["stale"]) << "records of the sideband were lost";
  EXPECT_EQ(sidecar["ledger"]["evicted"], 0);
  EXPECT_FALSE(sidecar.contains("warnings")) << sidecar["warnings"];
  if (!sanitized()) {
    const std::uint64_t rings =
        status["self"]["ring_bytes"].get<std::uint64_t>() + status["self"]["staging_bytes"].get<std::uint64_t>();
    EXPECT_LT(status["self"]["flightd"]["rss_bytes"].get<std::uint64_t>(), kMostRssBytes + rings);
  }

  std::map<pid_t, std::string> names;
  for (const std::string& line : lines_of(forker.out()))
    if (line.starts_with("tiny-")) names[std::stoi(line.substr(10))] = line.substr(0, 9);
  std::size_t samples = 0;
  std::size_t nameless = 0;
  std::size_t all = 0;
  for (const NamedSample& sample : named_samples(folder_, sidecar["path"])) {
    ++all;
    // Who died in the first moments of the recording, before flightd could ask what runs, is known to nobody. A task
    // that is sampled while its ids are given back has pid or tid -1 (kernel/events/core.c, perf_event_pid_type).
    const bool knowable = sample.time_ns > begin_ns && sample.pid != -1 && sample.tid != -1;
    if (knowable && (sample.comm.starts_with(":") || sample.comm.empty())) {
      ++nameless;
      fmt::print("process {} has no name at {} ns, in {}; the window begins at {}\n", sample.pid, sample.time_ns,
                 sample.symbol, sidecar["window"]["begin_ns"].get<std::uint64_t>());
    }
    const auto child = names.find(sample.pid);
    if (child == names.end() || sample.symbol != "hot_in_tiny") continue;
    ++samples;
    ASSERT_EQ(sample.comm, child->second) << "process " << sample.pid;
  }
  fmt::print("{:.0f} forks/s; {} samples, {} of them of {} short-lived processes; {} without a name; {} kept dead\n",
             static_cast<double>(forks) / seconds, all, samples, names.size(), nameless,
             sidecar["ledger"]["exited"].get<std::uint64_t>());
  EXPECT_EQ(nameless, 0U);
  EXPECT_GT(samples, 100U);
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
