// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/code_map.hpp"

#include <gtest/gtest.h>

#include "libcore/unwind/machine.hpp"

namespace flight::test {
namespace {

std::uint64_t bias_at(const CodeMap& map, std::uint64_t address) {
  const CodeMapping* mapping = map.find(address);
  return mapping == nullptr ? 0 : mapping->load_bias;
}

TEST(CodeMap, FindsTheMappingThatHoldsAnAddress) {
  const CodeMap map = CodeMap::create({{30, 40, 3}, {10, 20, 1}, {20, 25, 2}, {50, 50, 9}, {60, 55, 9}});
  EXPECT_EQ(map.mappings().size(), 3U);
  EXPECT_EQ(bias_at(map, 9), 0U);
  EXPECT_EQ(bias_at(map, 10), 1U);
  EXPECT_EQ(bias_at(map, 19), 1U);
  EXPECT_EQ(bias_at(map, 20), 2U);
  EXPECT_EQ(bias_at(map, 25), 0U);
  EXPECT_EQ(bias_at(map, 39), 3U);
  EXPECT_EQ(bias_at(map, 40), 0U);
  EXPECT_EQ(bias_at(map, ~std::uint64_t{0}), 0U);
  EXPECT_EQ(CodeMap().find(5), nullptr);
}

TEST(CodeMap, ALaterMappingReplacesWhatItCovers) {
  const CodeMap map = CodeMap::create({{10, 40, 1}, {15, 20, 2}, {18, 30, 3}, {5, 12, 4}, {35, 50, 5}});
  const std::uint64_t expected[] = {4, 4, 1, 2, 3, 3, 1, 5, 5};
  const std::uint64_t addresses[] = {5, 11, 12, 17, 18, 29, 30, 35, 49};
  for (std::size_t i = 0; i < std::size(addresses); ++i)
    EXPECT_EQ(bias_at(map, addresses[i]), expected[i]) << addresses[i];
  EXPECT_EQ(bias_at(CodeMap::create({{10, 20, 1}, {0, 100, 2}}), 15), 2U);
}

TEST(Machine, SampledRegistersByTheirDwarfNumbers) {
  // AX BX CX DX SI DI BP SP IP FLAGS R8: 0..9 and 16.
  const std::vector<std::uint64_t> values = {100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 116};
  const auto registers = registers_of_sample(Machine::x86_64, 0x103ff, values);
  ASSERT_TRUE(registers);
  const std::uint64_t expected[] = {100, 103, 102, 101, 104, 105, 106, 107, 116};
  for (std::size_t number = 0; number < std::size(expected); ++number)
    EXPECT_EQ(registers->values[number], expected[number]);
  EXPECT_EQ(registers->values[16], 108U);
  EXPECT_FALSE(registers->knows(9));
  EXPECT_FALSE(registers_of_sample(Machine::x86_64, 0x203ff, std::span(values).first(10)));
  EXPECT_FALSE(registers_of_sample(Machine::x86_64, 0xff, values));  // no ip
  EXPECT_EQ(sample_register_mask(Machine::x86_64), 0xff01ffU);
  EXPECT_EQ(sample_register_mask(Machine::arm64), 0x1ffffffffU);
  EXPECT_TRUE(registers_of_sample(Machine::arm64, 0x1ffffffff, std::vector<std::uint64_t>(33)));
}

}  // namespace
}  // namespace flight::test
