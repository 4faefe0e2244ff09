// SPDX-License-Identifier: Apache-2.0
// Hand-made stacks: how the unwinder leaves each kind of frame, and why an unwind stops.
#include "libcore/unwind/unwinder.hpp"

#include <gtest/gtest.h>

#include "libcore/perf/attr.hpp"
#include "tests/unit/unwind/process_code.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

constexpr std::uint64_t kBias = 0x7f0000000000;
constexpr std::uint64_t kCode = kBias + kCodeAddress;
constexpr std::uint64_t kJit = 0x500000000000, kOther = 0x600000000000;
constexpr std::uint64_t kStackBase = 0x7ffe00000000;
// Functions, 0x100 bytes each.
constexpr std::uint64_t kPlain = 0x000, kStart = 0x100, kFramed = 0x200, kNoCfi = 0x300, kRealigned = 0x400,
                        kSignal = 0x500, kByRbx = 0x600, kSavesRbx = 0x700, kStuck = 0x800, kEpilogue = 0x900;

OwnedTable x86_table() {
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kCodeAddress + kPlain, 0x100, bytes_of({0x0e, 24}));
  cfi.add_fde(kCodeAddress + kStart, 0x100, bytes_of({0x07, 16}));
  cfi.add_fde(kCodeAddress + kFramed, 0x100, bytes_of({0x0c, 6, 16, 0x86, 2}));
  // GCC's: CFA = *(rbp - 8), rbp at rbp.
  cfi.add_fde(kCodeAddress + kRealigned, 0x100, bytes_of({0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0}));
  cfi.add_fde(kCodeAddress + kByRbx, 0x100, bytes_of({0x0c, 3, 16}));
  cfi.add_fde(kCodeAddress + kSavesRbx, 0x100, bytes_of({0x0e, 16, 0x83, 2}));
  cfi.add_fde(kCodeAddress + kStuck, 0x100, bytes_of({0x0e, 0}));
  cfi.add_fde(kCodeAddress + kEpilogue, 0x100, bytes_of({0x86, 2}));
  CieOptions signal;
  signal.augmentation = "zRS";
  // glibc's form: *(rsp + 160); rip, rbp and rsp by expressions.
  signal.program = bytes_of(
      {0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1, 0x10, 6, 3, 0x77, 0xf8, 0, 0x10, 7, 3, 0x77, 0xa0, 1});
  cfi.add_cie(signal);
  cfi.add_fde(kCodeAddress + kSignal - 1, 0x100, {});
  TestElf elf;
  elf.eh_frame = cfi.bytes();
  return table_of(elf);
}

// A stack of words, from kStackBase upwards.
struct Sample {
  std::vector<std::uint64_t> words;
  UnwindRegisters registers;

  explicit Sample(std::uint64_t pc, Machine machine = Machine::x86_64) {
    registers.set(traits_of(machine).pc, pc);
    registers.set(traits_of(machine).stack_pointer, kStackBase);
  }
  static std::uint64_t at(std::size_t index) { return kStackBase + index * 8; }
};

class UnwinderTest : public testing::Test {
 protected:
  Unwound unwind(const Sample& sample, std::size_t most = kMaxUnwoundFrames) {
    pcs_.assign(most, 0);
    const StackCopy stack{kStackBase, std::as_bytes(std::span(sample.words))};
    const Unwound unwound = unwinder_.unwind(sample.registers, stack, map_, pcs_);
    pcs_.resize(unwound.frames);
    return unwound;
  }

  OwnedTable table_ = x86_table();
  CodeMap map_ = CodeMap::create({{kCode, kCode + kCodeBytes, kBias, &*table_.table, true},
                                  {kJit, kJit + 0x1000, 0, nullptr, false},
                                  {kOther, kOther + 0x1000, 0, nullptr, true}});
  Unwinder unwinder_{Machine::x86_64};
  std::vector<std::uint64_t> pcs_;
};

