// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/record_messages.hpp"

#include <gtest/gtest.h>

namespace flight {
namespace {

TEST(RecordParametersTest, GoThereAndBack) {
  EXPECT_EQ(to_json(RecordParameters{}), "{}");
  const RecordParameters all{.past_ns = 5,
                             .for_ns = 6,
                             .max_bytes = 7U << 20U,
                             .part_bytes = 2U << 20U,
                             .channels = {"stacks", "sched"},
                             .layout = "directory",
                             .reason = "slow"};
  const auto back = parse_record_parameters(to_json(all));
  ASSERT_TRUE(back) << back.error().parameters;
  EXPECT_EQ(back->past_ns, all.past_ns);
  EXPECT_EQ(back->for_ns, all.for_ns);
  EXPECT_EQ(back->max_bytes, all.max_bytes);
  EXPECT_EQ(back->part_bytes, all.part_bytes);
  EXPECT_EQ(back->channels, all.channels);
  EXPECT_EQ(back->layout, all.layout);
  EXPECT_EQ(back->reason, all.reason);
  const auto none = parse_record_parameters(R"({"for_ns":null,"channels":null})");
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->for_ns);
  EXPECT_TRUE(none->channels.empty());
  EXPECT_FALSE(none->layout);
}

TEST(RecordParametersTest, BlamesTheOneThatIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"past":1})", "past"},
      {R"({"past_ns":-1})", "past_ns"},
      {R"({"past_ns":1.5})", "past_ns"},
      {R"({"past_ns":18446744073709551615})", "past_ns"},
      {R"({"for_ns":0})", "for_ns"},
      {R"({"for_ns":"1s"})", "for_ns"},
      {R"({"max_bytes":1})", "max_bytes"},
      {R"({"part_bytes":4096})", "part_bytes"},
      {R"({"part_bytes":2147483648})", "part_bytes"},
      {R"({"channels":"stacks"})", "channels"},
      {R"({"channels":[1]})", "channels"},
      {R"({"layout":"folder"})", "layout"},
      {R"({"layout":1})", "layout"},
      {R"({"reason":"a\u001b[2J"})", "reason"},
  };
  for (const auto& [text, blamed] : cases) {
    const auto refused = parse_record_parameters(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(member(refused.error().parameters, "parameter"), "\"" + blamed + "\"") << text;
  }
}

// The same text as for people: flightctl replaces only the name.
TEST(RecordParametersTest, LimitsAreAsPeopleTypeThem) {
  const auto said = [](const std::string& text) {
    const auto refused = parse_record_parameters(text);
    return refused ? std::string() : member(refused.error().parameters, "message");
  };
  EXPECT_EQ(said(R"({"part_bytes":5368709120})"), "\"'part_bytes' must be from 1M to 1G\"");
  EXPECT_EQ(said(R"({"part_bytes":1024})"), "\"'part_bytes' must be from 1M to 1G\"");
  EXPECT_EQ(said(R"({"max_bytes":0})"), "\"'max_bytes' must be from 1M to 1073741824G\"");
  EXPECT_EQ(said(R"({"max_bytes":"1M"})"), "\"'max_bytes' must be a whole number of bytes, not negative\"");
  EXPECT_EQ(said(R"({"past_ns":40000000000000000})"), "\"'past_ns' may be at most 366 days\"");
  EXPECT_EQ(said(R"({"for_ns":40000000000000000})"), "\"'for_ns' may be at most 366 days\"");
  EXPECT_EQ(said(R"({"part_bytes":1073741824,"max_bytes":1048576})"), "");
}

TEST(RecordReplies, StepsAreReadAsTheyAreWritten) {
  const auto first = parse_record_step(record_reply("12", std::nullopt));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->id, "12");
  EXPECT_FALSE(first->progress);
  const RecordProgress some{.seconds = 1.5, .bytes = 2, .events = 3, .lost = 4, .parts = 5, .finished = {"12", "13"}};
  const auto step = parse_record_step(record_reply("12", some));
  ASSERT_TRUE(step && step->progress);
  EXPECT_EQ(step->progress->seconds, 1.5);
  EXPECT_EQ(step->progress->bytes, 2U);
  EXPECT_EQ(step->progress->events, 3U);
  EXPECT_EQ(step->progress->lost, 4U);
  EXPECT_EQ(step->progress->parts, 5U);
  EXPECT_EQ(step->progress->finished, some.finished);
  EXPECT_FALSE(parse_record_step(R"({"recording":{}})"));
  EXPECT_FALSE(parse_record_step(R"({"id":"12","progress":{"parts":"x"}})"));
}

TEST(RecordReplies, TheResultIsReadAsItIsWritten) {
  const RecordResult result{.id = "12",
                            .ended = "max_size",
                            .progress = {.seconds = 2, .bytes = 9, .events = 0, .lost = 0, .parts = 1, .finished = {}},
                            .paths = {"/s/a.perf.data"},
                            .warnings = {"one"}};
  const auto back = parse_record_result(member(recording_reply(to_json(result)), "recording"));
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(back->id, "12");
  EXPECT_EQ(back->ended, "max_size");
  EXPECT_EQ(back->progress.bytes, 9U);
  EXPECT_EQ(back->paths, result.paths);
  EXPECT_EQ(back->warnings, result.warnings);
  EXPECT_FALSE(parse_record_result("{}"));
  EXPECT_FALSE(parse_record_result("[]"));
}

}  // namespace
}  // namespace flight
