// SPDX-License-Identifier: Apache-2.0
// A batch of samples on its way to the unwinder and back, and what each side refuses of the other.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/unwind/batch_answer.hpp"
#include "libcore/unwind/batch_unwinder.hpp"
#include "libcore/unwind/batch_writer.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

using Words = std::vector<std::uint64_t>;

constexpr std::uint64_t kBatchCode = 0x7f0000000000 + kCodeAddress, kBatchJit = 0x500000000000;
constexpr std::uint64_t kBatchStack = 0x7ffe00000000;
// Functions: one with a caller at its stack pointer + 16, and the outermost one.
constexpr std::uint64_t kCalled = kBatchCode + 5, kEntry = kBatchCode + 0x103;

OwnedTable batch_table() {
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kCodeAddress, 0x100, bytes_of({0x0e, 24}));
  cfi.add_fde(kCodeAddress + 0x100, 0x100, bytes_of({0x07, 16}));
  TestElf elf;
  elf.eh_frame = cfi.bytes();
  return table_of(elf);
}

class BatchTest : public testing::Test {
 protected:
  struct Sampled {
    std::uint64_t pc = kCalled, frame_pointer = 0;
    Words stack = {0, 0, kEntry};
    Words kernel = {};
    std::uint32_t space = 0;
    std::uint32_t most_frames = kMaxUnwoundFrames;
  };
  // With one table, and one space whose only mapping has it.
  BatchWriter begin(std::span<std::byte> memory) const {
    BatchWriter batch(memory, Machine::x86_64, mask_, ~std::uint64_t{0}, 1);
    const BatchMapping mapping{
        .begin = kBatchCode, .end = kBatchCode + kCodeBytes, .file_offset = kCodeOffset, .table = 0, .is_file = 1};
    EXPECT_EQ(batch.add_space(std::span(&mapping, 1)), 0U);
    return batch;
  }
  // In perf's order: BP, SP and IP are its registers 6 to 8.
  static Words registers_of(const Sampled& sampled) {
    Words out(17);
    out[6] = sampled.frame_pointer, out[7] = kBatchStack, out[8] = sampled.pc;
    return out;
  }
  static bool add(BatchWriter& batch, const Sampled& sampled) {
    const Words registers = registers_of(sampled);
    return batch.add_sample({.space = sampled.space,
                             .registers = std::as_bytes(std::span(registers)),
                             .kernel = std::as_bytes(std::span(sampled.kernel)),
                             .stack = std::as_bytes(std::span(sampled.stack)),
                             .most_frames = sampled.most_frames});
  }
  Result<std::size_t> unwind(std::span<const std::byte> batch) {
    const std::array<const UnwindTable*, 1> tables{has_table_ ? &*table_.table : nullptr};
    return unwinder_.unwind(batch, tables, answer_);
  }
  // The answer to it.
  BatchAnswer answer_to(std::span<const std::byte> batch, std::uint32_t samples) {
    const auto bytes = unwind(batch);
    EXPECT_TRUE(bytes) << bytes.error().what;
    auto answer = BatchAnswer::parse(std::span<const std::byte>(answer_).first(bytes.value_or(0)), samples);
    EXPECT_TRUE(answer) << answer.error().what;
    return answer ? std::move(*answer) : BatchAnswer();
  }
  static bool is_any_code(std::uint64_t address) { return address != 0; }
  [[nodiscard]] static int error_of(const Result<std::size_t>& result) {
    return result ? 0 : result.error().errno_value();
  }

  const std::uint64_t mask_ = sample_register_mask(Machine::x86_64);
  const OwnedTable table_ = batch_table();
  bool has_table_ = true;
  std::vector<std::byte> memory_ = std::vector<std::byte>(64U << 10U);
  std::vector<std::byte> answer_ = std::vector<std::byte>(most_answer_bytes(16));
  BatchUnwinder unwinder_;
};

TEST_F(BatchTest, EachSampleGetsItsStack) {
  BatchWriter batch = begin(memory_);
  const BatchMapping jit{.begin = kBatchJit, .end = kBatchJit + 0x1000};
  ASSERT_EQ(batch.add_space(std::span(&jit, 1)), 1U);
  ASSERT_TRUE(add(batch, {}));
  ASSERT_TRUE(
      add(batch, {.pc = kBatchJit + 9, .frame_pointer = kBatchStack, .stack = {0, kBatchJit + 77}, .space = 1}));
  ASSERT_TRUE(add(batch, {.most_frames = 1}));
  ASSERT_TRUE(add(batch, {.most_frames = 0}));
  EXPECT_EQ(batch.samples(), 4U);
  const BatchAnswer answer = answer_to(batch.finish(), 4);
  const auto whole = answer.chain(0, kCalled, is_any_code);
  EXPECT_EQ(whole.status, UnwindStatus::complete);
  EXPECT_EQ(whole.pcs, (Words{kCalled, kEntry}));
  EXPECT_EQ(whole.stopped_at, kEntry);
  const auto jitted = answer.chain(1, kBatchJit + 9, is_any_code);
  EXPECT_EQ(jitted.status, UnwindStatus::complete);
  EXPECT_EQ(jitted.pcs, (Words{kBatchJit + 9, kBatchJit + 77}));
  const auto cut = answer.chain(2, kCalled, is_any_code);
  EXPECT_EQ(cut.status, UnwindStatus::too_deep);
  EXPECT_EQ(cut.pcs, Words{kCalled});
  EXPECT_TRUE(answer.chain(3, kCalled, is_any_code).pcs.empty());
}

