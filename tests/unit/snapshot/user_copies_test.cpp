// SPDX-License-Identifier: Apache-2.0
// What no file gets: copies of the user's registers and stack.
#include "libcore/snapshot/user_copies.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "libcore/snapshot/fit.hpp"
#include "libcore/snapshot/write_data.hpp"
#include "tests/unit/perf/copied_sample.hpp"

namespace flight {
namespace {

using test::CopiedSample;

constexpr std::uint64_t kFileType = test::kCopyType & ~kUserCopies;
constexpr std::uint64_t kPlainId = 31;
constexpr std::size_t kCopyingRing = 64U << 10U;
// abi, three registers, the size of the stack, 64 bytes, the valid ones.
constexpr std::size_t kCopyBytes = 8 + 24 + 8 + 64 + 8;

// The sideband's dummy, an event with copies, one without callchains.
Manifest copying_manifest() {
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
  event.name = "page-faults";
  event.attr.config = PERF_COUNT_SW_PAGE_FAULTS;
  event.attr.sample_type = test::kSampleType;
  event.attr.sample_regs_user = 0;
  event.attr.sample_stack_user = 0;
  event.ids = {{kPlainId, 0, 0}};
  manifest.events.push_back(event);
  manifest.rings.push_back(
      {.kind = RingKind::channel, .channel = "stacks", .cpu = 0, .ring_bytes = kCopyingRing, .enabled_ns = 1});
  return manifest;
}

// At any position.
bool has_word(std::span<const std::byte> bytes, std::uint64_t word) {
  for (std::size_t at = 0; at + sizeof word <= bytes.size(); ++at)
    if (load<std::uint64_t>(bytes.data() + at) == word) return true;
  return false;
}

TEST(UserCopies, AreCutFromTheSample) {
  const EventTable events = event_table(copying_manifest());
  UserCopies copies(events);
  ASSERT_TRUE(events.copies_user());
  ASSERT_TRUE(copies.any());
  const auto before = CopiedSample{.time_ns = 5, .serial = 7}.bytes();
  EXPECT_EQ(user_copy_bytes(before, events.layout(1)), kCopyBytes);
  const auto after = copies.cut(before, record_key(before, events));
  ASSERT_EQ(after.size(), before.size() - kCopyBytes);
  EXPECT_EQ(load<perf_event_header>(after.data()).size, after.size());
  EXPECT_EQ(load<perf_event_header>(after.data()).misc, PERF_RECORD_MISC_USER);
  EXPECT_TRUE(std::equal(after.begin() + 8, after.begin() + 80, before.begin() + 8)) << "until the end of the chain";
  EXPECT_FALSE(has_word(after, test::kStackWord));
  EXPECT_FALSE(has_word(after, 0x1000)) << "a register";
  const auto fields = sample_fields(after, RecordLayout::of(kFileType));
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->ip, 7U);
  EXPECT_EQ(fields->cgroup, 0xc0ffeeU);
}

TEST(UserCopies, OfAKernelThreadAreCut) {
  const EventTable events = event_table(copying_manifest());
  UserCopies copies(events);
  const auto before = CopiedSample{.abi = PERF_SAMPLE_REGS_ABI_NONE, .stack_bytes = 0}.bytes();
  const auto after = copies.cut(before, record_key(before, events));
  ASSERT_EQ(after.size(), before.size() - 16);
  EXPECT_EQ(sample_fields(after, RecordLayout::of(kFileType))->cgroup, 0xc0ffeeU);
}

TEST(UserCopies, OtherRecordsStayAsTheyAre) {
  const EventTable events = event_table(copying_manifest());
  UserCopies copies(events);
  const auto plain = test::sample(1, 2, sizeof(test::SampleHead), kPlainId);
  EXPECT_EQ(copies.cut(plain, record_key(plain, events)).data(), plain.data());
  EXPECT_EQ(user_copy_bytes(plain, events.layout(2)), 0U);
  RecordBuffer comm;
  append_comm(comm, {.pid = 7, .tid = 7, .name = "made"}, {.time_ns = 1, .id = test::kId});
  EXPECT_EQ(copies.cut(comm, record_key(comm, events)).data(), comm.data());
}

TEST(UserCopies, ASampleThatCannotBeCutIsNotWritten) {
  const Manifest manifest = copying_manifest();
  const EventTable events = event_table(manifest);
  FileSamples samples(manifest, events);
  EXPECT_TRUE(samples.file_record(CopiedSample{.valid_bytes = 65}.bytes()).empty());
  EXPECT_TRUE(samples.file_record(CopiedSample{.id = 99}.bytes()).empty()) << "whose it is is not known";
  EXPECT_FALSE(samples.file_record(CopiedSample{}.bytes()).empty());
}

// Both changes in one file: no copies, and a chain for the event that has none.
TEST(UserCopies, TheAttrsOfTheFileAgree) {
  const Manifest manifest = copying_manifest();
  const EventTable events = event_table(manifest);
  FileSamples samples(manifest, events);
  std::vector<FileEvent> file = file_events(manifest);
  samples.mark(file);
  ASSERT_EQ(file.size(), 3U);
  EXPECT_EQ(file[1].attr.sample_type, kFileType);
  EXPECT_EQ(file[1].attr.sample_regs_user, 0U);
  EXPECT_EQ(file[1].attr.sample_stack_user, 0U);
  EXPECT_EQ(file[2].attr.sample_type, test::kSampleType | PERF_SAMPLE_CALLCHAIN);
  const auto plain = test::sample(1, 2, sizeof(test::SampleHead), kPlainId);
  EXPECT_EQ(samples.file_record(plain).size(), plain.size() + 8);
}

TEST(UserCopies, WithoutSuchEventsNothingIsCut) {
  const EventTable events = test::one_event();
  UserCopies copies(events);
  EXPECT_FALSE(events.copies_user());
  EXPECT_FALSE(copies.any());
  const auto record = test::sample(1, 2, 64, 4711);
  EXPECT_EQ(copies.cut(record, record_key(record, events)).data(), record.data());
}

// From the ring to the file.
class UserCopiesFile : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint64_t i = 1; i <= kSamples; ++i) ring_.write(CopiedSample{.time_ns = 1000 * i, .serial = i}.bytes());
    std::string name = "/tmp/flight-user-copies-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] Selection choose() {
    return select({ring_.image()}, manifest_, {0}, events_, {}, kFrozenNs, BlackoutLog(1), *workers_);
  }
  // A plain file.
  Result<void> write(const Selection& selection) {
    const auto staging = Staging::create({}).value();
    const BlackoutLog no_blackouts;
    const std::vector<std::size_t> channel_rings{0};
    const HostFacts host{};
    const KernelNames kernel{};
    const TrackerExport sideband{};
    const std::vector<KernelMap> no_maps;
    const RecordingFacts recording{.manifest = manifest_,
                                   .channel_rings = channel_rings,
                                   .events = events_,
                                   .host = host,
                                   .kernel = kernel,
                                   .kallsyms = {}};
    const CaptureFacts capture{.staging = staging, .frozen_ns = kFrozenNs, .blackouts = no_blackouts, .lost = {}};
    const DataToWrite what{.selection = selection,
                           .sideband = sideband,
                           .kernel_maps = no_maps,
                           .recording = recording,
                           .capture = capture};
    SnapshotOrder order;
    order.compression = "none";
    SnapshotOutput output;
    output.data = open_file(path(), O_RDWR | O_CREAT | O_EXCL, 0640).value();
    return write_data(written_, what, order, output, *workers_, memory_, [](std::string_view, unsigned) {});
  }
  [[nodiscard]] std::string path() const { return folder_ + "/one.perf.data"; }

  static constexpr std::uint64_t kSamples = 100;
  static constexpr EventTime kFrozenNs = 1'000'000;
  const Manifest manifest_ = copying_manifest();
  const EventTable events_ = event_table(manifest_);
  test::FakeRing ring_{kCopyingRing};
  const std::unique_ptr<WorkerPool> workers_ = WorkerPool::start(1).value();
  StreamMemory memory_ = StreamMemory::create(1, 1).value();
  WrittenData written_;
  std::string folder_;
};

