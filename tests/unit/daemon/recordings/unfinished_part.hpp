// SPDX-License-Identifier: Apache-2.0
// A part of a recording that a flightd left unfinished, in a real directory, and a fake broker that makes the files to
// finish it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/recordings/recovery.hpp"
#include "libcore/base/files.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/stream/block_pool.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/part_file.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"

namespace flight::test {

using namespace daemon;

class UnfinishedPartTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSeq = 7;
  static inline const std::string kStem = "flight-box-20261120T031204.123Z-record-7";
  static constexpr std::uint64_t kRecoveredId = 5;
  static constexpr EventTime kRoundNs = 1'000'000'000;

  static std::vector<FileEvent> recovered_events() {
    FileEvent event;
    event.attr.type = PERF_TYPE_SOFTWARE;
    event.attr.size = kStoredAttrBytes;
    event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
    event.attr.sample_type = kSidebandSampleType;
    event.attr.sample_id_all = 1;
    event.name = "cpu-clock";
    event.ids = {kRecoveredId};
    return {event};
  }

  // A record about a process, as far as this test needs one.
  static RecordBuffer comm_at(EventTime time_ns) {
    RecordBuffer out;
    append_comm(out, {.pid = 1, .tid = 1, .name = "made", .exec = false},
                {.pid = 1, .tid = 1, .time_ns = time_ns, .cpu = 0, .id = kRecoveredId});
    return out;
  }

  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(bench_.start({.folder = bench_.snapshots()}));
    store_ = std::make_unique<PartStore>(*bench_.recorder, bench_.snapshots());
  }
  void TearDown() override { store_.reset(); }
  [[nodiscard]] std::string at(const std::string& name) const { return bench_.snapshots() + "/" + name; }
  [[nodiscard]] UniqueFd create(PartFileKind kind) const {
    return std::move(*open_file(at(part_file(kind, kSeq)), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
  }

  static Features features() {
    Features out;
    out.hostname = "box";
    out.arch = "x86_64";
    out.cpus_available = out.cpus_online = 1;
    return out;
  }
  // Leaves the files of a part with so many rounds, of which each has lost so many events. `whole`: the data has its
  // features and its header.
  void kill_part(int rounds, bool whole = false, std::uint64_t lost = 0) {
    auto pool = BlockPool::create(1U << 20U);
    ASSERT_TRUE(pool);
    auto chunks = Chunks::create(0);
    ASSERT_TRUE(chunks);
    chunks->begin();
    PartStart start;
    start.data = create(PartFileKind::data);
    start.journal = create(PartFileKind::journal);
    start.events = recovered_events();
    start.features = features();
    start.channels = {"faults"};
    start.prologue = comm_at(0);
    auto part = PartFile::create(std::move(start), *chunks);
    ASSERT_TRUE(part) << part.error().what;
    for (int i = 1; i <= rounds; ++i) {
      const EventTime time_ns = static_cast<EventTime>(i) * kRoundNs;
      const RecordBuffer records = comm_at(time_ns);
      Round round;
      RingRound& ring = round.rings.emplace_back();
      ring.blocks.push_back({.bytes = std::move(*(*pool)->keep({}, records)),
                             .expanded_bytes = records.size(),
                             .events = 0,
                             .oldest_ns = time_ns,
                             .newest_ns = time_ns});
      if (lost > 0)
        ring.add_hole({.cause = HoleCause::overwritten,
                       .bytes = 100 * lost,
                       .events = lost,
                       .estimated = true,
                       .from_ns = time_ns - 5,
                       .until_ns = time_ns});
      round.newest_ns = time_ns;
      ASSERT_TRUE(part->write(round, {}));
    }
    if (whole) {
      ASSERT_TRUE(part->finish(features()));
    }
  }
  // Gives the part's sidecar its name, as a commit does before the data gets its own.
  void name_sidecar(const Sidecar& contents) const { std::ofstream(at(kStem + ".json")) << to_json(contents); }
  // The sidecar of a commit.
  [[nodiscard]] Sidecar committed() const {
    Sidecar out = begun();
    out.record->holes_known = true;
    out.size_bytes = std::filesystem::file_size(at(part_file(PartFileKind::data, kSeq)));
    out.holes = {{.channel = "faults",
                  .cpu = 1,
                  .begin_ns = kRoundNs,
                  .end_ns = 2 * kRoundNs,
                  .lost = 7,
                  .cause = "overwritten",
                  .bytes = 700}};
    return out;
  }
  // The sidecar of the part that is in the store now.
  [[nodiscard]] Sidecar stored() const {
    auto sidecar = parse_sidecar(read_file(at(kStem + ".json")).value_or(""));
    EXPECT_TRUE(sidecar && sidecar->record);
    return sidecar && sidecar->record ? std::move(*sidecar) : begun();
  }
  void describe() const { std::ofstream(at(part_file(PartFileKind::sidecar, kSeq))) << to_json(begun()); }
  [[nodiscard]] Sidecar begun() const {
    Sidecar out;
    out.id = "7";
    out.trigger = kRecordTrigger;
    out.reason = "slow";
    out.record = SidecarRecord{.first = "5", .part = 2, .ended = {}};
    out.path = at(kStem + ".perf.data");
    const ClockPair pair{.wall = parse_time("2026-11-20T03:12:04Z", {}).value(), .monotonic_ns = kRoundNs};
    out.window = SidecarWindow::of(kRoundNs, kRoundNs, ClockHistory(pair));
    return out;
  }
  [[nodiscard]] Result<std::string> recover(bool last = true) {
    return recover_part(*store_, {.seq = kSeq, .host = "box", .last = last, .make_room = {}, .stop = {}});
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(bench_.snapshots()))
      out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }

  RecorderBench bench_;
  std::unique_ptr<PartStore> store_;
};

}  // namespace flight::test