TEST_F(BatchTest, WhereTheCopyEndsTheKernelsFramesGoOn) {
  BatchWriter batch = begin(memory_);
  ASSERT_TRUE(add(batch, {.stack = {}, .kernel = {kCalled, kEntry}}));
  ASSERT_TRUE(add(batch, {.stack = {}}));
  const BatchAnswer answer = answer_to(batch.finish(), 2);
  EXPECT_EQ(answer.chain(0, kCalled, is_any_code).status, UnwindStatus::spliced);
  EXPECT_EQ(answer.chain(0, kCalled, is_any_code).pcs, (Words{kCalled, kEntry}));
  EXPECT_EQ(answer.chain(1, kCalled, is_any_code).status, UnwindStatus::truncated);
}

TEST_F(BatchTest, WithoutItsTableAFileIsNotUnwound) {
  for (const bool is_of_another_file : {false, true}) {
    has_table_ = is_of_another_file;
    BatchWriter batch(memory_, Machine::x86_64, mask_, ~std::uint64_t{0}, 1);
    const BatchMapping mapping{.begin = kBatchCode,
                               .end = kBatchCode + kCodeBytes,
                               .file_offset = is_of_another_file ? 0x900000 : kCodeOffset,
                               .table = 0,
                               .is_file = 1};
    ASSERT_TRUE(batch.add_space(std::span(&mapping, 1)));
    ASSERT_TRUE(add(batch, {}));
    const auto chain = answer_to(batch.finish(), 1).chain(0, kCalled, is_any_code);
    EXPECT_EQ(chain.status, UnwindStatus::no_file);
    EXPECT_EQ(chain.pcs, Words{kCalled});
    EXPECT_EQ(chain.stopped_at, kCalled);
  }
}

TEST_F(BatchTest, AFullBatchTakesNoMore) {
  const std::size_t each = sizeof(BatchSample) + 17 * 8 + 3 * 8;
  std::vector<std::byte> memory(sizeof(BatchHeader) + sizeof(BatchMapping) + 4 + 3 * each + each / 2);
  BatchWriter batch = begin(memory);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(add(batch, {})) << i;
  EXPECT_FALSE(add(batch, {}));
  const std::vector<BatchMapping> many(64);
  EXPECT_FALSE(batch.add_space(many));
  const auto samples = static_cast<std::uint32_t>(batch.samples());
  const auto bytes = batch.finish();
  EXPECT_LE(bytes.size(), memory.size());
  EXPECT_EQ(answer_to(bytes, samples).chain(2, kCalled, is_any_code).pcs, (Words{kCalled, kEntry}));
}

TEST_F(BatchTest, ASampleOfAnotherShapeIsNotTaken) {
  BatchWriter batch = begin(memory_);
  const Words registers(17), few(16);
  const auto bytes = [](const Words& words) { return std::as_bytes(std::span(words)); };
  EXPECT_FALSE(batch.add_sample({.space = 0, .registers = bytes(few), .kernel = {}, .stack = {}}));
  EXPECT_FALSE(batch.add_sample({.space = 1, .registers = bytes(registers), .kernel = {}, .stack = {}}));
  EXPECT_FALSE(
      batch.add_sample({.space = 0, .registers = bytes(registers), .kernel = bytes(few).first(12), .stack = {}}));
  EXPECT_TRUE(
      batch.add_sample({.space = 0, .registers = bytes(registers), .kernel = {}, .stack = bytes(few).first(3)}));
  EXPECT_EQ(batch.samples(), 1U);
}

