// SPDX-License-Identifier: Apache-2.0
#include "libcore/json/events.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace flight::json {
namespace {

// Records the calls that it gets, with the line if there is one. Stops before `stop`.
class Log : public Events {
 public:
  explicit Log(const int* line = nullptr, std::string stop = "") : line_(line), stop_(std::move(stop)) {}
  std::string all;

  bool null() override { return note("null"); }
  bool flag(bool value) override { return note(value ? "true" : "false"); }
  bool whole(std::uint64_t value) override { return note(fmt::format("{}u", value)); }
  bool negative(std::int64_t value) override { return note(fmt::format("{}i", value)); }
  bool number(double value) override { return note(fmt::format("{}d", value)); }
  bool text(std::string& value) override { return note('"' + value + '"'); }
  bool key(std::string& name) override { return note(name + ':'); }
  bool begin_object() override { return note("{"); }
  bool end_object() override { return note("}"); }
  bool begin_array() override { return note("["); }
  bool end_array() override { return note("]"); }

 private:
  bool note(const std::string& what) {
    if (what == stop_) return false;
    all += (all.empty() ? "" : " ") + what;
    if (line_ != nullptr) all += fmt::format("@{}", *line_);
    return true;
  }
  const int* line_;
  std::string stop_;
};

TEST(Events, ComeInTheOrderOfTheText) {
  Log log;
  const Outcome outcome = read_events(R"({"a":[1,-1,1.5,18446744073709551616],"b":{"c":null,"d":"x"},"e":true})", log);
  EXPECT_TRUE(outcome.complete);
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(log.all, "{ a: [ 1u -1i 1.5d 1.8446744073709552e+19d ] b: { c: null d: \"x\" } e: true }");
}

TEST(Events, KnowTheirLines) {
  int line = 0;
  Log log(&line);
  const Outcome outcome = read_commented_events("// first\n{\"a\": /* x\n */ 1,\n\n\"b\": [2\n]\n}\n", log, line);
  EXPECT_TRUE(outcome.complete) << outcome.fault;
  EXPECT_EQ(log.all, "{@2 a:@2 1u@3 b:@5 [@5 2u@5 ]@6 }@7");
}

TEST(Events, AFaultSaysHowFarTheTextWasRead) {
  Log log;
  const Outcome outcome = read_events(R"({"a": x})", log);
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.consumed, 7U);
  EXPECT_NE(outcome.fault, "");
  EXPECT_EQ(log.all, "{ a:");
  int line = 0;
  const Outcome commented = read_commented_events("{\n\"a\": x}", log, line);
  EXPECT_FALSE(commented.complete);
  EXPECT_EQ(commented.consumed, 8U);
  EXPECT_FALSE(read_events("// x\n{}", log).complete) << "comments are of the other function";
}

TEST(Events, FalseStopsTheReading) {
  Log log(nullptr, "b:");
  const Outcome outcome = read_events(R"({"a":1,"b":2)", log);
  EXPECT_FALSE(outcome.complete);
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(log.all, "{ a: 1u");
}

TEST(Events, ANulIsAFault) {
  Log log;
  int line = 0;
  const std::string_view text("{}\0{}", 5);
  EXPECT_EQ(read_events(text, log).consumed, 3U);
  EXPECT_FALSE(read_events(text, log).complete);
  EXPECT_NE(read_commented_events(text, log, line).fault, "");
}

}  // namespace
}  // namespace flight::json
