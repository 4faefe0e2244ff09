// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/top.hpp"

#include <gmock/gmock.h>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kSampled = 1, kSideband = 2;  // ids

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
      ++tallies_[cpu][pid].samples;
      ++tallies_[cpu][pid].sampled;
    }
  }
  std::vector<std::string> run() {
    Selection selection;
    for (std::size_t i = 0; i < 2; ++i) {
      selection.rings.push_back(rings_[i].selection(events_));
      selection.rings.back().tallies = tallies_[i];
    }
    std::vector<std::string> out;
    for (const SidecarTop& row : top_processes(selection, manifest_, {0, 1}, events_, sideband_))
      out.push_back(fmt::format("{} {} {} {:.2f} on {}", row.comm, row.pid, row.samples, row.share, row.cpus.size()));
    return out;
  }

 private:
  EventTable events_ = made_events(2);
  Manifest manifest_;
  LedgerExport sideband_;
  std::vector<MadeRing> rings_ = std::vector<MadeRing>(2);
  std::unordered_map<std::uint32_t, RingSelection::Tally> tallies_[2];
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

}  // namespace
}  // namespace flight
