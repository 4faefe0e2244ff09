// SPDX-License-Identifier: Apache-2.0
// From hand-made call frame information to the rows of a table: each instruction, each pointer encoding, and what is
// refused.
#include <gtest/gtest.h>

#include "libcore/unwind/cfa_machine.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

constexpr std::uint64_t kAt = kCodeAddress;

OwnedTable table_of_cfi(const CfiWriter& cfi, Machine machine = Machine::x86_64) {
  TestElf elf;
  elf.machine = machine;
  elf.eh_frame = cfi.bytes();
  return table_of(elf);
}

// The rule at the second of two locations; `program` runs at the first one.
std::string after(const Bytes& program, const CieOptions& options = {}) {
  CfiWriter cfi(kEhFrameAddress, options);
  cfi.add_fde(kAt, 0x100, program);
  const OwnedTable table = table_of_cfi(cfi, options.return_address == 30 ? Machine::arm64 : Machine::x86_64);
  return table.table ? describe(*table.table, kAt + 0xff) : "no table";
}

TEST(Cfi, EachInstructionSetsWhatItSays) {
  const std::string ra = " r16=[cfa-8]";
  EXPECT_EQ(after({}), "r7+8" + ra);
  EXPECT_EQ(after(bytes_of({0x0c, 6, 16})), "r6+16" + ra);                   // def_cfa
  EXPECT_EQ(after(bytes_of({0x0d, 6})), "r6+8" + ra);                        // def_cfa_register
  EXPECT_EQ(after(bytes_of({0x0e, 0xa0, 1})), "r7+160" + ra);                // def_cfa_offset
  EXPECT_EQ(after(bytes_of({0x12, 7, 0x7e})), "r7+16" + ra);                 // def_cfa_sf: -2 * -8
  EXPECT_EQ(after(bytes_of({0x13, 0x7d})), "r7+24" + ra);                    // def_cfa_offset_sf
  EXPECT_EQ(after(bytes_of({0x0f, 3, 0x77, 8, 0x06})), "770806" + ra);       // def_cfa_expression
  EXPECT_EQ(after(bytes_of({0x86, 2})), "r7+8 r6=[cfa-16]" + ra);            // offset
  EXPECT_EQ(after(bytes_of({0x05, 6, 2})), "r7+8 r6=[cfa-16]" + ra);         // offset_extended
  EXPECT_EQ(after(bytes_of({0x11, 6, 0x7e})), "r7+8 r6=[cfa+16]" + ra);      // offset_extended_sf
  EXPECT_EQ(after(bytes_of({0x2f, 6, 2})), "r7+8 r6=[cfa+16]" + ra);         // GNU_negative_offset_extended
  EXPECT_EQ(after(bytes_of({0x14, 6, 2})), "r7+8 r6=cfa-16" + ra);           // val_offset
  EXPECT_EQ(after(bytes_of({0x15, 6, 0x7e})), "r7+8 r6=cfa+16" + ra);        // val_offset_sf
  EXPECT_EQ(after(bytes_of({0x10, 6, 2, 0x76, 0})), "r7+8 r6=[7600]" + ra);  // expression
  EXPECT_EQ(after(bytes_of({0x16, 6, 2, 0x76, 0})), "r7+8 r6=7600" + ra);    // val_expression
  EXPECT_EQ(after(bytes_of({0x09, 6, 0})), "r7+8 r6=r0" + ra);               // register
  EXPECT_EQ(after(bytes_of({0x07, 6})), "r7+8 r6=undefined" + ra);           // undefined
  EXPECT_EQ(after(bytes_of({0x07, 16})), "r7+8 outermost");
  EXPECT_EQ(after(bytes_of({0x08, 0})), "r7+8 r0=same" + ra);   // same_value
  EXPECT_EQ(after(bytes_of({0x08, 6})), "r7+8" + ra);           // the ABI's default
  EXPECT_EQ(after(bytes_of({0x86, 2, 0xc6})), "r7+8" + ra);     // restore
  EXPECT_EQ(after(bytes_of({0x86, 2, 0x06, 6})), "r7+8" + ra);  // restore_extended
  EXPECT_EQ(after(bytes_of({0x2e, 0x90, 1})), "r7+8" + ra);     // GNU_args_size
  EXPECT_EQ(after(bytes_of({0x91, 2})), "r7+8" + ra);           // a register that is not tracked
  // remember_state, restore_state: the CFA as well.
  EXPECT_EQ(after(bytes_of({0x86, 2, 0x0a, 0x0e, 64, 0x83, 3, 0x0b})), "r7+8 r6=[cfa-16]" + ra);
}