using Pcs = std::vector<std::uint64_t>;

TEST_F(UnwinderTest, ByStackPointerToTheEntry) {
  Sample sample(kCode + kPlain + 5);
  sample.words = {0, 0, kCode + kPlain + 0x100, 0, 0, kCode + kStart + 3};
  // The return address is the next function's first byte: the caller ends in a call that does not return.
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);
  EXPECT_EQ(pcs_, (Pcs{kCode + kPlain + 5, kCode + kPlain + 0x100, kCode + kStart + 3}));
}

TEST_F(UnwinderTest, ByFramePointerInCfi) {
  Sample sample(kCode + kFramed + 5);
  sample.registers.set(6, Sample::at(2));
  sample.words = {0, 0, Sample::at(5), kCode + kFramed + 9, 0, 0, kCode + kStart + 1};
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);
  EXPECT_EQ(pcs_, (Pcs{kCode + kFramed + 5, kCode + kFramed + 9, kCode + kStart + 1}));
}

TEST_F(UnwinderTest, RealignedStack) {
  Sample sample(kCode + kRealigned + 5);
  sample.registers.set(6, Sample::at(2));
  sample.words = {0, Sample::at(8), Sample::at(9), 0, 0, 0, 0, kCode + kFramed + 1, 0, 0, kCode + kStart + 1};
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);
  EXPECT_EQ(pcs_, (Pcs{kCode + kRealigned + 5, kCode + kFramed + 1, kCode + kStart + 1}));
}

TEST_F(UnwinderTest, ACfaByAnotherRegisterThatWasSaved) {
  Sample sample(kCode + kSavesRbx + 5);
  sample.registers.set(3, 1);
  sample.words = {Sample::at(4), kCode + kByRbx + 1, 0, 0, 0, kCode + kStart + 1};
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);
  EXPECT_EQ(pcs_, (Pcs{kCode + kSavesRbx + 5, kCode + kByRbx + 1, kCode + kStart + 1}));
  // Code without CFI may have changed the register.
  Sample lost(kJit + 5);
  lost.registers.set(3, Sample::at(4));
  lost.registers.set(6, Sample::at(0));
  lost.words = {Sample::at(4), kCode + kByRbx + 1, 0, 0, 0, kCode + kStart + 1};
  const Unwound unwound = unwind(lost);
  EXPECT_EQ(unwound.status, UnwindStatus::no_cfi);
  EXPECT_EQ(unwound.stopped_at, kCode + kByRbx + 1);
}

TEST_F(UnwinderTest, AnEpilogueHasPoppedWhatItsRuleCallsSaved) {
  Sample sample(kCode + kEpilogue + 5);
  sample.registers.set(6, Sample::at(3));  // rule: at CFA - 16, which is below the stack pointer
  sample.words = {kCode + kFramed + 1, 0, 0, 0, kCode + kStart + 1};
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);
  EXPECT_EQ(pcs_, (Pcs{kCode + kEpilogue + 5, kCode + kFramed + 1, kCode + kStart + 1}));
}

TEST_F(UnwinderTest, ThroughJitByFramePointer) {
  Sample sample(kCode + kPlain + 5);
  sample.registers.set(6, Sample::at(4));
  sample.words = {0, 0, kJit + 9,          0, Sample::at(6), kJit + 99, Sample::at(9), kCode + kFramed + 3,
                  0, 0, kCode + kStart + 1};
  const Unwound unwound = unwind(sample);
  EXPECT_EQ(unwound.status, UnwindStatus::complete);
  EXPECT_EQ(unwound.frame_pointer_steps, 2U);
  EXPECT_EQ(pcs_, (Pcs{kCode + kPlain + 5, kJit + 9, kJit + 99, kCode + kFramed + 3, kCode + kStart + 1}));
}

