// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/top.hpp"

#include <gmock/gmock.h>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kSampled = 1, kSideband = 2;  // ids
constexpr EventTime kSecond = 1'000'000'000;

class Top : public testing::Test {
 protected:
  Top() {
    manifest_.events.resize(1);
    manifest_.events[0].attr.freq = 1;
    for (int cpu : {0, 1}) manifest_.rings.push_back({.channel = "stacks", .cpu = cpu});
  }
  void comm(std::uint32_t pid, std::string_view name, EventTime time_ns) {
    append_comm(time_ns == 0 ? sideband_.prologue : sideband_.log, {.pid = pid, .tid = pid, .name = name},
                {.pid = pid, .tid = pid, .time_ns = time_ns, .id = kSideband});
  }
  void fork(std::uint32_t pid, std::uint32_t parent, EventTime time_ns) {
    append_fork(sideband_.log, {.pid = pid, .ppid = parent, .tid = pid, .ptid = parent, .time_ns = time_ns},
                {.pid = parent, .tid = parent, .time_ns = time_ns, .id = kSideband});
  }
  void samples(std::uint32_t pid, EventTime from_ns, int count, std::size_t cpu = 0) {
    for (int i = 0; i < count; ++i) {
      rings_[cpu].add_sample(from_ns + static_cast<EventTime>(i), pid, kSampled);
      tallies_[cpu][pid].add(compared_, from_ns + static_cast<EventTime>(i), true);
    }
  }
  // The window is [begin, end) of seconds; now begins at `now`. cpu-clock at 10 Hz.
  void compare(EventTime begin_s, EventTime now_s, EventTime end_s) {
    compared_ = {begin_s * kSecond, now_s * kSecond, end_s * kSecond};
    manifest_.events[0].attr.type = PERF_TYPE_SOFTWARE;
    manifest_.events[0].attr.config = PERF_COUNT_SW_CPU_CLOCK;
    manifest_.events[0].attr.sample_freq = 10;
  }
  // As often as the clock ticks, from second to second.
  void burn(std::uint32_t pid, EventTime begin_s, EventTime end_s, std::size_t cpu = 0) {
    for (EventTime at = begin_s * kSecond; at < end_s * kSecond; at += kSecond / 10) samples(pid, at, 1, cpu);
  }
  std::vector<SidecarTop> rows(std::size_t most = 10) {
    Selection selection;
    selection.compared = compared_;
    for (std::size_t i = 0; i < 2; ++i) {
      selection.rings.push_back(rings_[i].selection(events_));
      selection.rings.back().tallies = tallies_[i];
      selection.rings.back().covers_from_ns = covers_from_ns_[i];
    }
    return top_processes(selection, manifest_, {0, 1}, events_, sideband_, most);
  }
  std::vector<std::string> run() {
    std::vector<std::string> out;
    for (const SidecarTop& row : rows())
      out.push_back(fmt::format("{} {} {} {:.2f} on {}", row.comm, row.pid, row.samples, row.share, row.cpus.size()));
    return out;
  }
  // "before -> now" of each, in percent of a CPU and of the samples.
  std::vector<std::string> changes(std::size_t most = 10) {
    const auto text = [](std::optional<double> part) { return part ? fmt::format("{:.0f}", *part * 100) : "-"; };
    std::vector<std::string> out;
    for (const SidecarTop& row : rows(most))
      out.push_back(fmt::format("{}: {}>{} {}>{}", row.pid, text(row.cpu_before), text(row.cpu_now),
                                text(row.share_before), text(row.share_now)));
    return out;
  }

  Manifest manifest_;
  EventTime covers_from_ns_[2] = {0, 0};
  LedgerExport sideband_;
  std::unordered_map<std::uint32_t, RingSelection::Tally> tallies_[2];

 private:
  EventTable events_ = made_events(2);
  SidecarCompared compared_;
  std::vector<MadeRing> rings_ = std::vector<MadeRing>(2);
};

TEST_F(Top, MostSamplesFirstWithTheNewestName) {
  comm(7, "old", 0);
  comm(7, "new", 150);
  samples(7, 100, 20);
  samples(7, 100, 10, 1);
  samples(8, 300, 10);
  EXPECT_THAT(run(), testing::ElementsAre("new 7 30 0.75 on 2", ":8 8 10 0.25 on 1"));
}

TEST_F(Top, APidThatIsTakenAgainIsTwoProcesses) {
  comm(1, "shell", 0);
  comm(7, "first", 0);
  samples(7, 100, 10);
  fork(7, 1, 200);
  samples(7, 210, 5);  // before its exec it has its parent's name
  comm(7, "second", 220);
  samples(7, 230, 10, 1);
  fork(7, 1, 300);
  samples(7, 310, 25);
  EXPECT_THAT(run(), testing::ElementsAre("shell 7 25 0.50 on 1", "second 7 15 0.30 on 2", "first 7 10 0.20 on 1"));
}

TEST_F(Top, ComparesBeforeWithNowInCpus) {
  compare(10, 20, 25);
  burn(7, 10, 25);     // all the time
  burn(8, 20, 25, 1);  // since it began
  burn(9, 10, 15, 1);  // half of the time before, and gone
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 67>50", "8: 0>100 0>50", "9: 50>0 33>0"));
}

TEST_F(Top, ARingThatHoldsLessIsTakenForWhatItHolds) {
  compare(20, 20, 30);  // nothing of before is held by all
  covers_from_ns_[1] = 25 * kSecond;
  burn(7, 20, 30);
  burn(8, 25, 30, 1);
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->100 ->67", "8: ->100 ->33"));
}

TEST_F(Top, CpusAreNotToldWhereTheSamplesCannotTell) {
  compare(10, 20, 25);
  burn(7, 10, 25);
  manifest_.events[0].attr.type = PERF_TYPE_HARDWARE;  // its rate is led, not kept
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->- 100>100"));
  manifest_.events[0].attr.type = PERF_TYPE_SOFTWARE;
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 100>100"));
  manifest_.events.push_back(manifest_.events[0]);  // which of the two took a sample?
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->- 100>100"));
}

TEST_F(Top, WhoIsNewAndWhoIsGoneAreNamedBesideTheBusiest) {
  compare(10, 50, 51);
  for (std::uint32_t pid = 1; pid <= 4; ++pid) burn(pid, 20, 50);
  burn(5, 10, 11);  // gone
  burn(6, 50, 51);  // new
  samples(7, 30 * kSecond, 1);
  const auto told = changes(4);
  EXPECT_EQ(told.size(), 5U);
  EXPECT_EQ(told.back(), "6: 0>100 0>100");
  EXPECT_EQ(changes(10).size(), 7U);
}

TEST_F(Top, TheUnitIsTold) {
  append_cgroup(sideband_.prologue, {.id = 5, .path = "/system.slice/x.service"}, {.id = kSideband});
  samples(7, 100, 3);
  tallies_[0][7].cgroup = 5;
  const auto told = rows();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].cgroup, "/system.slice/x.service");
  EXPECT_EQ(told[0].unit, "x.service");
}

}  // namespace
}  // namespace flight