TEST(Cfi, EachAdvanceMovesTheLocation) {
  for (const Bytes& advance : {bytes_of({0x50}), bytes_of({0x02, 0x10}), bytes_of({0x03, 0x10, 0}),
                               bytes_of({0x04, 0x10, 0, 0, 0}), bytes_of({0x1d, 0x10, 0, 0, 0, 0, 0, 0, 0})}) {
    CfiWriter cfi(kEhFrameAddress);
    Bytes program = advance;
    append_bytes(program, bytes_of({0x0e, 16}));
    cfi.add_fde(kAt, 0x20, program);
    const OwnedTable table = table_of_cfi(cfi);
    EXPECT_EQ(describe(*table.table, kAt + 0x0f), "r7+8 r16=[cfa-8]");
    EXPECT_EQ(describe(*table.table, kAt + 0x10), "r7+16 r16=[cfa-8]");
    EXPECT_EQ(table->rows(), 3U);
  }
  CieOptions fours;
  fours.code_alignment = 4;
  fours.encoding = 0x04;
  CfiWriter cfi(kEhFrameAddress, fours);
  Bytes program = bytes_of({0x41, 0x0e, 16, 0x01});
  append(program, kAt + 0x18);  // set_loc, in the CIE's encoding
  append_bytes(program, bytes_of({0x0e, 24}));
  cfi.add_fde(kAt, 0x20, program);
  const OwnedTable table = table_of_cfi(cfi);
  EXPECT_EQ(describe(*table.table, kAt + 3), "r7+8 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 4), "r7+16 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x18), "r7+24 r16=[cfa-8]");
}

TEST(Cfi, Arm64) {
  CieOptions arm64;
  arm64.return_address = 30;
  arm64.code_alignment = 4;
  arm64.program = bytes_of({0x0c, 31, 0});
  EXPECT_EQ(after({}, arm64), "r31+0");
  // paciasp; stp x29, x30, [sp, #-32]!
  EXPECT_EQ(after(bytes_of({0x2d, 0x41, 0x0e, 32, 0x9d, 4, 0x9e, 3}), arm64), "r31+32 r29=[cfa-32] r30=[cfa-24]");
  EXPECT_EQ(after(bytes_of({0x07, 30}), arm64), "r31+0 outermost");
  EXPECT_EQ(after(bytes_of({0x05, 72, 2}), arm64), "r31+0");  // d8
  arm64.augmentation = "zRB";
  EXPECT_EQ(after({}, arm64), "r31+0");
  EXPECT_EQ(after(bytes_of({0x2d})), "");  // no effect on x86-64
}

TEST(Cfi, ReadsEachPointerEncoding) {
  for (const unsigned encoding : {0x00U, 0x01U, 0x03U, 0x04U, 0x09U, 0x0bU, 0x0cU, 0x10U, 0x1bU, 0x1cU}) {
    CieOptions options;
    options.encoding = static_cast<std::uint8_t>(encoding);
    EXPECT_EQ(after({}, options), "r7+8 r16=[cfa-8]") << encoding;
  }
  CieOptions options;
  for (const unsigned encoding : {0x9bU, 0x2bU, 0x3bU, 0x4bU, 0x50U, 0x08U, 0xffU}) {
    options.encoding = static_cast<std::uint8_t>(encoding);
    EXPECT_EQ(after({}, options), "") << encoding;
  }
}

TEST(Cfi, ReadsEachAugmentationAndVersion) {
  CieOptions options;
  for (const char* augmentation : {"zR", "zPLR", "zLR", "zRX"}) {
    options.augmentation = augmentation;
    EXPECT_EQ(after({}, options), "r7+8 r16=[cfa-8]") << augmentation;
  }
  options.augmentation = "zRS";
  EXPECT_EQ(after({}, options), "r7+8 r16=[cfa-8] signal");
  options.augmentation = "eh";
  EXPECT_EQ(after({}, options), "");
  options.augmentation = "zR";
  options.version = 3;
  EXPECT_EQ(after({}, options), "r7+8 r16=[cfa-8]");
  options.version = 4;
  EXPECT_EQ(after({}, options), "r7+8 r16=[cfa-8]");
  options.version = 2;
  EXPECT_EQ(after({}, options), "");
  options.version = 1;
  options.return_address = 6;
  EXPECT_EQ(after({}, options), "");
}

