// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/control/messages.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') + std::string(static_cast<std::size_t>(levels), ']');
}

TEST(Varlink, CallsGoThereAndBack) {
  for (const bool more : {false, true}) {
    for (const bool oneway : {false, true}) {
      const Call call{"io.flightd.Recorder.\"odd\"", R"({"a":[1,2,{"b":"é"}]})", more, oneway, !more};
      const std::string message = encode(call);
      ASSERT_EQ(message.find('\0'), message.size() - 1);
      const auto back = parse_call(message.substr(0, message.size() - 1));
      ASSERT_TRUE(back) << back.error().what;
      EXPECT_EQ(back->method, call.method);
      EXPECT_EQ(back->parameters, call.parameters);
      EXPECT_EQ(back->more, call.more);
      EXPECT_EQ(back->oneway, call.oneway);
      EXPECT_EQ(back->upgrade, call.upgrade);
    }
  }
}

TEST(Varlink, RepliesGoThereAndBack) {
  for (const auto& reply :
       {Reply{R"({"x":1})", "", true}, Reply{R"({"message":"no"})", "a.b.C", false}, Reply{"{}", "", false}}) {
    const std::string message = encode(reply);
    ASSERT_EQ(message.find('\0'), message.size() - 1);
    const auto back = parse_reply(message.substr(0, message.size() - 1));
    ASSERT_TRUE(back) << back.error().what;
    EXPECT_EQ(back->parameters, reply.parameters);
    EXPECT_EQ(back->error, reply.error);
    EXPECT_EQ(back->continues, reply.continues);
  }
}

TEST(Varlink, MissingOrNullMembersHaveDefaults) {
  for (const char* text : {R"({"method":"a.b"})", R"({"method":"a.b","parameters":null,"more":null,"upgrade":null})"}) {
    const auto call = parse_call(text);
    ASSERT_TRUE(call);
    EXPECT_EQ(call->parameters, "{}");
    EXPECT_FALSE(call->more || call->oneway || call->upgrade);
  }
  // An unknown member, perhaps of a later Varlink, is ignored.
  EXPECT_TRUE(parse_call(R"({"method":"a.b","later":[1]})"));
  EXPECT_EQ(parse_reply("{}")->parameters, "{}");
}

TEST(Varlink, RefusesWhatIsNoMessage) {
  const std::vector<std::string> broken{"",
                                        " ",
                                        "x",
                                        "[]",
                                        "1",
                                        "null",
                                        "\"a\"",
                                        "{",
                                        "{}}",
                                        "{\"method\":}",
                                        R"({"method":"a.b"} {})",
                                        R"({"method":1})",
                                        R"({"method":null})",
                                        R"({"method":"a","parameters":1})",
                                        R"({"method":"a","parameters":"x"})",
                                        R"({"method":"a","more":1})",
                                        "{\"method\":\"\xc3\"}",
                                        "{\"method\":\"\xed\xa0\x80\"}",
                                        R"({"method":"\ud800"})",
                                        std::string("{\"method\":\"a\0b\"}", 16),
                                        R"({"method":"a","parameters":{"x":1e999}})",
                                        R"({"method":"a","parameters":{"x":)" + nested(10'000) + "}}",
                                        std::string(10'000, '['),
                                        std::string(60'000, '{')};
  for (const std::string& text : broken) {
    SCOPED_TRACE(text.substr(0, 50));
    const auto call = parse_call(text);
    ASSERT_FALSE(call);
    EXPECT_EQ(call.error().errno_value(), EBADMSG);
  }
  for (const char* text : {"[]", R"({"error":1})", R"({"error":""})", R"({"continues":1})", R"({"parameters":[]})"})
    EXPECT_FALSE(parse_reply(text)) << text;
}

TEST(Varlink, EveryPrefixAndEveryFlippedByteIsSurvived) {
  const std::string message =
      R"({"method":"io.flightd.Recorder.TakeSnapshot","parameters":{"reason":"é\n","last_usec":1000},"more":true})";
  for (std::size_t end = 0; end < message.size(); ++end) EXPECT_FALSE(parse_call(message.substr(0, end)));
  for (std::size_t at = 0; at < message.size(); ++at) {
    for (const int flip : {0x01, 0x20, 0x80, 0xff}) {
      std::string changed = message;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      if (const auto call = parse_call(changed)) static_cast<void>(parse_snapshot_parameters(call->parameters));
    }
  }
}

TEST(Varlink, BytesThatAreNoUtf8LeaveAsReplacementCharacters) {
  const CallError error = write_failed(5, "/tmp/\xff", "cannot write \xfe");
  const auto back = parse_reply([&] {
    std::string text = encode(Reply{error.parameters, error.name, false});
    text.pop_back();
    return text;
  }());
  ASSERT_TRUE(back) << back.error().what;
  EXPECT_EQ(error_message(*back), "cannot write \xef\xbf\xbd");
}

TEST(Varlink, AnErrorWithoutAMessageIsShownByItsName) {
  for (const char* parameters : {"{}", "[]", "", "nonsense", R"({"message":7})", R"({"message":""})"})
    EXPECT_EQ(error_message({parameters, "a.b.C", false}), "a.b.C") << parameters;
  EXPECT_THAT(no_such_snapshot("latest").parameters, HasSubstr("there is no snapshot yet"));
}

}  // namespace
}  // namespace flight