// Whatever a flightd that was taken over writes.
TEST_F(BatchTest, TheUnwinderRefusesWhatContradictsItself) {
  BatchWriter batch = begin(memory_);
  ASSERT_TRUE(add(batch, {.kernel = {kCalled, kEntry}}));
  const auto good = batch.finish();
  ASSERT_TRUE(unwind(good));
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_EQ(error_of(unwind(good.first(size))), EBADMSG) << size;
  const std::size_t sample_at = good.size() - 4 - sizeof(BatchSample);
  struct Change {
    std::size_t at;
    std::uint32_t value;
  };
  for (const auto& [at, value] : std::initializer_list<Change>{{0, 0},
                                                               {8, 2},
                                                               {12, 3},           // machine
                                                               {32, 0xfffffff8},  // data
                                                               {32, 4},
                                                               {40, 2},
                                                               {44, 2},
                                                               {48, 2},
                                                               {52, 2},         // tables
                                                               {sample_at, 4},  // data_at
                                                               {sample_at, 0x10000},
                                                               {sample_at + 4, 0xffffffff},
                                                               {sample_at + 8, 1},            // space
                                                               {sample_at + 12, 0xffffffff},  // kernel's frames
                                                               {sample_at + 12, 6},
                                                               {sample_at + 16, 0xffffffff},  // stack
                                                               {sample_at + 16, 32},
                                                               {good.size() - 4, 2}}) {  // mappings of the space
    std::vector<std::byte> bad(good.begin(), good.end());
    std::memcpy(bad.data() + at, &value, sizeof value);
    EXPECT_EQ(error_of(unwind(bad)), EBADMSG) << value << " at " << at;
  }
  EXPECT_EQ(error_of(unwinder_.unwind(good, {}, answer_)), EBADMSG) << "no table came";
}

TEST_F(BatchTest, AnAnswerThatDoesNotFitIsAnError) {
  BatchWriter batch = begin(memory_);
  ASSERT_TRUE(add(batch, {}));
  const auto bytes = batch.finish();
  const auto needed = unwind(bytes);
  ASSERT_TRUE(needed) << needed.error().what;
  EXPECT_EQ(*needed, sizeof(AnswerHeader) + sizeof(AnswerSample) + 16);
  for (std::size_t size = 0; size < *needed; ++size) {
    answer_.resize(size);
    EXPECT_EQ(error_of(unwind(bytes)), ENOSPC) << size;
  }
  answer_.resize(*needed);
  EXPECT_EQ(error_of(unwind(bytes)), 0);
}

// Whatever an unwinder that was taken over writes.
TEST_F(BatchTest, FlightdRefusesAnAnswerThatContradictsItself) {
  BatchWriter batch = begin(memory_);
  ASSERT_TRUE(add(batch, {}));
  const auto size = unwind(batch.finish());
  ASSERT_TRUE(size) << size.error().what;
  answer_.resize(*size);
  ASSERT_TRUE(BatchAnswer::parse(answer_, 1));
  EXPECT_FALSE(BatchAnswer::parse(answer_, 0));
  EXPECT_FALSE(BatchAnswer::parse(answer_, 2));
  EXPECT_FALSE(BatchAnswer::parse(answer_, 0xffffffff));
  for (std::size_t bytes = 0; bytes < *size; ++bytes)
    EXPECT_FALSE(BatchAnswer::parse(std::span<const std::byte>(answer_).first(bytes), 1)) << bytes;
  struct Change {
    std::size_t at;
    std::uint32_t value;
  };
  constexpr std::size_t kSampleAt = sizeof(AnswerHeader);
  for (const auto& [at, value] : std::initializer_list<Change>{{0, 0},
                                                               {8, 2},
                                                               {12, 2},
                                                               {16, 3},
                                                               {20, 1},
                                                               {kSampleAt + 8, 1},
                                                               {kSampleAt + 8, 0xffffffff},
                                                               {kSampleAt + 16, 100}}) {
    std::vector<std::byte> bad = answer_;
    std::memcpy(bad.data() + at, &value, sizeof value);
    EXPECT_FALSE(BatchAnswer::parse(bad, 1)) << value << " at " << at;
  }
}

TEST_F(BatchTest, OnlyCallersThatAreCodeAreAccepted) {
  BatchWriter batch = begin(memory_);
  ASSERT_TRUE(add(batch, {}));
  const BatchAnswer answer = answer_to(batch.finish(), 1);
  const auto no_code = answer.chain(0, kCalled, [](std::uint64_t) { return false; });
  EXPECT_EQ(no_code.pcs, Words{kCalled}) << "what ran stays";
  EXPECT_EQ(no_code.refused, 1U);
  // The end of a mapping, behind a call that does not return.
  EXPECT_EQ(answer.chain(0, kCalled, [](std::uint64_t address) { return address < kEntry; }).refused, 0U);
  EXPECT_TRUE(answer.chain(0, kCalled + 1, is_any_code).pcs.empty()) << "it is not the sample's";
  EXPECT_TRUE(answer.chain(1, kCalled, is_any_code).pcs.empty()) << "there is none";
}

}  // namespace
}  // namespace flight::test
