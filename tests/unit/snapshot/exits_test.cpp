// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/exits.hpp"

#include <gmock/gmock.h>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kSampledId = 1, kSidebandId = 2;  // ids

struct Line {
  std::uint32_t type = 0, tid = 0;
  EventTime time_ns = 0, body_ns = 0;
  friend bool operator==(const Line&, const Line&) = default;
};
void PrintTo(const Line& line, std::ostream* out) {
  *out << line.type << " tid " << line.tid << " at " << line.time_ns << " (" << line.body_ns << ")";
}

class Exits : public testing::Test {
 protected:
  void fork(std::uint32_t tid, EventTime time_ns) {
    append_fork(log_, {.pid = tid, .ppid = 1, .tid = tid, .ptid = 1, .time_ns = time_ns}, trailer(tid, time_ns));
  }
  void exit(std::uint32_t tid, EventTime time_ns) {
    append_exit(log_, {.pid = tid, .ppid = 1, .tid = tid, .ptid = 1, .time_ns = time_ns}, trailer(tid, time_ns));
  }
  void sample(std::uint32_t tid, EventTime time_ns, std::size_t ring = 0) {
    rings_[ring].add_sample(time_ns, tid, kSampledId);
    pids_.insert(tid);
  }
  std::optional<RecordBuffer> run() {
    Selection selection;
    for (const MadeRing& ring : rings_) {
      selection.rings.push_back(ring.selection(events_));
      selection.rings.back().image = {};  // no record is read
    }
    selection.tids = pids_;
    return exits_behind_samples(log_, gaps_, selection, workers_);
  }
  static std::vector<Line> lines(std::span<const std::byte> log) {
    std::vector<Line> out;
    for (auto record = next_record(log); !record.empty(); record = next_record(log)) {
      const auto task = parse_task(record);
      out.push_back({load<std::uint32_t>(record.data()), task->tid, parse_trailer(record)->time_ns, task->time_ns});
      log = log.subspan(record.size());
    }
    return out;
  }

  std::vector<SidebandGap> gaps_;

 private:
  static Trailer trailer(std::uint32_t tid, EventTime time_ns) {
    return {.pid = tid, .tid = tid, .time_ns = time_ns, .id = kSidebandId};
  }
  EventTable events_ = made_events(2);
  std::vector<MadeRing> rings_ = std::vector<MadeRing>(2);
  RecordBuffer log_;
  std::unordered_set<std::uint32_t> pids_;
  std::unique_ptr<WorkerPool> workers_made_ = WorkerPool::start(2).value();
  WorkerPool& workers_ = *workers_made_;
};

TEST_F(Exits, WithoutLaterSamplesTheLogStaysAsItIs) {
  fork(7, 100);
  exit(7, 200);
  sample(7, 150);
  sample(8, 300);
  EXPECT_FALSE(run());
}

TEST_F(Exits, GoBehindTheLastSampleOnAnyCpuAndKeepTheirOwnTime) {
  exit(7, 200);
  fork(9, 210);
  exit(8, 230);
  sample(7, 150);
  sample(7, 205);
  sample(7, 220, 1);
  const auto log = run();
  ASSERT_TRUE(log);
  EXPECT_THAT(lines(*log),
              testing::ElementsAre(Line{PERF_RECORD_FORK, 9, 210, 210}, Line{PERF_RECORD_EXIT, 7, 221, 200},
                                   Line{PERF_RECORD_EXIT, 8, 230, 230}));
}

TEST_F(Exits, AfterAGapTheTidMayBelongToAnotherTask) {
  gaps_ = {{.begin_ns = 10, .end_ns = 20, .lost = 1}, {.begin_ns = 215, .end_ns = 240, .lost = 9}};
  exit(7, 200);
  fork(9, 212);
  sample(7, 205);
  sample(7, 220, 1);
  sample(7, 213);
  const auto moved = run();
  ASSERT_TRUE(moved);
  EXPECT_THAT(lines(*moved),
              testing::ElementsAre(Line{PERF_RECORD_FORK, 9, 212, 212}, Line{PERF_RECORD_EXIT, 7, 214, 200}));
  gaps_ = {{.begin_ns = 150, .end_ns = 240, .lost = 9}};
  EXPECT_FALSE(run());
}

TEST_F(Exits, ATidThatIsUsedAgainHasTwoLives) {
  exit(7, 200);
  fork(7, 300);
  exit(7, 400);
  sample(7, 210);
  sample(7, 350);
  sample(7, 410);
  const auto log = run();
  ASSERT_TRUE(log);
  EXPECT_THAT(lines(*log),
              testing::ElementsAre(Line{PERF_RECORD_EXIT, 7, 211, 200}, Line{PERF_RECORD_FORK, 7, 300, 300},
                                   Line{PERF_RECORD_EXIT, 7, 411, 400}));
}

}  // namespace
}  // namespace flight