TEST_F(UserCopiesFile, HasOrdinarySamples) {
  const auto done = write(choose());
  ASSERT_TRUE(done) << done.error().what;
  const auto text = read_file(path(), 1U << 20U);
  ASSERT_TRUE(text);
  EXPECT_FALSE(has_word(std::as_bytes(std::span(*text)), test::kStackWord)) << "a word of a stack";
  const auto reader = FileReader::open(path());
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->events().front().name, "cpu-clock");
  EXPECT_EQ(reader->events().front().attr.sample_type, kFileType);
  std::uint64_t next = 1;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return {};
        const auto fields = sample_fields(record, RecordLayout::of(kFileType));
        EXPECT_TRUE(fields);
        EXPECT_EQ(fields ? fields->ip : 0, next++);
        EXPECT_EQ(fields ? fields->cgroup : 0, 0xc0ffeeU);
        return {};
      },
      expand);
  EXPECT_TRUE(read) << read.error().what;
  EXPECT_EQ(next, kSamples + 1);
}

// The size of a file and how much of it fits are not guessed from bytes that it does not get.
TEST_F(UserCopiesFile, AreNotCountedForItsSize) {
  const Selection chosen = choose();
  ASSERT_EQ(chosen.samples, kSamples);
  const std::size_t size = CopiedSample{}.bytes().size();
  EXPECT_EQ(chosen.rings[0].record_bytes, kSamples * size) << "in the ring";
  EXPECT_EQ(record_bytes(chosen), kSamples * (size - kCopyBytes));
  EXPECT_TRUE(chosen.cgroups.contains(0xc0ffee));
}

}  // namespace
}  // namespace flight
