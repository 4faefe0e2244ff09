// SPDX-License-Identifier: Apache-2.0
// Which processes are in doubt by where their samples were taken: the tally keeps the places, and they are judged when
// the tracker's export is there.
#include "libcore/snapshot/unmapped_leaves.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "libcore/perf/record_build.hpp"
#include "tests/unit/perf/copied_sample.hpp"
#include "tests/unit/sideband/tape.hpp"

namespace flight {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kMapped = 0x401000, kNowhere = 0x7777;
constexpr std::uint32_t kLeafPid = 100, kOtherPid = 200;
constexpr std::size_t kLeafRing = 64U << 10U;

// A ring on each of two CPUs.
Manifest two_rings(std::uint64_t sample_type) {
  Manifest manifest;
  ManifestEvent event;
  event.name = "cpu-clock";
  event.channel = "stacks";
  event.attr.type = PERF_TYPE_SOFTWARE;
  event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
  event.attr.sample_type = sample_type;
  event.attr.sample_regs_user = test::kThreeRegisters;
  event.ids = {{test::kId, 0, 0}, {test::kId + 1, 1, 1}};
  manifest.events.push_back(event);
  for (const int cpu : {0, 1})
    manifest.rings.push_back(
        {.kind = RingKind::channel, .channel = "stacks", .cpu = cpu, .ring_bytes = kLeafRing, .enabled_ns = 1});
  return manifest;
}

class UnmappedLeaves : public testing::Test {
 protected:
  // Everything is known of both processes from the beginning on.
  void SetUp() override {
    sideband_.maps_from_ns = 1;
    for (const std::uint32_t pid : {kLeafPid, kOtherPid}) {
      append_comm(sideband_.prologue, {.pid = pid, .tid = pid, .name = "made"}, {});
      put_image(sideband_.prologue, pid, 0);
    }
  }
  static void put_image(RecordBuffer& out, std::uint32_t pid, EventTime time_ns) {
    const Trailer trailer{.pid = pid, .tid = pid, .time_ns = time_ns};
    append_mmap2(out, {.pid = pid, .tid = pid, .address = kMapped, .bytes = 0x1000, .name = "/bin/made"}, trailer);
    append_mmap2(out, {.pid = pid, .tid = pid, .address = 0x7fff0000, .bytes = 0x1000, .name = "[vdso]"}, trailer);
  }
  void execute(EventTime time_ns) {
    Tape tape;
    tape.exec(time_ns, kLeafPid, "made");
    const std::span<const std::byte> records = tape.bytes();
    sideband_.log.insert(sideband_.log.end(), records.begin(), records.end());
    put_image(sideband_.log, kLeafPid, time_ns);
  }
  void add(std::size_t ring, EventTime time_ns, std::uint64_t ip, std::uint16_t cpumode = PERF_RECORD_MISC_USER,
           std::uint32_t pid = kLeafPid) {
    const test::CopiedSample sample{
        .time_ns = time_ns, .serial = ip, .id = test::kId + ring, .chain = {PERF_CONTEXT_USER, ip}};
    std::vector<std::uint64_t> words = sample.words();
    auto header = std::bit_cast<perf_event_header>(words[0]);
    header.misc = cpumode;
    words[0] = std::bit_cast<std::uint64_t>(header);
    words[3] = pid | std::uint64_t{pid} << 32U;
    rings_.at(ring).write(std::as_bytes(std::span<const std::uint64_t>(words)));
  }
  [[nodiscard]] Selection selected(const WindowRequest& window = {}, std::uint64_t sample_type = test::kCopyType) {
    const Manifest manifest = two_rings(sample_type);
    return select({rings_[0].image(), rings_[1].image()}, manifest, {0, 1}, event_table(manifest), window, kFrozenNs,
                  BlackoutLog(2), *workers_);
  }
  // The code as the samples of the window leave it.
  [[nodiscard]] MappedCode judged(const WindowRequest& window = {}) {
    MappedCode code(sideband_);
    EXPECT_TRUE(is_known(code, kLeafPid, 1));
    EXPECT_TRUE(is_known(code, kOtherPid, 1));
    doubt_unmapped_leaves(code, selected(window), *workers_);
    EXPECT_TRUE(is_known(code, kOtherPid, kFrozenNs));
    return code;
  }
  static bool is_known(const MappedCode& code, std::uint32_t pid, EventTime time_ns) {
    return code.memory_of(pid, time_ns) != MappedCode::kUnknown;
  }

