// SPDX-License-Identifier: Apache-2.0
// Which parts of a window are compared, and which sample belongs to which part.
#include <gmock/gmock.h>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

constexpr EventTime kComparedSecond = 1'000'000'000;

// Two rings that have been recording since the first second, one sample at each second up to the 31st.
class Compared : public testing::Test {
 protected:
  Compared() {
    ManifestEvent event;
    event.name = event.channel = "made";
    event.attr.sample_type = kSidebandSampleType;
    event.attr.freq = 1;
    event.ids = {{1, 0, 0}, {2, 1, 1}};
    manifest_.events = {event};
    for (const int cpu : {0, 1})
      manifest_.rings.push_back({.kind = RingKind::channel,
                                 .channel = "made",
                                 .cpu = cpu,
                                 .ring_bytes = 65536,
                                 .enabled_ns = kComparedSecond});
    for (EventTime second = 1; second <= 31; ++second)
      for (std::uint64_t ring : {0, 1}) rings_[ring].add_sample(second * kComparedSecond, 7, ring + 1);
  }
  Selection chosen(const ChangeRequest& change, const WindowRequest& window = {}) {
    const EventTable events = event_table(manifest_);
    const std::vector<RingImage> images{rings_[0].selection(events).image, rings_[1].selection(events).image};
    const auto workers_made = WorkerPool::start(1).value();
    WorkerPool& workers = *workers_made;
    return select(images, manifest_, {0, 1}, events, window, 31 * kComparedSecond, {{}, {}}, workers, change);
  }
  // In seconds: before's begin, now's begin, now's end; then samples before and now.
  std::vector<std::uint64_t> stretches(const ChangeRequest& change, const WindowRequest& window = {}) {
    const Selection selection = chosen(change, window);
    const SidecarCompared& c = selection.compared;
    std::uint64_t before = 0, now = 0;
    for (const RingSelection& ring : selection.rings)
      if (const auto tally = ring.tallies.find({.pid = 7}); tally != ring.tallies.end()) {
        before += tally->second.before.sampled;
        now += tally->second.now.sampled;
      }
    return {c.before_begin_ns / kComparedSecond, c.now_begin_ns / kComparedSecond, c.now_end_ns / kComparedSecond,
            before, now};
  }

  // The second ring becomes that of another channel, for the same CPU.
  void share_cpu_0() {
    manifest_.events.push_back(manifest_.events[0]);
    manifest_.events[0].ids = {{1, 0, 0}};
    manifest_.events[1].ids = {{2, 0, 1}};
    manifest_.events[1].channel = manifest_.rings[1].channel = "net";
    manifest_.rings[1].cpu = 0;
  }

  Manifest manifest_;
  MadeRing rings_[2];
};

TEST_F(Compared, NowBeginsWhenTheConditionDid) {
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(1, 25, 31, 48, 14));
}

TEST_F(Compared, NowIsTheNewestThirdWhereNothingFired) {
  EXPECT_THAT(stretches({}), testing::ElementsAre(1, 21, 31, 40, 22));
  EXPECT_THAT(stretches({}, {.begin_ns = 22 * kComparedSecond}), testing::ElementsAre(22, 28, 31, 12, 8));
}

TEST_F(Compared, NowHasAMinimumLength) {
  EXPECT_THAT(stretches({.since_ns = 31 * kComparedSecond - 1}), testing::ElementsAre(1, 30, 31, 58, 4));
  EXPECT_THAT(stretches({.since_ns = 99 * kComparedSecond}), testing::ElementsAre(1, 21, 31, 40, 22));
}

// A window as for `--last 1s`: a few microseconds longer than "now".
TEST_F(Compared, ABeforeOfNextToNothingIsNone) {
  const EventTime begin_ns = 30 * kComparedSecond - 5'000;
  const Selection selection = chosen({}, {.begin_ns = begin_ns});
  EXPECT_EQ(selection.compared.now_begin_ns, 30 * kComparedSecond);
  EXPECT_EQ(selection.compared.before_begin_ns, 30 * kComparedSecond) << "not the 5 us";
  EXPECT_EQ(chosen({}, {.begin_ns = 29 * kComparedSecond}).compared.before_begin_ns, 29 * kComparedSecond);
}

TEST_F(Compared, AConditionFromBeforeTheWindowHasNoBefore) {
  EXPECT_THAT(stretches({.since_ns = 1}, {.begin_ns = 20 * kComparedSecond}), testing::ElementsAre(20, 20, 31, 0, 24));
}

TEST_F(Compared, BeforeStartsWhereAllSamplingRingsReach) {
  manifest_.rings[1].enabled_ns = 11 * kComparedSecond;
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(11, 25, 31, 28, 14));
  manifest_.rings[1].channel = "tracepoints";  // its history is shorter, but it has no samples
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(1, 25, 31, 48, 14));
}

// A fast channel of a few CPUs, beside one that records all of them.
TEST_F(Compared, BeforeNeedsNoRingWhoseSamplesDoNotCount) {
  share_cpu_0();
  manifest_.channels = {{.name = "net", .cpus = {0}, .recorded = {0}}};
  manifest_.rings[1].enabled_ns = 11 * kComparedSecond;
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(1, 25, 31, 24, 7));
  manifest_.channels.clear();  // then both count
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(11, 25, 31, 28, 14));
}

// Both rings are of CPU 0, but "net" records more CPUs than "made".
TEST_F(Compared, ACpuOfTwoListsIsCountedOnce) {
  share_cpu_0();
  manifest_.channels = {{.name = "made", .cpus = {0, 1}, .recorded = {0, 1}},
                        {.name = "net", .cpus = {0, 2, 3}, .recorded = {0, 2, 3}}};
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(1, 25, 31, 24, 7));
  manifest_.rings[0].cpu = 1;
  EXPECT_THAT(stretches({.since_ns = 25 * kComparedSecond}), testing::ElementsAre(1, 25, 31, 48, 14));
}

TEST_F(Compared, NowEndsWhereTheRecordingDid) {
  EXPECT_THAT(stretches({.since_ns = 20 * kComparedSecond, .recorded_until_ns = 28 * kComparedSecond}),
              testing::ElementsAre(1, 20, 28, 38, 24));
  EXPECT_THAT(stretches({.recorded_until_ns = 1}), testing::ElementsAre(1, 1, 1, 0, 62));
}

}  // namespace
}  // namespace flight
