// SPDX-License-Identifier: Apache-2.0
// The cache gives MappedCode's answers, whatever it was asked before; a file is the same with it.
#include "libcore/snapshot/code_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "libcore/perf/record_build.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "tests/unit/snapshot/made_recording.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kCachePage = 0x1000, kCacheBase = 0x400000, kCachePages = 512, kCacheFarApart = 0x100000000;
constexpr std::uint64_t kKernelsPage = 0xffffffffff600000;
constexpr std::uint32_t kCachePids = 150;  // more than it remembers
constexpr EventTime kMapsFromNs = 50, kCacheEndNs = 1000;

// Code of a few pages each, often beside each other, in three parts of the memory.
void put_random_code(RecordBuffer& out, const Trailer& trailer, std::mt19937_64& random) {
  const auto map = [&](std::uint64_t address, std::uint64_t bytes, std::string_view name) {
    append_mmap2(out, {.pid = trailer.pid, .tid = trailer.tid, .address = address, .bytes = bytes, .name = name},
                 trailer);
  };
  for (int i = 0; i < 100; ++i)
    map(kCacheBase + random() % 3 * kCacheFarApart + random() % kCachePages * kCachePage,
        (1 + random() % 8) * kCachePage, "/bin/made");
  map(0x7fff0000, kCachePage, "[vdso]");
}

// Processes that execute and fork at random times; of some, not all is known.
TrackerExport random_processes(std::mt19937_64& random) {
  TrackerExport out;
  out.maps_from_ns = kMapsFromNs;
  for (std::uint32_t pid = 1; pid <= kCachePids; ++pid) {
    append_comm(out.prologue, {.pid = pid, .tid = pid, .name = "made"}, {});
    put_random_code(out.prologue, {.pid = pid, .tid = pid}, random);
    if (pid % 10 == 0) out.partial_maps.insert(pid);
  }
  for (EventTime time_ns = 1; time_ns < kCacheEndNs; time_ns += 1 + random() % 5) {
    const auto pid = static_cast<std::uint32_t>(1 + random() % kCachePids);
    const auto parent = static_cast<std::uint32_t>(1 + random() % kCachePids);
    const Trailer trailer{.pid = pid, .tid = pid, .time_ns = time_ns};
    if (random() % 2 == 0) {
      append_comm(out.log, {.pid = pid, .tid = pid, .name = "made", .exec = true}, trailer);
      put_random_code(out.log, trailer, random);
    } else {
      append_fork(out.log, {.pid = pid, .ppid = parent, .tid = pid, .ptid = parent, .time_ns = time_ns}, trailer);
    }
  }
  return out;
}

// Also at the ends of mappings and of all addresses.
std::uint64_t random_address(std::mt19937_64& random) {
  const std::uint64_t edge = random() % 3;
  switch (random() % 6) {
    case 0:
      return kKernelsPage + random() % 2 * kCachePage + edge - 1;
    case 1:
      return edge - 1;
    case 2:
      return random();
    case 3:
      return kCacheBase + random() % 3 * kCacheFarApart + random() % (kCachePages * kCachePage);
    default:
      return kCacheBase + random() % 3 * kCacheFarApart + random() % (kCachePages + 4) * kCachePage + edge - 1;
  }
}

