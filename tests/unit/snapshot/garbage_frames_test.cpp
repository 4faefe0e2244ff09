// SPDX-License-Identifier: Apache-2.0
// Callers that are no code are dropped, and counted; everything else stays.
#include "libcore/snapshot/garbage_frames.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perf/sample_parts.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "libcore/snapshot/write_data.hpp"
#include "tests/unit/perf/copied_sample.hpp"

namespace flight {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using Frames = std::vector<std::uint64_t>;

constexpr std::uint64_t kChainType = test::kCopyType & ~kUserCopies;
constexpr std::uint64_t kKernelMark = PERF_CONTEXT_KERNEL, kUserMark = PERF_CONTEXT_USER;
constexpr std::uint64_t kInKernel = 0xffffffff81000000, kCode = 0x401000, kGarbage = 0x7777;
constexpr std::size_t kChainRing = 64U << 10U;

// With copies of registers and stack, which the file does not get.
Manifest chain_manifest() {
  Manifest manifest;
  ManifestEvent event;
  event.name = "dummy";
  event.attr.size = kStoredAttrBytes;
  event.attr.type = PERF_TYPE_SOFTWARE;
  event.attr.config = PERF_COUNT_SW_DUMMY;
  event.attr.sample_type = kSidebandSampleType;
  event.attr.sample_id_all = 1;
  event.ids = {{1, 0, 0}};
  manifest.events.push_back(event);
  event.channel = "stacks";
  event.name = "cpu-clock";
  event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
  event.attr.sample_type = test::kCopyType;
  event.attr.sample_regs_user = test::kThreeRegisters;
  event.attr.sample_stack_user = 64;
  event.ids = {{test::kId, 0, 0}};
  manifest.events.push_back(event);
  manifest.rings.push_back(
      {.kind = RingKind::channel, .channel = "stacks", .cpu = 0, .ring_bytes = kChainRing, .enabled_ns = 1});
  return manifest;
}

// Of the process of all samples, known from 10 on.
TrackerExport one_known_process() {
  TrackerExport out;
  out.maps_from_ns = 10;
  append_comm(out.prologue, {.pid = 1, .tid = 1, .name = "made"}, {});
  append_mmap2(out.prologue, {.pid = 1, .tid = 1, .address = kCode, .bytes = 0x1000, .name = "/bin/made"}, {});
  append_mmap2(out.prologue, {.pid = 1, .tid = 1, .address = 0x7fff0000, .bytes = 0x1000, .name = "[vdso]"}, {});
  return out;
}

Frames frames_of(std::span<const std::byte> record) {
  Frames out;
  const auto parts = sample_parts(record, RecordLayout::of(kChainType));
  EXPECT_TRUE(parts);
  for (std::uint64_t i = 0; parts && i < parts->frames; ++i)
    out.push_back(load<std::uint64_t>(record.data() + parts->chain + 8 * i));
  return out;
}

class GarbageFramesTest : public testing::Test {
 protected:
  // The frames that the file gets.
  Frames written(const Frames& chain, EventTime time_ns = 20) {
    const auto record = test::CopiedSample{.time_ns = time_ns, .serial = 7, .chain = chain}.bytes();
    const auto after = samples_.file_record(record);
    EXPECT_EQ(load<perf_event_header>(after.data()).size, after.size());
    const auto fields = sample_fields(after, RecordLayout::of(kChainType));
    EXPECT_TRUE(fields);
    EXPECT_EQ(fields ? fields->cgroup : 0, 0xc0ffeeU) << "what is behind the chain";
    EXPECT_EQ(fields ? fields->ip : 0, 7U);
    return frames_of(after);
  }
  [[nodiscard]] Frames counts() const {
    const SidecarStacks& stacks = samples_.stacks();
    return {stacks.checked, stacks.unchecked, stacks.callers, stacks.garbage_frames};
  }

