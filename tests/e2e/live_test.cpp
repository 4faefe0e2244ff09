// SPDX-License-Identifier: Apache-2.0
// Live capture pauses nothing and loses nothing. A tracepoint records rising numbers, as in numbers_test. Each of fifty
// snapshots has all numbers between its first and its last, and two overlapping snapshots agree about their common
// part.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <vector>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/numbered_calls.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

class Live : public testing::Test {
 protected:
  void start(std::string_view ring, unsigned per_second) {
    closer_.emplace(
        start_load({folder_.load("closer"), std::to_string(load_cpu()), std::to_string(per_second), "200"}, -10, true));
    ASSERT_TRUE(closer_->wait_for_line("ready")) << closer_->err();
    Json config = stacks_config(49, "64K");
    config["channels"] = Json::object();
    config["channels"]["calls"] = {
        {"ring", ring},
        {"events",
         {{{"event", "raw_syscalls:sys_enter"},
           {"filter", fmt::format("id == {} && common_pid == {}", SYS_close, closer_->pid())}}}}};
    config["snapshot"] = {{"capture", "live"}};
    ASSERT_TRUE(daemon_.start(config));
    closer_->go();
    // On a busy machine the load may have to wait for its CPU.
    EXPECT_TRUE(wait_until([&] { return loaded_ring(daemon_.snapshot()).value("torn_bytes", 0) > 0; }, 60s))
        << "the ring was never full";
  }

  // All numbers between the first and the last, each with a later time than the one before.
  static void expect_no_gap(const std::vector<NumberedCall>& calls, const Json& sidecar) {
    EXPECT_EQ(sidecar["capture"], "live");
    EXPECT_EQ(sidecar["blackout"]["max_us"], 0.0);
    EXPECT_EQ(sidecar["blackout"]["lost"], 0);
    EXPECT_TRUE(sidecar["holes"].empty()) << sidecar["holes"];
    for (std::size_t i = 1; i < calls.size(); ++i) {
      ASSERT_EQ(calls[i].number, calls[i - 1].number + 1) << "snapshot " << sidecar["id"];
      ASSERT_LE(calls[i - 1].time_ns, calls[i].time_ns) << "snapshot " << sidecar["id"];
    }
  }
  static const Json& loaded_ring(const Json& sidecar) {
    for (const Json& ring : sidecar["rings"])
      if (ring["cpu"] == load_cpu()) return ring;
    return sidecar;
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  std::optional<Child> closer_;
};
using LiveLong = Live;

TEST_F(LiveLong, FiftySnapshotsMissNothingInsideOrBetweenThem) {
  start("16M", 200'000);
  const int many = sanitized() ? 10 : 50;
  std::vector<NumberedCall> earlier;
  std::size_t all = 0;
  int overlaps = 0;
  double seconds = 0;
  Json sidecar;
  for (int i = 0; i < many && !HasFailure(); ++i) {
    sidecar = daemon_.snapshot();
    const std::vector<NumberedCall> calls = numbered_calls(sidecar, LostRecords::are_a_failure);
    ASSERT_GT(calls.size(), 1000U);
    expect_no_gap(calls, sidecar);
    if (!earlier.empty() && calls.front().number <= earlier.back().number + 1) {
      ++overlaps;
      const auto shared = static_cast<std::size_t>(earlier.back().number + 1 - calls.front().number);
      for (std::size_t k = 0; k < std::min(shared, calls.size()); ++k)
        ASSERT_EQ(calls[k].time_ns, earlier[earlier.size() - shared + k].time_ns) << "number " << calls[k].number;
    }
    all += calls.size();
    seconds += static_cast<double>(calls.back().time_ns - calls.front().time_ns) / 1e9;
    earlier = calls;
    if (i + 1 == many) break;
    EXPECT_EQ(daemon_.ctl({"remove", sidecar["id"]}).exit_status, 0);
  }
  fmt::print("{} live snapshots of {} calls, {:.0f} k/s: {} overlap the one before, none misses a number\n", many, all,
             static_cast<double>(all) / seconds / 1e3, overlaps);
  closer_->kill();
  EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
  EXPECT_TRUE(daemon_.stop());
}

// A live copy of a small ring drops much. The sidecar reports it, and no torn record is exported.
class SmallRing : public Live {
 protected:
  void expect_the_rest_whole(const char* ring, std::uint64_t given_up, std::size_t snapshots = 10) {
    start(ring, 10'000'000);
    std::size_t all = 0;
    for (std::size_t i = 0; i < snapshots; ++i) {
      const Json sidecar = daemon_.snapshot();
      const std::vector<NumberedCall> calls = numbered_calls(sidecar, LostRecords::are_a_failure);
      expect_no_gap(calls, sidecar);
      EXPECT_GE(loaded_ring(sidecar)["torn_bytes"], given_up);
      all += calls.size();
    }
    // If a sanitizer slows down the copy, the whole ring may be overwritten during it.
    if (!sanitized()) {
      EXPECT_GT(all, snapshots * 50);
    }
    closer_->kill();
    EXPECT_TRUE(daemon_.stop());
  }
};

using SmallRingLong = SmallRing;

TEST_F(SmallRing, GivesUpHalf) { expect_the_rest_whole("64K", 32768); }
TEST_F(SmallRing, GivesUpTheMargin) { expect_the_rest_whole("128K", 65536); }
TEST_F(SmallRingLong, GivesUpHalf) { expect_the_rest_whole("64K", 32768, 20); }
TEST_F(SmallRingLong, GivesUpTheMargin) { expect_the_rest_whole("128K", 65536, 20); }

}  // namespace
}  // namespace flight
