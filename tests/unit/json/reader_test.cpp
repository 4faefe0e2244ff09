// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/json/parse.hpp"

namespace flight::json {

enum class Colour { red, green };
std::string_view to_string(Colour colour) { return colour == Colour::red ? "red" : "green"; }

namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The error of reading `text` with `read`; empty if there is none.
std::string error_of(std::string_view text, const std::function<void(const Reader&)>& read,
                     Missing missing = Missing::keeps_default) {
  const Value value = parse_or_null(text);
  const auto done = read_object(value, missing, read);
  if (done) return "";
  EXPECT_EQ(done.error().errno_value(), EBADMSG);
  return done.error().what;
}

// The error of reading the member "x" of `text` into a T.
template <typename T>
std::string error_of_x(std::string_view text) {
  T out{};
  return error_of(text, [&](const Reader& in) { in.read("x", out); });
}

TEST(Reader, ReadsEveryType) {
  bool flag = false;
  double number = 0;
  std::string text, needed;
  std::optional<double> null_number, other_number;
  std::optional<std::string> null_text, other_text;
  std::uint64_t large = 0;
  std::int32_t small = 0;
  int cpu = 0;
  Colour colour = Colour::red;
  std::vector<std::string> texts;
  std::vector<std::int32_t> numbers;
  std::map<std::string, std::string> formats;
  const std::string error = error_of(
      R"({"flag":true,"number":1,"text":"a","needed":"b","null":null,"set":2.5,"word":"green","set_text":"c",
          "large":18446744073709551615,"small":-2147483648,"cpu":7,"texts":["x","y"],"numbers":[-1,2],
          "formats":{"f":"g"},"unknown":[1]})",
      [&](const Reader& in) {
        in.read("flag", flag);
        in.read("number", number);
        in.read("text", text);
        in.need("needed", needed);
        in.read("null", null_number);
        in.read("null", null_text);
        in.read("set", other_number);
        in.read("set_text", other_text);
        in.read("large", large);
        in.read("small", small);
        in.count("cpu", cpu, 7);
        in.word("word", {Colour::red, Colour::green}, colour);
        in.values("texts", texts);
        in.values("numbers", numbers, 2);
        in.texts("formats", formats);
      });
  EXPECT_EQ(error, "");
  EXPECT_TRUE(flag);
  EXPECT_EQ(number, 1.0);
  EXPECT_EQ(text + needed, "ab");
  EXPECT_FALSE(null_number || null_text);
  EXPECT_EQ(other_number, 2.5);
  EXPECT_EQ(other_text, "c");
  EXPECT_EQ(large, UINT64_MAX);
  EXPECT_EQ(small, INT32_MIN);
  EXPECT_EQ(cpu, 7);
  EXPECT_EQ(colour, Colour::green);
  EXPECT_EQ(texts, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{-1, 2}));
  EXPECT_EQ(formats.at("f"), "g");
}

TEST(Reader, RefusesAnotherTypeOrRange) {
  for (const char* wrong : {R"({"x":null})", R"({"x":{}})", R"({"x":[]})"}) {
    EXPECT_THAT(error_of_x<bool>(wrong), AllOf(StartsWith("x "), HasSubstr("true or false"))) << wrong;
    EXPECT_THAT(error_of_x<double>(wrong), AllOf(StartsWith("x "), HasSubstr("a number"))) << wrong;
    EXPECT_THAT(error_of_x<std::string>(wrong), AllOf(StartsWith("x "), HasSubstr("a text"))) << wrong;
    EXPECT_NE(error_of_x<int>(wrong), "") << wrong;
  }
  EXPECT_NE(error_of_x<std::optional<double>>(R"({"x":"1"})"), "");
  EXPECT_NE(error_of_x<std::optional<std::string>>(R"({"x":1})"), "");
  for (const char* wrong : {"-1", "1.0", "1e3", "\"1\"", "4294967296", "99999999999999999999"})
    EXPECT_THAT(error_of_x<std::uint32_t>(fmt::format(R"({{"x":{}}})", wrong)),
                AllOf(StartsWith("x "), HasSubstr("whole number"), EndsWith(" 0 to 4294967295")));
  EXPECT_EQ(error_of_x<std::uint64_t>(R"({"x":18446744073709551615})"), "");
  EXPECT_NE(error_of_x<std::int64_t>(R"({"x":9223372036854775808})"), "");
  EXPECT_EQ(error_of_x<std::int64_t>(R"({"x":-9223372036854775808})"), "");
  EXPECT_NE(error_of_x<std::int32_t>(R"({"x":-2147483649})"), "");
}

