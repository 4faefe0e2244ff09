// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/joined.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "libcore/profile/folded.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kJoinedKernel = 0xffffffff81000000, kJoinedOtherKernel = 0xffffffff9a000000;

// "server;do_work" -> the weights before, now and in all.
using JoinedWeights = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
using JoinedSums = std::map<std::string, JoinedWeights>;

JoinedSums sums_of(const SnapshotProfile& profile) {
  JoinedSums out;
  const auto& nodes = profile.tree.nodes();
  for (std::uint32_t i = 1; i < nodes.size(); ++i) {
    const StackValues& self = nodes[i].self;
    if (self.all.samples == 0) continue;
    std::string path;
    for (std::uint32_t at = i; nodes[at].frame != FrameTable::kRoot; at = nodes[at].parent)
      path = profile.text_of(nodes[at].frame) + (path.empty() ? "" : ";") + path;
    out[path] = {self.before.weight, self.now.weight, self.all.weight};
  }
  return out;
}

// A boot: the kernel is at another address after it.
RecordBuffer records_of_a_boot(std::uint64_t kernel, std::uint8_t build, std::uint64_t period) {
  RecordBuffer out;
  append_kernel_mmap(out, kernel, 0x10000, kernel, "[kernel.kallsyms]_text", {});
  append_comm(out, {.pid = 10, .tid = 10, .name = "server"}, {});
  BuildId build_id;
  build_id.size = 20;
  build_id.bytes[0] = build;
  append_mmap2(
      out, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .build_id = build_id, .name = "/no/where/a"},
      {});
  test::append_sample(out, {.time_ns = 1000, .ip = kernel + 0x1010, .kernel = true, .period = period});
  test::append_sample(out, {.time_ns = 1001, .ip = 0x400010, .period = 10 * period});
  test::append_switch(out, {.time_ns = 1002, .ip = 0x400020});
  return out;
}

SnapshotProfile profile_of_a_boot(std::uint64_t kernel, std::uint8_t build, std::uint64_t period) {
  const std::string kallsyms = fmt::format("{:x} T _text\n{:x} T do_work\n", kernel, kernel + 0x1000);
  auto profile = SnapshotProfile::read(test::made_file(records_of_a_boot(kernel, build, period)),
                                       {.kallsyms = kallsyms, .read_files = false});
  EXPECT_TRUE(profile) << profile.error().what;
  return profile ? std::move(*profile) : SnapshotProfile();
}

TEST(Joined, FunctionsAreTheSameByName) {
  const SnapshotProfile before = profile_of_a_boot(kJoinedKernel, 1, 3),
                        now = profile_of_a_boot(kJoinedOtherKernel, 1, 5);
  const SnapshotProfile both = joined(before, 1, now, 1);
  EXPECT_THAT(sums_of(both), testing::ElementsAre(testing::Pair("server;a+0x10", JoinedWeights(30, 50, 80)),
                                                  testing::Pair("server;do_work", JoinedWeights(3, 5, 8))));
  ASSERT_EQ(both.events.size(), 1U);
  EXPECT_EQ(both.events[0].name, "cpu-clock");
  EXPECT_TRUE(both.events[0].is_clock);
  EXPECT_EQ(main_event(both), 0U);
  const auto totals = both.tree.totals();
  EXPECT_EQ(totals[both.events[0].root].before.weight, 33U);
  EXPECT_EQ(totals[both.events[0].root].now.weight, 55U);
  for (std::uint32_t frame = 0; frame < both.frames.size(); ++frame)
    EXPECT_THAT(both.object_of(frame), testing::AnyOf("", "a", "[kernel.kallsyms]"));
}

// A place in another build is another one: it has no name to say what it is.
TEST(Joined, PlacesWithoutANameAreTheSameInTheSameBuildOnly) {
  const SnapshotProfile before = profile_of_a_boot(kJoinedKernel, 1, 3), now = profile_of_a_boot(kJoinedKernel, 2, 5);
  const SnapshotProfile both = joined(before, 1, now, 1);
  const auto totals = both.tree.totals();
  using Place = std::pair<std::uint64_t, std::uint64_t>;
  std::vector<Place> places;
  for (std::uint32_t i = 1; i < totals.size(); ++i)
    if (both.text_of(both.tree.nodes()[i].frame) == "a+0x10")
      places.emplace_back(totals[i].before.weight, totals[i].now.weight);
  EXPECT_THAT(places, testing::UnorderedElementsAre(Place(30, 0), Place(0, 50)));
}

TEST(Joined, OneEventOfEach) {
  const SnapshotProfile before = profile_of_a_boot(kJoinedKernel, 1, 3), now = profile_of_a_boot(kJoinedKernel, 1, 5);
  EXPECT_THAT(sums_of(joined(before, 2, now, 2)),
              testing::ElementsAre(testing::Pair(
                  "server;a+0x20", JoinedWeights(test::kSwitchPeriod, test::kSwitchPeriod, 2 * test::kSwitchPeriod))));
  EXPECT_THAT(sums_of(joined(before, 0, now, 1)),
              testing::ElementsAre(testing::Pair("server;a+0x10", JoinedWeights(0, 50, 50)),
                                   testing::Pair("server;do_work", JoinedWeights(0, 5, 5))));
}

TEST(Joined, WithNothing) {
  const SnapshotProfile now = profile_of_a_boot(kJoinedKernel, 1, 5);
  RecordBuffer idle;
  append_comm(idle, {.pid = 10, .tid = 10, .name = "idle"}, {});
  const auto nothing = SnapshotProfile::read(test::made_file(idle), {});
  ASSERT_TRUE(nothing);
  EXPECT_TRUE(sums_of(joined(*nothing, 1, *nothing, 1)).empty());
  EXPECT_EQ(sums_of(joined(now, 1, *nothing, 1)).size(), 2U);
}

}  // namespace
}  // namespace flight
