// SPDX-License-Identifier: Apache-2.0
// Samples with copies of the user's registers and stack, built in memory.
#include "libcore/perf/sample_parts.hpp"

#include <gtest/gtest.h>

#include "tests/unit/perf/copied_sample.hpp"

namespace flight::test {
namespace {

const RecordLayout kLayout = RecordLayout::of(kCopyType, kThreeRegisters);
constexpr std::size_t kChainAt = 64;  // behind the header, six fixed fields and the number of frames

std::uint64_t word_at(const std::vector<std::byte>& record, std::size_t offset) {
  return load<std::uint64_t>(record.data() + offset);
}

TEST(SampleParts, OfASampleWithRegistersAndStack) {
  const auto record = CopiedSample{}.bytes();
  const auto parts = sample_parts(record, kLayout);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->chain, kChainAt);
  EXPECT_EQ(parts->frames, 2U);
  EXPECT_EQ(parts->copies, kChainAt + 16);
  EXPECT_EQ(parts->abi, PERF_SAMPLE_REGS_ABI_64);
  EXPECT_EQ(word_at(record, parts->registers + 16), 0x1002U) << "the last one";
  EXPECT_EQ(parts->stack_bytes, 64U);
  EXPECT_EQ(parts->valid_bytes, 48U);
  EXPECT_EQ(word_at(record, parts->stack), kStackWord);
  EXPECT_EQ(word_at(record, parts->stack + 56), kStackWord);
  EXPECT_EQ(word_at(record, parts->copies_end), 0xc0ffeeU);
  EXPECT_EQ(parts->copies_end + 8, record.size());
}

// The kernel has neither of a kernel thread.
TEST(SampleParts, OfASampleWithoutThem) {
  const auto record = CopiedSample{.abi = PERF_SAMPLE_REGS_ABI_NONE, .stack_bytes = 0}.bytes();
  const auto parts = sample_parts(record, kLayout);
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->copies_end - parts->copies, 16U);
  EXPECT_EQ(parts->stack_bytes, 0U);
  EXPECT_EQ(parts->valid_bytes, 0U);
  EXPECT_EQ(word_at(record, parts->copies_end), 0xc0ffeeU);
}

TEST(SampleParts, OfAnEventWithoutCopiesTheyAreEmpty) {
  const auto parts = sample_parts(sample(1, 1), RecordLayout::of(kSampleType));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->frames, 0U);
  EXPECT_EQ(parts->copies, sizeof(SampleHead));
  EXPECT_EQ(parts->copies_end, sizeof(SampleHead));
}

// perf_prepare_sample() pads the size and the bytes of RAW together.
TEST(SampleParts, AreBehindRaw) {
  auto words = CopiedSample{.chain = {}}.words();
  words.insert(words.begin() + 8, {0x111111110000000c, 0x2222222233333333});
  const auto bytes = std::as_bytes(std::span(words));
  const auto parts = sample_parts(bytes, RecordLayout::of(kCopyType | PERF_SAMPLE_RAW, kThreeRegisters));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->raw, kChainAt + 4);
  EXPECT_EQ(parts->raw_bytes, 12U);
  EXPECT_EQ(load<std::uint32_t>(bytes.data() + parts->raw), 0x11111111U);
  EXPECT_EQ(parts->copies, kChainAt + 16);
  EXPECT_EQ(parts->stack_bytes, 64U);
  words[8] = 0x111111110000000d;
  EXPECT_FALSE(sample_parts(bytes, RecordLayout::of(kCopyType | PERF_SAMPLE_RAW, kThreeRegisters)));
}

TEST(SampleParts, ThatDoNotFitAreRefused) {
  const auto record = CopiedSample{}.bytes();
  for (std::size_t size = 0; size + 8 < record.size(); ++size)
    EXPECT_FALSE(sample_parts(std::span(record).first(size), kLayout)) << size;
  for (const std::uint64_t bytes : {~std::uint64_t{0}, std::uint64_t{1} << 63U, std::uint64_t{72}, std::uint64_t{63}}) {
    auto words = CopiedSample{}.words();
    words[14] = bytes;  // of the stack
    EXPECT_FALSE(sample_parts(std::as_bytes(std::span(words)), kLayout)) << bytes;
    words = CopiedSample{}.words();
    words[7] = bytes;  // the number of frames
    EXPECT_FALSE(sample_parts(std::as_bytes(std::span(words)), kLayout)) << bytes;
  }
}

TEST(SampleParts, ThatContradictEachOtherAreRefused) {
  EXPECT_TRUE(sample_parts(CopiedSample{.valid_bytes = 64}.bytes(), kLayout));
  EXPECT_FALSE(sample_parts(CopiedSample{.valid_bytes = 65}.bytes(), kLayout));
  EXPECT_FALSE(sample_parts(CopiedSample{.abi = 3}.bytes(), kLayout));
  EXPECT_FALSE(sample_parts(CopiedSample{}.bytes(), RecordLayout::of(kCopyType | PERF_SAMPLE_READ, kThreeRegisters)));
}

TEST(SampleParts, TheCgroupIsBehindThem) {
  const auto fields = sample_fields(CopiedSample{.serial = 7}.bytes(), kLayout);
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->cgroup, 0xc0ffeeU);
  EXPECT_EQ(fields->ip, 7U);
  EXPECT_FALSE(sample_fields(CopiedSample{.valid_bytes = 65}.bytes(), kLayout));
}

TEST(SampleParts, TheWalkDropsDamagedOnes) {
  FakeRing ring(4096);
  ring.write(CopiedSample{.time_ns = 100, .serial = 1}.bytes());
  ring.write(CopiedSample{.time_ns = 200, .serial = 99, .valid_bytes = 65}.bytes());
  ring.write(CopiedSample{.time_ns = 300, .serial = 2, .abi = PERF_SAMPLE_REGS_ABI_NONE, .stack_bytes = 0}.bytes());
  const WalkResult walk = walk_ring(ring.image(), copying_event());
  EXPECT_EQ(serials(ring.image(), walk), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(walk.samples, 2U);
  EXPECT_EQ(walk.bad_records, 1U);
}

// Every position of a record at the end of the ring.
TEST(SampleParts, TheWalkFindsThemAcrossTheRingsEnd) {
  for (std::size_t shift = 0; shift < 256; shift += 8) {
    FakeRing ring(4096);
    ring.write(CopiedSample{.serial = 0, .stack_bytes = 64 + shift}.bytes());
    for (std::uint64_t i = 1; i <= 100; ++i) ring.write(CopiedSample{.time_ns = 100 * i, .serial = i}.bytes());
    const WalkResult walk = walk_ring(ring.image(), copying_event());
    ASSERT_EQ(walk.bad_records, 0U) << shift;
    ASSERT_EQ(walk.records.size(), 4096 / CopiedSample{}.bytes().size()) << shift;
  }
}

}  // namespace
}  // namespace flight::test
