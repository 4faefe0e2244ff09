// SPDX-License-Identifier: Apache-2.0
// The flat table: how a reader treats bytes that it does not trust.
#include <gtest/gtest.h>

#include <random>

#include "libcore/unwind/rule_cache.hpp"
#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

OwnedTable some_table() {
  CfiWriter cfi(kEhFrameAddress);
  for (std::uint64_t i = 0; i < 20; ++i)
    cfi.add_fde(kCodeAddress + i * 0x20, 0x18, bytes_of({0x44, 0x0e, 16, 0x86, 2, 0x44, 0x0f, 3, 0x77, 8, 0x06}));
  TestElf elf;
  elf.eh_frame = cfi.bytes();
  return table_of(elf);
}

TEST(UnwindTable, FindsEachRowAsALinearSearchDoes) {
  CfiWriter cfi(kEhFrameAddress);
  std::uint64_t at = kCodeAddress;
  std::mt19937 random(7);
  std::vector<std::pair<std::uint64_t, std::string>> rows;
  while (at < kCodeAddress + kCodeBytes - 64) {
    const std::uint64_t size = 1 + random() % 30;
    const unsigned offset = 8 + 8 * static_cast<unsigned>(random() % 8);
    cfi.add_fde(at, size, bytes_of({0x0e, offset}));
    rows.emplace_back(at, "r7+" + std::to_string(offset) + " r16=[cfa-8]");
    rows.emplace_back(at + size, "");
    at += size + random() % 3;
  }
  TestElf elf;
  elf.eh_frame = cfi.bytes();
  const OwnedTable table = table_of(elf);
  std::size_t row = 0;
  std::string expected;
  for (std::uint64_t address = kCodeAddress; address < kCodeAddress + kCodeBytes; ++address) {
    for (; row < rows.size() && rows[row].first <= address; ++row) expected = rows[row].second;
    ASSERT_EQ(describe(*table.table, address), expected) << address - kCodeAddress;
  }
}

TEST(UnwindTable, LoadBias) {
  const OwnedTable table = some_table();
  EXPECT_EQ(table->load_bias(0x7f0000001000, kCodeOffset), 0x7f0000001000 - kCodeAddress);
  // Split by mprotect(2), and mapped from an earlier page on.
  EXPECT_EQ(table->load_bias(0x7f0000001800, kCodeOffset + 0x800), 0x7f0000001000 - kCodeAddress);
  EXPECT_EQ(table->load_bias(0x7f0000000000, 0), 0x7f0000001000 - kCodeAddress);
  EXPECT_EQ(table->load_bias(0x7f0000000000, kCodeOffset + kCodeBytes), std::nullopt);
  EXPECT_EQ(table->load_bias(0x7f0000000000, ~std::uint64_t{0}), std::nullopt);
}

TEST(UnwindTable, AFileWithoutCfiHasATableWithoutRows) {
  const OwnedTable table = table_of(TestElf{});
  ASSERT_TRUE(table.table);
  EXPECT_EQ(table->rows(), 0U);
  EXPECT_EQ(table->find(kCodeAddress), kNoRule);
  EXPECT_TRUE(table->load_bias(0, kCodeOffset));
}

TEST(UnwindTable, RefusesOtherBytes) {
  OwnedTable table = some_table();
  const auto bytes = table.bytes();
  EXPECT_TRUE(UnwindTable::parse(bytes));
  EXPECT_FALSE(UnwindTable::parse(bytes.subspan(8)));
  EXPECT_FALSE(UnwindTable::parse(bytes.first(bytes.size() - 1)));
  EXPECT_FALSE(UnwindTable::parse(bytes.first(kTableHeaderBytes - 1)));
  EXPECT_FALSE(UnwindTable::parse({}));
  std::vector<std::uint64_t> shifted(table.storage.size() + 1);
  const auto misaligned = std::as_writable_bytes(std::span(shifted)).subspan(4, bytes.size());
  std::copy(bytes.begin(), bytes.end(), misaligned.begin());
  EXPECT_FALSE(UnwindTable::parse(misaligned));
  for (const std::size_t at : {0U, 8U, 12U, 24U, 28U, 32U, 36U}) {
    const std::byte old = bytes[at];
    bytes[at] ^= std::byte{0x55};
    EXPECT_FALSE(UnwindTable::parse(bytes)) << at;
    bytes[at] = old;
  }
}

// Bytes that change during the read, too: no read goes outside them (ASan), and every read ends.
TEST(UnwindTable, SurvivesAnyBytes) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    OwnedTable table = some_table();
    const auto bytes = table.bytes();
    for (int change = 0; change < 1 + round % 40; ++change)
      bytes[kTableHeaderBytes + random() % (bytes.size() - kTableHeaderBytes)] = static_cast<std::byte>(random());
    for (std::uint64_t address = kCodeAddress - 2; address < kCodeAddress + 0x300; ++address)
      static_cast<void>(describe(*table.table, address));
    for (std::uint32_t index = 0; index < 64; ++index) static_cast<void>(table->rule(index));
    EXPECT_FALSE(table->rule(0xfffffff0));
    UnwindTable::ExpressionBytes out;
    for (std::uint32_t position = 0; position < 300; ++position) static_cast<void>(table->expression(position, out));
  }
}

TEST(RuleCache, DistinguishesTablesAndAddresses) {
  const OwnedTable one = some_table();
  const OwnedTable other = table_of(TestElf{});
  RuleCache cache;
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t address = kCodeAddress; address < kCodeAddress + 0x1000; ++address) {
      ASSERT_EQ(cache.find(*one.table, address), one->find(address));
      ASSERT_EQ(cache.find(*other.table, address), kNoRule);
    }
  }
}

}  // namespace
}  // namespace flight::test
