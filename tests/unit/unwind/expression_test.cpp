// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/expression.hpp"

#include <gtest/gtest.h>

#include <array>

#include "tests/unit/unwind/byte_writer.hpp"

namespace flight::test {
namespace {

constexpr std::array<std::uint64_t, 2> kStack = {0x1111, 0x2222};

ExpressionValue run(const Bytes& expression, std::optional<std::uint64_t> first = std::nullopt) {
  UnwindRegisters registers;
  registers.set(7, 0x1000);
  registers.set(16, 0x40101b);
  const StackCopy stack{0x1000, std::as_bytes(std::span(kStack))};
  return evaluate(expression, registers, stack, first);
}

TEST(Expression, ProcedureLinkageTable) {
  // GNU ld: rsp + 8, and 8 more after the push, which begins at byte 11 of an entry of 16.
  const Bytes plt = bytes_of({0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22});
  EXPECT_EQ(run(plt).value, 0x1010U);
  UnwindRegisters registers;
  registers.set(7, 0x1000);
  registers.set(16, 0x40101a);
  EXPECT_EQ(evaluate(plt, registers, {}, std::nullopt).value, 0x1008U);
}

TEST(Expression, EachOperation) {
  EXPECT_EQ(run(bytes_of({0x77, 8, 0x06})).value, 0x2222U);                    // breg7, deref
  EXPECT_EQ(run(bytes_of({0x92, 7, 0x78})).value, 0xff8U);                     // bregx
  EXPECT_EQ(run(bytes_of({0x08, 0xff})).value, 0xffU);                         // const1u
  EXPECT_EQ(run(bytes_of({0x09, 0xff})).value, ~std::uint64_t{0});             // const1s
  EXPECT_EQ(run(bytes_of({0x0a, 1, 2})).value, 0x201U);                        // const2u
  EXPECT_EQ(run(bytes_of({0x0b, 0xfe, 0xff})).value, ~std::uint64_t{1});       // const2s
  EXPECT_EQ(run(bytes_of({0x0c, 1, 0, 0, 0x80})).value, 0x80000001U);          // const4u
  EXPECT_EQ(run(bytes_of({0x0d, 1, 0, 0, 0x80})).value, 0xffffffff80000001U);  // const4s
  EXPECT_EQ(run(bytes_of({0x0e, 1, 0, 0, 0, 0, 0, 0, 0x80})).value, 0x8000000000000001U);
  EXPECT_EQ(run(bytes_of({0x0f, 1, 0, 0, 0, 0, 0, 0, 0x80})).value, 0x8000000000000001U);
  EXPECT_EQ(run(bytes_of({0x10, 0x81, 1})).value, 129U);                        // constu
  EXPECT_EQ(run(bytes_of({0x11, 0x7f})).value, ~std::uint64_t{0});              // consts
  EXPECT_EQ(run(bytes_of({0x33, 0x12, 0x22})).value, 6U);                       // dup, plus
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x13})).value, 3U);                       // drop
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x14})).value, 3U);                       // over
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x35, 0x15, 2})).value, 3U);              // pick
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x16})).value, 3U);                       // swap
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x1c})).value, ~std::uint64_t{0});        // minus
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x1e})).value, 12U);                      // mul
  EXPECT_EQ(run(bytes_of({0x33, 0x1f})).value, ~std::uint64_t{2});              // neg
  EXPECT_EQ(run(bytes_of({0x33, 0x20})).value, ~std::uint64_t{3});              // not
  EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x21})).value, 7U);                       // or
  EXPECT_EQ(run(bytes_of({0x33, 0x36, 0x27})).value, 5U);                       // xor
  EXPECT_EQ(run(bytes_of({0x33, 0x23, 0x80, 1})).value, 131U);                  // plus_uconst
  EXPECT_EQ(run(bytes_of({0x34, 0x31, 0x25})).value, 2U);                       // shr
  EXPECT_EQ(run(bytes_of({0x34, 0x1f, 0x31, 0x26})).value, ~std::uint64_t{1});  // shra
  EXPECT_EQ(run(bytes_of({0x34, 0x08, 64, 0x24})).value, 0U);                   // shl by too much
  EXPECT_EQ(run(bytes_of({0x34, 0x1f, 0x08, 200, 0x26})).value, ~std::uint64_t{0});
  EXPECT_EQ(run(bytes_of({0x33, 0x96})).value, 3U);  // nop
  // 3 and 4, signed: eq ge gt le lt ne
  const std::array<std::uint64_t, 6> compared = {0, 0, 0, 1, 1, 1};
  for (unsigned op = 0; op < compared.size(); ++op)
    EXPECT_EQ(run(bytes_of({0x33, 0x34, 0x29 + op})).value, compared[op]);
  EXPECT_EQ(run(bytes_of({0x09, 0xff, 0x33, 0x2d})).value, 1U);
  EXPECT_EQ(run(bytes_of({0x23, 8}), 0x500).value, 0x508U);  // the CFA is on the stack
}

TEST(Expression, RefusesWhatItCannotEvaluate) {
  const auto fault = [](const Bytes& expression) {
    const ExpressionValue value = run(expression);
    EXPECT_FALSE(value.value);
    return value.fault;
  };
  EXPECT_EQ(fault({}), ExpressionFault::refused);
  EXPECT_EQ(fault(bytes_of({0x22})), ExpressionFault::refused);        // nothing to add
  EXPECT_EQ(fault(bytes_of({0x33, 0x13})), ExpressionFault::refused);  // nothing left
  EXPECT_EQ(fault(bytes_of({0x76, 0})), ExpressionFault::refused);     // rbp is not known
  EXPECT_EQ(fault(bytes_of({0x92, 0xff, 0xff, 3, 0})), ExpressionFault::refused);
  EXPECT_EQ(fault(bytes_of({0x33, 0x15, 9})), ExpressionFault::refused);
  EXPECT_EQ(fault(bytes_of({0x2f, 0xfd, 0xff})), ExpressionFault::refused);        // skip: backwards, for ever
  EXPECT_EQ(fault(bytes_of({0x33, 0x28, 0xfc, 0xff})), ExpressionFault::refused);  // bra
  EXPECT_EQ(fault(bytes_of({0x0e, 1})), ExpressionFault::refused);                 // cut
  EXPECT_EQ(fault(Bytes(kMaxExpressionStack + 1, std::byte{0x31})), ExpressionFault::refused);
  EXPECT_EQ(fault(bytes_of({0x77, 9, 0x06})), ExpressionFault::outside_memory);
  EXPECT_EQ(fault(bytes_of({0x77, 0x7f, 0x06})), ExpressionFault::outside_memory);
}

}  // namespace
}  // namespace flight::test