  const Manifest manifest_ = chain_manifest();
  const EventTable events_ = event_table(manifest_);
  const TrackerExport sideband_ = one_known_process();
  const MappedCode code_{sideband_};
  FileSamples samples_{manifest_, events_, &code_};
};

TEST_F(GarbageFramesTest, CallersThatAreNoCodeAreDropped) {
  // The end of the mapping is behind the call of a function that does not return; the vsyscall page is no mapping.
  const std::uint64_t behind = kCode + 0x1000, vsyscall = 0xffffffffff600010;
  EXPECT_THAT(written({kKernelMark, kInKernel, kUserMark, kCode, kCode + 4, kGarbage, behind, 0, vsyscall, behind + 1}),
              ElementsAre(kKernelMark, kInKernel, kUserMark, kCode, kCode + 4, behind, vsyscall));
  EXPECT_THAT(counts(), ElementsAre(1, 0, 6, 3));
}

TEST_F(GarbageFramesTest, WhatRanStaysWhereverItIs) {
  EXPECT_THAT(written({kUserMark, kGarbage}), ElementsAre(kUserMark, kGarbage));
  EXPECT_THAT(counts(), ElementsAre(0, 0, 0, 0)) << "it has no callers";
  EXPECT_THAT(written({kUserMark, kGarbage, kGarbage}), ElementsAre(kUserMark, kGarbage));
  EXPECT_THAT(counts(), ElementsAre(1, 0, 1, 1));
}

TEST_F(GarbageFramesTest, OnlyCallersOfTheProgramAreLookedAt) {
  const std::uint64_t guest = PERF_CONTEXT_GUEST_USER;
  const Frames chain{kKernelMark, kInKernel, kInKernel + 1, guest, kGarbage, kGarbage};
  EXPECT_THAT(written(chain), ElementsAreArray(chain));
  EXPECT_THAT(written({}), ElementsAre());
  EXPECT_THAT(counts(), ElementsAre(0, 0, 0, 0));
}

TEST_F(GarbageFramesTest, CallersOfAProcessThatIsNotKnownStay) {
  const Frames chain{kUserMark, kCode, kGarbage};
  EXPECT_THAT(written(chain, 9), ElementsAreArray(chain));
  EXPECT_THAT(counts(), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(written({kUserMark, kCode, kCode + 4}), ElementsAre(kUserMark, kCode, kCode + 4));
  EXPECT_THAT(counts(), ElementsAre(1, 1, 1, 0));
}

// As for a recording.
TEST_F(GarbageFramesTest, WithoutMappingsAllCallersStay) {
  FileSamples samples(manifest_, events_);
  const auto record = test::CopiedSample{.time_ns = 20, .chain = {kUserMark, kCode, kGarbage}}.bytes();
  EXPECT_THAT(frames_of(samples.file_record(record)), ElementsAre(kUserMark, kCode, kGarbage));
  EXPECT_EQ(samples.stacks().unchecked, 0U);
}

TEST_F(GarbageFramesTest, OtherRecordsStayAsTheyAre) {
  GarbageFrames garbage(events_, &code_);
  RecordBuffer comm;
  append_comm(comm, {.pid = 1, .tid = 1, .name = "made"}, {.time_ns = 20, .id = test::kId});
  EXPECT_EQ(garbage.drop(comm, record_key(comm, events_)).data(), comm.data());
  EXPECT_TRUE(garbage.drop({}, std::nullopt).empty());
  const auto stranger = test::CopiedSample{.time_ns = 20, .id = 99, .chain = {kUserMark, kCode, kGarbage}}.bytes();
  EXPECT_EQ(garbage.drop(stranger, record_key(stranger, events_)).data(), stranger.data());
  // Cut, so that the chain does not fit.
  auto torn = test::CopiedSample{.time_ns = 20, .chain = Frames(8, kUserMark)}.bytes();
  torn.resize(80);
  const auto size = static_cast<std::uint16_t>(torn.size());
  std::memcpy(torn.data() + offsetof(perf_event_header, size), &size, sizeof size);
  EXPECT_EQ(garbage.drop(torn, record_key(torn, events_)).data(), torn.data());
  EXPECT_EQ(garbage.stacks().checked + garbage.stacks().unchecked, 0U);
}

// From the rings to the file.
class GarbageFramesFile : public GarbageFramesTest {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-garbage-frames-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path() const { return folder_ + "/one.perf.data"; }

  // One that was taken in the program, at `leaf`.
  void add(std::uint64_t leaf, const Frames& callers) {
    Frames chain{kUserMark, leaf};
    chain.insert(chain.end(), callers.begin(), callers.end());
    ring_.write(test::CopiedSample{.time_ns = 1000 * ++samples_written_, .serial = leaf, .chain = chain}.bytes());
  }
  // Twice, as if the first attempt had found a full disk.
  SidecarStacks write() {
    const auto workers = WorkerPool::start(1).value();
    StreamMemory memory = StreamMemory::create(1, 1).value();
    const auto staging = Staging::create({}).value();
    const BlackoutLog blackouts(1);
    const std::vector<std::size_t> channel_rings{0};
    const HostFacts host{};
    const KernelNames kernel{};
    const std::vector<KernelMap> no_maps;
    const Selection selection =
        select({ring_.image()}, manifest_, channel_rings, events_, {}, kFrozenNs, blackouts, *workers);
    EXPECT_EQ(selection.samples, samples_written_);
    const RecordingFacts recording{.manifest = manifest_,
                                   .channel_rings = channel_rings,
                                   .events = events_,
                                   .host = host,
                                   .kernel = kernel,
                                   .kallsyms = {}};
    const CaptureFacts capture{.staging = staging, .frozen_ns = kFrozenNs, .blackouts = blackouts, .lost = {}};
    const DataToWrite what{.selection = selection,
                           .sideband = sideband_,
                           .kernel_maps = no_maps,
                           .recording = recording,
                           .capture = capture};
    SnapshotOrder order;
    order.compression = "none";
    SnapshotOutput output;
    output.data = open_file(path(), O_RDWR | O_CREAT | O_EXCL, 0640).value();
    WrittenData out;
    for (int attempt = 1; attempt <= 2; ++attempt) {
      EXPECT_TRUE(empty_data(output));
      const auto done = write_data(out, what, order, output, *workers, memory, [](std::string_view, unsigned) {});
      EXPECT_TRUE(done) << done.error().what;
    }
    return out.stacks;
  }
  [[nodiscard]] std::vector<Frames> chains() const {
    std::vector<Frames> out;
    const auto reader = FileReader::open(path());
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return out;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          if (load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE) out.push_back(frames_of(record));
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return out;
  }

  static constexpr EventTime kFrozenNs = 1'000'000;
  std::string folder_;
  test::FakeRing ring_{kChainRing};
  std::uint64_t samples_written_ = 0;
};

TEST_F(GarbageFramesFile, HasNoneOfThem) {
  for (std::uint64_t i = 1; i <= 50; ++i) add(kCode + i, {kGarbage, kCode + 2 * i, kGarbage + i});
  const SidecarStacks stacks = write();
  EXPECT_EQ(stacks.checked, 50U);
  EXPECT_EQ(stacks.unchecked, 0U);
  EXPECT_EQ(stacks.callers, 150U);
  EXPECT_EQ(stacks.garbage_frames, 100U);
  const std::vector<Frames> in_file = chains();
  ASSERT_EQ(in_file.size(), 50U);
  for (std::uint64_t i = 1; i <= 50; ++i) EXPECT_THAT(in_file[i - 1], ElementsAre(kUserMark, kCode + i, kCode + 2 * i));
}

// It has code of which no record is known (mremap(2)): other callers may be there, too, also of earlier samples.
TEST_F(GarbageFramesFile, OfAProgramThatRunsWhereNoMappingIsHasAllCallers) {
  for (std::uint64_t i = 1; i <= 10; ++i) add(kCode + i, {kGarbage, kCode});
  add(kGarbage, {kGarbage, kCode});
  const SidecarStacks stacks = write();
  EXPECT_EQ(stacks.checked, 0U);
  EXPECT_EQ(stacks.unchecked, 11U);
  const std::vector<Frames> in_file = chains();
  ASSERT_EQ(in_file.size(), 11U);
  for (const Frames& one : in_file) EXPECT_THAT(one, testing::SizeIs(4));
}

}  // namespace
}  // namespace flight