TEST(Reader, RefusesWhatIsMoreThanTheMost) {
  int cpu = 5;
  const auto read_cpu = [&](const Reader& in) { in.count("cpu", cpu, 65535); };
  for (const char* wrong : {R"({"cpu":65536})", R"({"cpu":-1})", R"({"cpu":"7"})"})
    EXPECT_THAT(error_of(wrong, read_cpu),
                AllOf(StartsWith("cpu "), HasSubstr("whole number"), EndsWith(" 0 to 65535")));
  EXPECT_EQ(cpu, 5);
  std::vector<std::uint64_t> ids;
  EXPECT_THAT(error_of(R"({"ids":[1,2,3]})", [&](const Reader& in) { in.values("ids", ids, 2); }),
              AllOf(StartsWith("ids "), HasSubstr("list"), EndsWith("at most 2")));
  EXPECT_NE(error_of(R"({"ids":[1,-2]})", [&](const Reader& in) { in.values("ids", ids); }), "");
  std::map<std::string, std::string> texts;
  EXPECT_NE(error_of(R"({"x":{"a":"b","c":"d"}})", [&](const Reader& in) { in.texts("x", texts, 1); }), "");
  EXPECT_NE(error_of(R"({"x":{"a":1}})", [&](const Reader& in) { in.texts("x", texts); }), "");
  Colour colour = Colour::red;
  EXPECT_THAT(error_of(R"({"c":"blue"})",
                       [&](const Reader& in) {
                         in.word("c", {Colour::red, Colour::green}, colour);
                       }),
              AllOf(StartsWith("c "), HasSubstr("one of"), EndsWith(" red, green")));
}

TEST(Reader, NamesThePlaceAndKeepsTheFirstError) {
  struct Ring {
    int cpu = 0;
  };
  std::vector<Ring> rings;
  int other = 0;
  const auto read = [&](const Reader& in) {
    in.object("store", [&](const Reader& store) {
      store.list("rings", rings, [](const Reader& ring, Ring& out) { ring.read("cpu", out.cpu); });
    });
    in.read("other", other);
  };
  EXPECT_THAT(
      error_of(R"({"other":"x","store":{"rings":[{"cpu":1},{"cpu":2},{"cpu":true},{"cpu":"x"}]}})", read),
      AllOf(StartsWith("store.rings[2].cpu "), HasSubstr("whole number"), EndsWith(" -2147483648 to 2147483647")));
  EXPECT_THAT(error_of(R"({"store":{"rings":[{},7]}})", read),
              AllOf(StartsWith("store.rings[1] "), HasSubstr("object")));
  EXPECT_THAT(error_of(R"({"store":{"rings":{}}})", read), AllOf(StartsWith("store.rings "), HasSubstr("list")));
  EXPECT_THAT(error_of(R"({"store":[]})", read), AllOf(StartsWith("store "), HasSubstr("object")));
  EXPECT_EQ(error_of(R"({"store":null,"other":8})", read), "");
  EXPECT_EQ(other, 8);
  EXPECT_THAT(error_of("7", read), AllOf(HasSubstr("object"), Not(HasSubstr("store"))));
  EXPECT_EQ(error_of("{}", [](const Reader& in) { in.refuse("it has no event"); }), "it has no event");
}

TEST(Reader, AMissingMemberKeepsItsDefaultOrIsAnError) {
  std::uint64_t count = 7;
  std::string text = "there";
  const auto read = [&](const Reader& in) {
    in.read("count", count);
    in.object("inner", [&](const Reader& inner) { inner.read("text", text); });
  };
  EXPECT_EQ(error_of(R"({"inner":{}})", read), "");
  EXPECT_EQ(count, 7U);
  EXPECT_EQ(text, "there");
  EXPECT_EQ(error_of(R"({"inner":{}})", read, Missing::is_an_error), "'count' is missing");
  EXPECT_EQ(error_of(R"({"count":1,"inner":{}})", read, Missing::is_an_error), "inner: 'text' is missing");
  EXPECT_THAT(error_of(R"({"count":1,"inner":null})", read, Missing::is_an_error),
              AllOf(StartsWith("inner "), HasSubstr("object")));
  std::string needed;
  for (const char* wrong : {"{}", R"({"id":""})", R"({"id":1})"})
    EXPECT_NE(error_of(wrong, [&](const Reader& in) { in.need("id", needed); }), "") << wrong;
}

TEST(Reader, ReadsObjectsOfNumbers) {
  std::vector<std::pair<std::string, std::vector<double>>> out;
  EXPECT_EQ(error_of(R"({"b":[1,2.5,null],"a":[]})", [&](const Reader& in) { in.all_numbers(out); }), "");
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].first, "b");
  EXPECT_EQ(out[0].second[1], 2.5);
  EXPECT_TRUE(std::isnan(out[0].second[2]));
  for (const char* wrong : {R"({"b":1})", R"({"b":["1"]})"})
    EXPECT_THAT(error_of(wrong, [&](const Reader& in) { in.all_numbers(out); }),
                AllOf(StartsWith("b "), HasSubstr("list of numbers")));
}

TEST(Reader, ReadsAListOfObjects) {
  std::vector<int> ids;
  const auto read = [&](const Reader& in) { in.read("id", ids.emplace_back()); };
  EXPECT_TRUE(read_list(parse_or_null(R"([{"id":1},{"id":2}])"), Missing::keeps_default, read));
  EXPECT_EQ(ids, (std::vector<int>{1, 2}));
  const auto wrong = read_list(parse_or_null(R"([{"id":1},{"id":"2"}])"), Missing::keeps_default, read);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().what.substr(0, 6), "[1].id");
  EXPECT_FALSE(read_list(parse_or_null("{}"), Missing::keeps_default, read));
}

}  // namespace
}  // namespace flight::json