  static constexpr EventTime kFrozenNs = 1'000'000;
  const std::unique_ptr<WorkerPool> workers_ = WorkerPool::start(2).value();
  std::vector<test::FakeRing> rings_ = std::vector<test::FakeRing>(2, test::FakeRing(kLeafRing));
  TrackerExport sideband_;
};

TEST_F(UnmappedLeaves, AreKeptOfSamplesInProgramsByTheTally) {
  using Kept = std::vector<std::tuple<EventTime, std::uint32_t, std::uint64_t>>;
  add(0, 100, kMapped);
  add(0, 200, kNowhere, PERF_RECORD_MISC_KERNEL);
  add(0, 300, kNowhere, PERF_RECORD_MISC_USER, kOtherPid);
  add(0, 400, kNowhere, PERF_RECORD_MISC_GUEST_USER);
  add(0, 500, kMapped + 1);
  add(1, 250, kNowhere);
  const auto kept = [](const RingSelection& ring) {
    Kept out;
    for (const RingSelection::Leaf& leaf : ring.leaves)
      out.emplace_back(ring.walk.records.at(leaf.record).time_ns, leaf.pid, leaf.ip);
    return out;
  };
  const Selection all = selected();
  EXPECT_THAT(kept(all.rings[0]), ElementsAre(std::tuple(100, kLeafPid, kMapped), std::tuple(300, kOtherPid, kNowhere),
                                              std::tuple(500, kLeafPid, kMapped + 1)));
  EXPECT_THAT(kept(all.rings[1]), ElementsAre(std::tuple(250, kLeafPid, kNowhere)));
  const Selection newest = selected({.begin_ns = 300});
  EXPECT_THAT(kept(newest.rings[0]),
              ElementsAre(std::tuple(300, kOtherPid, kNowhere), std::tuple(500, kLeafPid, kMapped + 1)));
  EXPECT_THAT(kept(newest.rings[1]), ElementsAre());
}

// No chain is looked at later, so they would only need memory.
TEST_F(UnmappedLeaves, AreNotKeptWhereNoEventHasCallchains) {
  rings_[0].write(test::sample(100, kNowhere));
  const Selection chosen = selected({}, test::kSampleType);
  EXPECT_EQ(chosen.samples, 1U);
  EXPECT_TRUE(chosen.rings[0].leaves.empty());
}

TEST_F(UnmappedLeaves, OneOfThemIsEnoughWhereverItIs) {
  for (EventTime at_ns = 100; at_ns <= 1000; at_ns += 100) add(0, at_ns, kMapped);
  add(1, 50, kNowhere);  // before all others, in the ring that is judged last
  add(1, 60, kMapped);
  const MappedCode code = judged();
  EXPECT_FALSE(is_known(code, kLeafPid, 10));
  EXPECT_FALSE(is_known(code, kLeafPid, kFrozenNs));
}

TEST_F(UnmappedLeaves, InCodeRaiseNoDoubt) {
  add(0, 100, kMapped);
  add(1, 200, kMapped + 0xfff);
  add(1, 300, kNowhere, PERF_RECORD_MISC_KERNEL);
  EXPECT_TRUE(is_known(judged(), kLeafPid, 100));
}

// store.max_snapshot: another, later begin is tried, with a selection of its own.
TEST_F(UnmappedLeaves, BeforeTheWindowDoNotCount) {
  add(0, 100, kNowhere);
  add(0, 200, kMapped);
  EXPECT_TRUE(is_known(judged({.begin_ns = 101}), kLeafPid, 200));
  EXPECT_FALSE(is_known(judged(), kLeafPid, 200));
}

TEST_F(UnmappedLeaves, AreJudgedByWhatTheProcessWasAtThatTime) {
  add(0, 100, kMapped);
  add(0, 500, kNowhere);
  add(0, 900, kMapped);
  execute(400);
  execute(600);
  const MappedCode code = judged();
  EXPECT_TRUE(is_known(code, kLeafPid, 399));
  EXPECT_FALSE(is_known(code, kLeafPid, 400));
  EXPECT_FALSE(is_known(code, kLeafPid, 599));
  EXPECT_TRUE(is_known(code, kLeafPid, 600));
  EXPECT_TRUE(is_known(code, kLeafPid, 900));
}

TEST_F(UnmappedLeaves, OfATimeOfWhichNothingIsKnownDoNotCount) {
  add(0, 100, kNowhere);
  MappedCode before(sideband_);
  doubt_unmapped_leaves(before, selected(), *workers_);
  EXPECT_FALSE(is_known(before, kLeafPid, 200));
  sideband_.maps_from_ns = 101;
  MappedCode code(sideband_);
  doubt_unmapped_leaves(code, selected(), *workers_);
  EXPECT_TRUE(is_known(code, kLeafPid, 200));
}

}  // namespace
}  // namespace flight
