// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/value.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace flight::json {
namespace {

TEST(Value, KeepsWholeNumbersWhole) {
  EXPECT_EQ(Value(UINT64_MAX).whole<std::uint64_t>(), UINT64_MAX);
  EXPECT_EQ(Value(INT64_MIN).whole<std::int64_t>(), INT64_MIN);
  EXPECT_EQ(Value(UINT64_MAX).whole<std::int64_t>(), std::nullopt);
  EXPECT_EQ(Value(-1).whole<std::uint64_t>(), std::nullopt);
  EXPECT_EQ(Value(65536).whole<std::uint16_t>(), std::nullopt);
  EXPECT_EQ(Value(65535).whole<std::uint16_t>(), 65535);
  EXPECT_EQ(Value(1.0).whole<int>(), std::nullopt) << "written with a fraction, it is none";
  EXPECT_EQ(Value(1).number(), 1.0);
  EXPECT_EQ(Value(-7).number(), -7.0);
  EXPECT_EQ(Value(2.5).number(), 2.5);
}

TEST(Value, OfAnotherTypeMeansNotThere) {
  const Value text("x"), flag(true), number(1), null;
  EXPECT_EQ(text.number(), std::nullopt);
  EXPECT_EQ(text.flag(), std::nullopt);
  EXPECT_EQ(flag.whole<int>(), std::nullopt);
  EXPECT_EQ(number.text(), nullptr);
  EXPECT_EQ(number.text_or_empty(), "");
  EXPECT_EQ(number.find("x"), nullptr);
  EXPECT_TRUE(number.at("x").at("y").is_null());
  EXPECT_TRUE(number.items().empty());
  EXPECT_TRUE(number.members().empty());
  EXPECT_TRUE(null.is_null());
  EXPECT_FALSE(flag.is_null());
  EXPECT_EQ(flag.flag(), true);
}

struct OneCpu {
  int cpu = 0;
};
struct OneTime {
  int begin = 0;
};
Object shown(const OneCpu& ring) { return {{"cpu", ring.cpu}}; }
Object shown(const OneTime& hole) { return {{"begin", hole.begin}}; }

TEST(Value, AnArrayIsMadeByTheFunctionForItsItems) {
  const std::vector<OneCpu> rings{{.cpu = 3}, {.cpu = 4}};
  const std::vector<OneTime> holes{{.begin = 7}};
  const Value value(Object{{"rings", objects_of(rings, shown)}, {"holes", objects_of(holes, shown)}});
  EXPECT_EQ(dump(value), R"({"rings":[{"cpu":3},{"cpu":4}],"holes":[{"begin":7}]})");
  EXPECT_EQ(dump(objects_of(std::vector<OneCpu>(), shown)), "[]");
}

TEST(Value, IsMadeOfWhatItIsGiven) {
  const std::optional<std::string> none;
  const std::vector<int> cpus{0, 3};
  const Value value(Object{{"id", "7"},
                           {"none", none},
                           {"cpus", cpus},
                           {"no", std::vector<std::string>{}},
                           {"window", Object{{"seconds", 2.5}, {"open", false}}}});
  EXPECT_EQ(dump(value), R"({"id":"7","none":null,"cpus":[0,3],"no":[],"window":{"seconds":2.5,"open":false}})");
  EXPECT_EQ(value.at("window").at("seconds").number(), 2.5);
  ASSERT_EQ(value.members().size(), 5U);
  EXPECT_EQ(value.members()[2].key, "cpus");
  EXPECT_EQ(value.at("cpus").items()[1].whole<int>(), 3);
}

}  // namespace
}  // namespace flight::json
