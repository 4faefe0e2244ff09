// SPDX-License-Identifier: Apache-2.0
// Fifty snapshots in a row: flightd and its broker do not grow, and recording continues.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

struct Footprint {
  std::uint64_t rss_kb = 0, locked_kb = 0;
  std::size_t fds = 0, mappings = 0, threads = 0;

  static Footprint of(pid_t pid) {
    Footprint result;
    for (const std::string& line : lines_of(read_text(fmt::format("/proc/{}/status", pid)))) {
      auto value = [&] { return std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10); };
      if (line.starts_with("VmRSS:")) result.rss_kb = value();
      if (line.starts_with("VmLck:")) result.locked_kb = value();
      if (line.starts_with("Threads:")) result.threads = value();
    }
    std::filesystem::directory_iterator fds(fmt::format("/proc/{}/fd", pid));
    result.fds = static_cast<std::size_t>(std::distance(begin(fds), end(fds)));
    result.mappings = count_lines(read_text(fmt::format("/proc/{}/maps", pid)));
    return result;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("RSS {} kB, locked {} kB, {} fds, {} mappings, {} threads", rss_kb, locked_kb, fds, mappings,
                       threads);
  }
  // A sanitizer's own memory grows, because it keeps freed memory for a while. Then the test compares only flightd's
  // own memory.
  [[nodiscard]] bool no_larger_than(const Footprint& before) const {
    const bool memory =
        sanitized() || (mappings <= before.mappings + kMappingsTolerance && rss_kb <= before.rss_kb + kRssToleranceKb);
    return memory && fds <= before.fds && threads <= before.threads && locked_kb <= before.locked_kb;
  }
  // malloc's arenas come and go with threads. If each of 40 snapshots leaked a mapping, the count would exceed this by
  // far.
  static constexpr std::size_t kMappingsTolerance = 8;
  static constexpr std::uint64_t kRssToleranceKb = 2048;
};

// The burning CPU was sampled between two snapshots.
void expect_recorded_since(std::uint64_t since_ns, const Json& sidecar) {
  for (const Json& ring : sidecar["rings"]) {
    if (ring["cpu"] == load_cpu()) {
      EXPECT_GT(ring["newest_ns"].get<std::uint64_t>(), since_ns) << "snapshot " << sidecar["id"];
    }
  }
}

class SteadyLong : public testing::Test {
 protected:
  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

TEST_F(SteadyLong, FiftySnapshotsInARow) {
  const int early = sanitized() ? 5 : 10, all = sanitized() ? 15 : 50;
  // The ring is full before the first measurement, so each snapshot copies the same amount.
  ASSERT_TRUE(daemon_.start(stacks_config(1997, "256K")));
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "200"}, -10);
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_GT(daemon_.broker_pid(), 0);
  const pid_t pids[] = {daemon_.pid(), daemon_.broker_pid()};
  Footprint before[2];
  std::uint64_t last_end_ns = 0;
  Json last;
  for (int i = 1; i <= all; ++i) {
    ASSERT_TRUE(burner.runs_for(20ms));
    last = daemon_.snapshot();
    ASSERT_TRUE(last.contains("window"));
    expect_recorded_since(last_end_ns, last);
    last_end_ns = last["window"]["end_ns"];
    for (int p = 0; i == early && p < 2; ++p) before[p] = Footprint::of(pids[p]);
  }
  for (int p = 0; p < 2; ++p) {
    Footprint after;
    // The last client's connection may still be closing.
    const bool same = wait_until([&] { return (after = Footprint::of(pids[p])).no_larger_than(before[p]); }, 5s);
    fmt::print("{}: after {} snapshots {}; after {} {}\n", p == 0 ? "flightd" : "broker", early, before[p].text(), all,
               after.text());
    EXPECT_TRUE(same);
  }
  EXPECT_EQ(daemon_.status()["snapshots"], all);

  EXPECT_TRUE(all_count_all(folder_, last));
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
