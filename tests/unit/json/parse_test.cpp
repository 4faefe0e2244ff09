// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/parse.hpp"

#include <gtest/gtest.h>

namespace flight::json {
namespace {

std::string nested(int depth) { return std::string(depth, '[') + std::string(depth, ']'); }

std::string again(std::string_view text) {
  const auto value = parse(text);
  return value ? dump(*value) : value.error().what;
}

TEST(Parse, KeepsOrderAndNumbers) {
  const std::string text = R"({"z":1,"a":[-9223372036854775808,18446744073709551615,1.5,true,null,"é\n"],"m":{}})";
  EXPECT_EQ(again(text), text);
  EXPECT_EQ(again("18446744073709551616"), "1.8446744073709552e+19") << "too large for a whole number";
  const auto value = parse("[-0, 7]");
  ASSERT_TRUE(value);
  EXPECT_EQ(value->items()[0].whole<unsigned>(), 0U);
  EXPECT_EQ(value->items()[1].whole<int>(), 7);
}

TEST(Parse, RefusesWhatIsNoJson) {
  for (const std::string_view text : {"", " ", "{", "[1,]", "{\"a\"}", "1 2", "nul", "'a'", "\"\xff\"", "// x\n1",
                                      "NaN", "1e999", "\"a\nb\"", "{}}", "\xef\xbb"}) {
    const auto value = parse(text);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error().errno_value(), EBADMSG) << text;
    EXPECT_TRUE(parse_or_null(text).is_null()) << text;
  }
}

TEST(Parse, SaysWhereTheTextIsWrong) {
  EXPECT_NE(parse(R"({"a": x})").error().what.find("byte 7 of 8"), std::string::npos);
}

// The library takes it for the end of the text.
TEST(Parse, RefusesANul) {
  EXPECT_FALSE(parse(std::string_view("{}\0{}", 5)));
  EXPECT_FALSE(parse(std::string_view("{}\0", 3)));
  EXPECT_FALSE(parse(std::string_view("{\"a\":\"\0\"}", 9)));
}

TEST(Parse, IsBounded) {
  EXPECT_TRUE(parse(nested(kMaxDepth)));
  EXPECT_FALSE(parse(nested(kMaxDepth + 1)));
  EXPECT_FALSE(parse(std::string(100'000, '[')));
  EXPECT_NE(parse(std::string(100'000, '[')).error().what.find("deeper than 16"), std::string::npos);
  EXPECT_TRUE(parse('"' + std::string(1000, '[') + '"')) << "in a text they are text";
  EXPECT_TRUE(parse("12345", {.max_bytes = 5}));
  const auto large = parse("123456", {.max_bytes = 5});
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().errno_value(), EFBIG);
}

TEST(Parse, OfAKeyGivenTwiceTheLastValueCounts) {
  EXPECT_EQ(again(R"({"a":1,"b":2,"a":3})"), R"({"a":3,"b":2})");
  EXPECT_EQ(again(R"([{"a":1,"a":2,"a":{"x":1,"x":2}}])"), R"([{"a":{"x":2}}])");
  // Also in an object with so many members that they are looked up in another way.
  std::string many = "{", kept = "{";
  for (int i = 0; i < 1000; ++i) {
    many += "\"k" + std::to_string(i) + "\":0,";
    kept += "\"k" + std::to_string(i) + "\":" + (i == 3 || i == 999 ? "5," : "0,");
  }
  kept.back() = '}';
  EXPECT_EQ(again(many + R"("k3":4,"k999":5,"k3":5})"), kept);
}

TEST(Parse, RefusesAKeyGivenTwiceWhereTheyMustDiffer) {
  const Limits limits{.unique_keys = true};
  EXPECT_TRUE(parse(R"({"a":{"a":1},"b":[{"a":1},{"a":1}]})", limits));
  EXPECT_FALSE(parse(R"({"a":1,"a":1})", limits));
  const auto deep = parse(R"({"b":[{"c":{"a":1,"x":2,"a":1}}]})", limits);
  ASSERT_FALSE(deep);
  EXPECT_NE(deep.error().what.find("twice"), std::string::npos);
}

}  // namespace
}  // namespace flight::json