TEST(CodeCache, SaysWhatTheMappedCodeSays) {
  std::mt19937_64 random(20);
  const TrackerExport sideband = random_processes(random);
  const MappedCode code(sideband);
  CodeCache cache(code);
  std::uint64_t known = 0, in_code = 0;
  for (int i = 0; i < 200'000; ++i) {
    // Some are not there: 0, the kernel's, and one behind the last.
    auto pid = static_cast<std::uint32_t>(random() % (kCachePids + 2));
    if (random() % 100 == 0) pid = kKernelPid;
    const EventTime time_ns = random() % 50 == 0 ? UINT64_MAX : random() % (kCacheEndNs + 10);
    const std::size_t memory = cache.memory_of(pid, time_ns);
    ASSERT_EQ(memory, code.memory_of(pid, time_ns)) << pid << " at " << time_ns;
    if (memory == MappedCode::kUnknown) continue;
    ++known;
    const std::uint64_t address = random_address(random);
    const CodeStretch stretch = cache.stretch_of(memory, address);
    ASSERT_EQ(stretch.code, code.is_code(memory, address)) << memory << ": " << address;
    in_code += stretch.code ? 1 : 0;
    // What is_caller() relies on.
    ASSERT_LE(stretch.first, address);
    ASSERT_GE(stretch.last, address);
    ASSERT_EQ(code.is_code(memory, stretch.first), stretch.code) << memory << ": " << stretch.first;
    ASSERT_EQ(code.is_code(memory, stretch.last), stretch.code) << memory << ": " << stretch.last;
  }
  EXPECT_GT(known, 50'000U);
  EXPECT_GT(in_code, known / 10);
  EXPECT_LT(in_code, known / 10 * 9);
}

TEST(CodeCache, HoldsExactlyFromOneMappingToTheNext) {
  TrackerExport sideband;
  sideband.maps_from_ns = 10;
  const Trailer first{.pid = 5, .tid = 5}, second{.pid = 5, .tid = 5, .time_ns = 100};
  for (const Trailer& trailer : {first, second}) {
    RecordBuffer& out = trailer.time_ns == 0 ? sideband.prologue : sideband.log;
    append_comm(out, {.pid = 5, .tid = 5, .name = "made", .exec = true}, trailer);
    const std::uint64_t address = trailer.time_ns == 0 ? 0x1000U : 0x2000U;
    append_mmap2(out, {.pid = 5, .tid = 5, .address = address, .bytes = 0x1000, .name = "/bin/made"}, trailer);
    append_mmap2(out, {.pid = 5, .tid = 5, .address = 0x9000, .bytes = 0x1000, .name = "[vdso]"}, trailer);
  }
  const MappedCode code(sideband);
  CodeCache cache(code);
  EXPECT_EQ(cache.memory_of(5, 9), MappedCode::kUnknown);
  const std::size_t before = cache.memory_of(5, 99), after = cache.memory_of(5, 100);
  ASSERT_NE(before, MappedCode::kUnknown);
  ASSERT_NE(after, MappedCode::kUnknown);
  ASSERT_NE(before, after) << "it executed a program";
  EXPECT_EQ(cache.memory_of(5, 10), before);
  EXPECT_EQ(cache.memory_of(5, 9), MappedCode::kUnknown);
  EXPECT_EQ(cache.memory_of(5, UINT64_MAX), after);
  EXPECT_EQ(cache.memory_of(69, 100), MappedCode::kUnknown) << "in the same place as 5";
  EXPECT_EQ(cache.memory_of(5, 100), after);
  for (const std::uint64_t address : {0x1000U, 0x1fffU, 0x1000U}) {
    EXPECT_TRUE(cache.stretch_of(before, address).code) << address;
    EXPECT_FALSE(cache.stretch_of(after, address).code) << address;
    EXPECT_TRUE(cache.stretch_of(after, address + 0x1000).code) << address;
    EXPECT_FALSE(cache.stretch_of(before, address + 0x1000).code) << address;
  }
}

// Frame by frame, as garbage_frames.hpp has it. All chains are of a program, marked as such.
std::vector<std::byte> without_garbage(std::span<const std::byte> record, const MappedCode& code) {
  MadeRecording::Sample sample;
  std::memcpy(&sample, record.data(), record.size());
  const std::size_t memory = code.memory_of(sample.pid, sample.time_ns);
  std::size_t kept = 2;
  for (std::size_t i = 2; i < sample.depth; ++i) {
    const std::uint64_t caller = sample.chain.at(i);
    if (code.is_code(memory, caller) || (caller != 0 && code.is_code(memory, caller - 1)))
      sample.chain.at(kept++) = caller;
  }
  sample.depth = kept;
  sample.header.size = static_cast<std::uint16_t>(sizeof sample - (sample.chain.size() - kept) * 8);
  const auto bytes = std::as_bytes(std::span(&sample, 1)).first(sample.header.size);
  return {bytes.begin(), bytes.end()};
}

TEST(CodeCache, DoesNotChangeAFile) {
  const MadeRecording recording(2, 1U << 20U, MadeRecording::Stacks::of_programs);
  const auto workers = WorkerPool::start(1).value();
  const Selection selection = recording.selection(*workers);
  const TrackerExport sideband = MadeRecording::processes((selection.begin_ns + selection.end_ns) / 2);
  const MappedCode code(sideband);
  FileSamples samples(recording.manifest, recording.events, &code);
  RecordScratch scratch;
  std::size_t shorter = 0, count = 0;
  for (const RingSelection& ring : selection.rings) {
    for (const RecordRef& ref : ring.walk.records) {
      const auto record = record_bytes(ring.image, ref, scratch.bytes());
      const auto written = samples.file_record(record);
      const std::vector<std::byte> expected = without_garbage(record, code);
      ASSERT_TRUE(std::equal(written.begin(), written.end(), expected.begin(), expected.end())) << ref.time_ns;
      shorter += written.size() < record.size() ? 1 : 0;
      ++count;
    }
  }
  EXPECT_GT(count, 5'000U);
  EXPECT_GT(shorter, count / 2);
  EXPECT_EQ(samples.stacks().checked, count);
}

}  // namespace
}  // namespace flight