TEST_F(UnwinderTest, CodeOfAFileWithoutCfiIsLikeJit) {
  Sample sample(kCode + kNoCfi + 5);
  sample.registers.set(6, Sample::at(0));
  sample.words = {0, kCode + kNoCfi + 7};
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);  // its frame pointer is zero
  EXPECT_EQ(pcs_, (Pcs{kCode + kNoCfi + 5, kCode + kNoCfi + 7}));
}

TEST_F(UnwinderTest, ThroughASignal) {
  Sample sample(kCode + kPlain + 5);
  sample.words.assign(40, 0);
  sample.words[2] = kCode + kSignal;       // the return address; the context begins above it
  sample.words[3 + 15] = Sample::at(35);   // rbp
  sample.words[3 + 20] = Sample::at(30);   // rsp
  sample.words[3 + 21] = kCode + kFramed;  // rip: the first instruction, which was not called
  sample.words[36] = kCode + kStart + 1;
  EXPECT_EQ(unwind(sample).status, UnwindStatus::complete);
  EXPECT_EQ(pcs_, (Pcs{kCode + kPlain + 5, kCode + kSignal, kCode + kFramed, kCode + kStart + 1}));
}

TEST_F(UnwinderTest, ASignalsStackMayLieAnywhere) {
  Sample sample(kCode + kSignal);
  sample.words.assign(22, 0);
  sample.words[20] = kStackBase - 0x100000;
  sample.words[21] = kCode + kPlain;
  EXPECT_EQ(unwind(sample).status, UnwindStatus::truncated);
  EXPECT_EQ(pcs_, (Pcs{kCode + kSignal, kCode + kPlain}));
}

TEST_F(UnwinderTest, SaysWhyItStops) {
  Sample truncated(kCode + kPlain + 5);
  truncated.words = {0, 0, kCode + kPlain + 9, 0, 0};
  EXPECT_EQ(unwind(truncated).status, UnwindStatus::truncated);
  EXPECT_EQ(pcs_.size(), 2U);

  Sample no_file(kCode + kPlain + 5);
  no_file.words = {0, 0, kOther + 9};
  EXPECT_EQ(unwind(no_file).status, UnwindStatus::no_file);
  EXPECT_EQ(pcs_.back(), kOther + 9);

  Sample no_mapping(kCode + kPlain + 5);
  no_mapping.words = {0, 0, 0x1234};
  const Unwound unwound = unwind(no_mapping);
  EXPECT_EQ(unwound.status, UnwindStatus::no_mapping);
  EXPECT_EQ(unwound.stopped_at, kCode + kPlain + 5);
  EXPECT_EQ(pcs_.size(), 1U);
  Sample nowhere(0x1234);
  EXPECT_EQ(unwind(nowhere).status, UnwindStatus::no_mapping);
  EXPECT_EQ(pcs_, Pcs{0x1234});  // only the pc that the kernel gave

  Sample no_progress(kCode + kPlain + 5);
  no_progress.words = {0, 0, kCode + kStuck + 5, 0, 0};
  EXPECT_EQ(unwind(no_progress).status, UnwindStatus::no_progress);

  Sample no_cfi(kJit + 5);
  EXPECT_EQ(unwind(no_cfi).status, UnwindStatus::no_cfi);  // rbp is unknown
  for (const std::uint64_t frame_pointer : {std::uint64_t{0}, Sample::at(0) - 8, Sample::at(0) + 1}) {
    no_cfi.registers.set(6, frame_pointer);
    no_cfi.words = {0, kCode + kPlain, 0};
    EXPECT_EQ(unwind(no_cfi).status, UnwindStatus::no_cfi) << frame_pointer;
    EXPECT_EQ(pcs_.size(), 1U);
  }
  no_cfi.registers.set(6, Sample::at(0));
  no_cfi.words = {0, 0x1234};
  EXPECT_EQ(unwind(no_cfi).status, UnwindStatus::no_cfi);  // garbage: it keeps no frame pointer
  no_cfi.registers.set(6, Sample::at(100));
  EXPECT_EQ(unwind(no_cfi).status, UnwindStatus::truncated);

  Sample end(kCode + kPlain + 5);
  end.words = {0, 0, 0};
  EXPECT_EQ(unwind(end).status, UnwindStatus::complete);  // a return address of zero
}

