// SPDX-License-Identifier: Apache-2.0
// What is selected from a capture, and which of its gaps are reported as holes.
#include "libcore/snapshot/selection.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

using testing::ElementsAre;

constexpr EventTime kFrozen = 1'000;

std::tuple<EventTime, EventTime, std::uint64_t> numbers(const SidecarHole& hole) {
  return {hole.begin_ns, hole.end_ns, hole.lost};
}

class Holes : public testing::Test {
 protected:
  Holes() {
    ManifestEvent event;
    event.channel = event.name = "made";
    event.attr.sample_type = kSidebandSampleType;
    event.ids = {{1, 0, 0}};
    manifest_.events = {event};
    manifest_.rings = {{.kind = RingKind::channel, .channel = "made", .cpu = 3, .ring_bytes = 65536, .enabled_ns = 1}};
  }
  void sample(EventTime time_ns) { ring_.add_sample(time_ns, 7, 1); }
  // As the kernel's first writer after a resume leaves it: after its own record, with the same time.
  void lost(EventTime time_ns, std::uint64_t count) {
    sample(time_ns);
    struct {
      perf_event_header header = {.type = PERF_RECORD_LOST, .misc = 0, .size = 56};
      std::uint64_t id = 1, lost = 0;
      std::uint32_t pid = 7, tid = 7;
      std::uint64_t time_ns = 0;
      std::uint32_t cpu = 3, reserved = 0;
      std::uint64_t identifier = 1;
    } record;
    record.lost = count;
    record.time_ns = time_ns;
    const auto bytes = std::as_bytes(std::span(&record, 1));
    ring_.add({bytes.begin(), bytes.end()});
  }
  [[nodiscard]] std::vector<std::tuple<EventTime, EventTime, std::uint64_t>> holes(
      const std::vector<Blackout>& blackouts, const WindowRequest& window = {}) {
    const EventTable events = event_table(manifest_);
    const std::vector<RingImage> images{ring_.selection(events).image};
    const auto workers_made = WorkerPool::start(1).value();
    WorkerPool& workers = *workers_made;
    const Selection chosen = select(images, manifest_, {0}, events, window, kFrozen, {blackouts}, workers);
    lost_ = chosen.rings[0].lost;
    std::vector<std::tuple<EventTime, EventTime, std::uint64_t>> out;
    for (const SidecarHole& hole : chosen.holes) {
      EXPECT_EQ(hole.cpu, 3);
      EXPECT_EQ(hole.channel, "made");
      out.push_back(numbers(hole));
    }
    return out;
  }

  std::vector<std::uint32_t> lost_;  // of the newest selection

 private:
  Manifest manifest_;
  MadeRing ring_;
};

TEST_F(Holes, OneBlackoutOneHole) {
  sample(100);
  lost(205, 2);
  sample(206);
  EXPECT_THAT(holes({{190, 200}}), ElementsAre(std::tuple(190, 200, 2)));
}

TEST_F(Holes, TheBlackoutsBetweenTwoRecordsAreOneHole) {
  sample(100);
  lost(205, 2);
  sample(300);
  // Nothing was written between these two, so one LOST record counts both.
  lost(510, 7);
  sample(600);
  EXPECT_THAT(holes({{190, 200}, {400, 410}, {490, 500}}),
              ElementsAre(std::tuple(190, 200, 2), std::tuple(400, 500, 7)));
}

TEST_F(Holes, ABlackoutThatCostNothingIsNone) {
  sample(100);
  sample(300);
  EXPECT_THAT(holes({{190, 200}}), ElementsAre());
}

TEST_F(Holes, ABlackoutOfAnEarlierFlightdIsBoundedByItsNeighbours) {
  sample(100);
  lost(205, 9);
  sample(206);
  EXPECT_THAT(holes({}), ElementsAre(std::tuple(100, 205, 9)));
}

TEST_F(Holes, OutsideTheWindowAreLeftOut) {
  sample(100);
  lost(205, 2);
  sample(300);
  lost(510, 7);
  sample(600);
  EXPECT_THAT(holes({{190, 200}, {490, 500}}), ElementsAre(std::tuple(190, 200, 2), std::tuple(490, 500, 7)));
  EXPECT_THAT(lost_, ElementsAre(2, 5)) << "the numbers of the records";
  EXPECT_THAT(holes({{190, 200}, {490, 500}}, {.begin_ns = 250}), ElementsAre(std::tuple(490, 500, 7)));
  EXPECT_THAT(lost_, ElementsAre(5));
}

// Two CPUs. The ring of the second one is empty, since it began at 1.
class Window : public testing::Test {
 protected:
  Window() {
    ManifestEvent event;
    event.channel = "made";
    event.attr.sample_type = kSidebandSampleType;
    event.ids = {{1, 0, 0}, {2, 1, 1}};
    manifest_.events = {event};
    for (const int cpu : {0, 1})
      manifest_.rings.push_back(
          {.kind = RingKind::channel, .channel = "made", .cpu = cpu, .ring_bytes = 1U << 16U, .enabled_ns = 1});
    // Its oldest records are overwritten.
    for (EventTime at_ns = 100; at_ns < 100 + 40 * 2'000; at_ns += 40) full_.add_sample(at_ns, 7, 1);
  }
  [[nodiscard]] EventTime begins_at() const {
    const EventTable events = event_table(manifest_);
    const std::vector<RingImage> images{full_.image(), empty_.image()};
    const auto workers = WorkerPool::start(1).value();
    return select(images, manifest_, {0, 1}, events, {}, 100'000, BlackoutLog(2), *workers).begin_ns;
  }
  Manifest manifest_;
  MadeRing full_, empty_;
};

TEST_F(Window, AnEmptyRingReachesBackToItsStart) { EXPECT_EQ(begins_at(), 1); }

TEST_F(Window, ARingIntoWhichNothingIsRecordedDoesNotReachBack) {
  manifest_.events[0].left_out = {1};
  const EventTime oldest_ns = begins_at();
  EXPECT_GT(oldest_ns, 100);
  EXPECT_LT(oldest_ns, 100 + 40 * 2'000);
  // An event that was closed recorded there once, and is not counted on.
  manifest_.events.push_back(manifest_.events[0]);
  manifest_.events[1].left_out.clear();
  manifest_.events[1].closed = true;
  EXPECT_EQ(begins_at(), oldest_ns);
  manifest_.events[1].closed = false;
  EXPECT_EQ(begins_at(), 1);
}

}  // namespace
}  // namespace flight