TEST(Cfi, DebugFrameFillsWhatEhFrameLeavesOut) {
  TestElf elf;
  CfiWriter eh(kEhFrameAddress);
  eh.add_fde(kAt, 0x10, {});
  elf.eh_frame = eh.bytes();
  CieOptions options;
  options.format = CfiFormat::debug_frame;
  options.augmentation = "";
  options.encoding = 0;
  options.version = 4;
  CfiWriter debug(0, options);
  debug.add_fde(kAt, 0x10, bytes_of({0x0e, 99}));
  debug.add_fde(kAt + 0x20, 0x10, bytes_of({0x0e, 48}));
  elf.debug_frame = debug.bytes();
  const OwnedTable table = table_of(elf);
  EXPECT_EQ(describe(*table.table, kAt), "r7+8 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x10), "");
  EXPECT_EQ(describe(*table.table, kAt + 0x20), "r7+48 r16=[cfa-8]");
}

TEST(Cfi, RowsEndWhereTheirFunctionEnds) {
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kAt + 0x40, 0x10, {});                                   // not in order
  cfi.add_terminator();                                                // not at the end
  cfi.add_fde(kAt, 0x10, bytes_of({0x48, 0x0e, 16, 0x60, 0x0e, 24}));  // beyond its end
  cfi.add_fde(kAt + 0x10, 0x10, bytes_of({0x0e, 32}));
  const OwnedTable table = table_of_cfi(cfi);
  EXPECT_EQ(table.counts.fdes, 3U);
  EXPECT_EQ(describe(*table.table, kAt - 1), "");
  EXPECT_EQ(describe(*table.table, kAt + 0x08), "r7+16 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x0f), "r7+16 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x10), "r7+32 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x20), "");
  EXPECT_EQ(describe(*table.table, kAt + 0x40), "r7+8 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x50), "");
  EXPECT_EQ(describe(*table.table, ~std::uint64_t{0}), "");
}

TEST(Cfi, WhatIsWrongCostsItsOwnRows) {
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kAt, 0x20, bytes_of({0x48, 0x3f}));   // an unknown instruction after 8 bytes
  cfi.add_fde(kAt + 0x20, 0x10, bytes_of({0x0b}));  // restores a state that was not remembered
  cfi.add_fde(kAt + 0x30, 0x10, Bytes(kMaxRememberedStates + 1, std::byte{0x0a}));
  cfi.add_fde(kAt + 0x40, 0x10, bytes_of({0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f}));  // a CFA that does not fit
  cfi.add_fde(kAt + 0x50, 0x10, bytes_of({0x10, 6, 0x7f, 0, 0, 0, 0, 0}));  // an expression that does not end
  cfi.add_fde(kAt + 0x60, 0x10, bytes_of({0x0d, 50}));                      // a CFA of a register that is not tracked
  cfi.add_fde(0x100, 0x10, {});                                             // outside of the code
  cfi.add_fde(kAt + 0x80, 0, {});
  cfi.add_fde(kAt + 0x90, 0x10, {});
  const OwnedTable table = table_of_cfi(cfi);
  EXPECT_EQ(describe(*table.table, kAt + 7), "r7+8 r16=[cfa-8]");
  for (const unsigned wrong : {0x08U, 0x1fU, 0x20U, 0x30U, 0x40U, 0x50U, 0x60U, 0x80U})
    EXPECT_EQ(describe(*table.table, kAt + wrong), "") << wrong;
  EXPECT_EQ(describe(*table.table, kAt + 0x90), "r7+8 r16=[cfa-8]");
  EXPECT_EQ(table.counts.refused_fdes, 2U);
  EXPECT_EQ(table.counts.refused_rules, 6U);
  EXPECT_FALSE(table.counts.is_cut);
}

TEST(Cfi, AnEntryThatIsCutEndsTheSection) {
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kAt, 0x10, {});
  cfi.add_raw(bytes_of({0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}));  // a 64-bit length
  cfi.add_fde(kAt + 0x10, 0x10, {});
  const OwnedTable table = table_of_cfi(cfi);
  EXPECT_EQ(describe(*table.table, kAt), "r7+8 r16=[cfa-8]");
  EXPECT_EQ(describe(*table.table, kAt + 0x10), "");
}

TEST(Cfi, EqualRulesAreStoredOnce) {
  CfiWriter cfi(kEhFrameAddress);
  for (std::uint64_t i = 0; i < 64; ++i) cfi.add_fde(kAt + i * 0x20, 0x10, bytes_of({0x44, 0x0e, 16, 0x86, 2}));
  const OwnedTable table = table_of_cfi(cfi);
  EXPECT_EQ(table->rows(), 64U * 3);
  EXPECT_EQ(table.counts.rule_words, 3U + 4U);
}

TEST(Cfi, FindsSignalTrampolinesWithoutCfi) {
  TestElf elf;
  const Bytes code = bytes_of({0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4});  // mov x8, #139; svc #0
  std::copy(code.begin(), code.end(), elf.code.begin() + 0x40);
  elf.machine = Machine::arm64;
  const OwnedTable arm64 = table_of(elf);
  EXPECT_EQ(arm64.counts.trampolines, 1U);
  const std::string rule = describe(*arm64.table, kAt + 0x3f);
  EXPECT_TRUE(rule.starts_with("8fb00406 r0=[8fb802]")) << rule;  // sp + 560, dereferenced; sp + 312
  EXPECT_TRUE(rule.ends_with("r32=[8fb804] signal")) << rule;     // sp + 568
  EXPECT_EQ(describe(*arm64.table, kAt + 0x48), "");

  elf.machine = Machine::x86_64;
  elf.code = Bytes(kCodeBytes);
  const Bytes x86_code = bytes_of({0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05});
  std::copy(x86_code.begin(), x86_code.end(), elf.code.begin() + 0x40);
  const OwnedTable x86 = table_of(elf);
  EXPECT_TRUE(describe(*x86.table, kAt + 0x48).starts_with("77a00106 r0=[779001]")) << describe(*x86.table, kAt + 0x48);
  // CFI has precedence.
  CfiWriter cfi(kEhFrameAddress);
  cfi.add_fde(kAt + 0x3f, 0x10, {});
  elf.eh_frame = cfi.bytes();
  EXPECT_EQ(describe(*table_of(elf).table, kAt + 0x40), "r7+8 r16=[cfa-8]");
}

}  // namespace
}  // namespace flight::test