TEST_F(UnwinderTest, HasNoMoreFramesThanAskedFor) {
  Sample sample(kCode + kPlain + 5);
  for (int i = 0; i < 300; ++i) sample.words.insert(sample.words.end(), {0, 0, kCode + kPlain + 9});
  EXPECT_EQ(unwind(sample).status, UnwindStatus::too_deep);
  EXPECT_EQ(pcs_.size(), kMaxUnwoundFrames);
  EXPECT_EQ(unwind(sample, 3).status, UnwindStatus::too_deep);
  EXPECT_EQ(pcs_.size(), 3U);
  EXPECT_EQ(unwind(sample, 0).status, UnwindStatus::too_deep);
}

TEST(Unwinder, Arm64LeafSignedReturnAddressAndSignal) {
  CieOptions options;
  options.return_address = 30;
  options.code_alignment = 4;
  options.program = bytes_of({0x0c, 31, 0});
  CfiWriter cfi(kEhFrameAddress, options);
  cfi.add_fde(kCodeAddress + kPlain, 0x100, {});  // a leaf
  cfi.add_fde(kCodeAddress + kFramed, 0x100, bytes_of({0x2d, 0x0e, 32, 0x9d, 4, 0x9e, 3}));
  cfi.add_fde(kCodeAddress + kStart, 0x100, bytes_of({0x07, 30}));
  TestElf elf;
  elf.machine = Machine::arm64;
  elf.eh_frame = cfi.bytes();
  const Bytes trampoline = bytes_of({0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4});
  std::copy(trampoline.begin(), trampoline.end(), elf.code.begin() + kSignal);
  const OwnedTable table = table_of(elf);
  const CodeMap map = CodeMap::create({{kCode, kCode + kCodeBytes, kBias, &*table.table, true}});
  constexpr std::uint64_t kSignature = 0x002a000000000000;
  Unwinder unwinder(Machine::arm64, 0x0000ffffffffffff);

  Sample sample(kCode + kPlain, Machine::arm64);
  sample.registers.set(30, kCode + kSignal);  // a signal's handler, a leaf
  sample.words.assign(96, 0);
  const std::size_t x0 = (128 + 176 + 8) / 8;
  sample.words[x0 + 30] = kCode + kFramed + 0x40;  // the interrupted leaf's return address
  sample.words[x0 + 31] = Sample::at(80);
  sample.words[x0 + 32] = kCode + kPlain;
  sample.words[81] = (kCode + kStart + 4) | kSignature;
  std::vector<std::uint64_t> pcs(8);
  const StackCopy stack{kStackBase, std::as_bytes(std::span(sample.words))};
  const Unwound unwound = unwinder.unwind(sample.registers, stack, map, pcs);
  pcs.resize(unwound.frames);
  EXPECT_EQ(unwound.status, UnwindStatus::complete);
  EXPECT_EQ(pcs, (Pcs{kCode + kPlain, kCode + kSignal, kCode + kPlain, kCode + kFramed + 0x40, kCode + kStart + 4}));

  // A leaf that returns to itself makes no progress.
  sample.registers.set(30, kCode + kPlain + 4);
  EXPECT_EQ(unwinder.unwind(sample.registers, stack, map, pcs).status, UnwindStatus::no_progress);
  // A table of another machine does not apply to this process.
  Unwinder wrong(Machine::x86_64);
  Sample x86(kCode + kPlain);
  EXPECT_EQ(wrong.unwind(x86.registers, stack, map, pcs).status, UnwindStatus::no_cfi);
}

TEST(Unwinder, EventsCopyTheRegistersThatItUses) { EXPECT_EQ(kUserRegisters, sample_register_mask(kThisMachine)); }

}  // namespace
}  // namespace flight::test
