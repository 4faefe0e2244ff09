// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/nearest_word.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace flight {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::vector<std::string> kCommands{"status", "snapshot", "list", "info", "remove"},
    kOptions{"--since", "--until", "-n"};

TEST(NearestWord, IsTheOneWithTheFewestEdits) {
  EXPECT_EQ(nearest_word("snapsht", {"status", "snapshot", "list"}), "snapshot");
  EXPECT_EQ(nearest_word("snap", {"status", "snapshot", "list"}), "snapshot") << "cut short";
  EXPECT_EQ(nearest_word("xyzzy", {"status", "snapshot"}), "");
  EXPECT_EQ(nearest_word("x", {}), "");
  EXPECT_EQ(nearest_word("max_usage", {"max_age", "max_use"}), "max_use") << "as many edits, but a longer common begin";
  EXPECT_EQ(nearest_text("chanels", {"user", "channels"}), "; the nearest is 'channels'");
  EXPECT_EQ(nearest_text("sched", {"default"}), "");
  EXPECT_THAT(with_help("too many arguments", "flightd"),
              AllOf(StartsWith("too many arguments; "), EndsWith(" flightd --help")));
  EXPECT_THAT(with_help("did you mean 'x'?", "flightd"),
              AllOf(StartsWith("did you mean 'x'? "), EndsWith(" flightd --help")));
}

TEST(UnknownWords, SuggestWhatWasMeant) {
  EXPECT_THAT(unknown_words({"snapsht"}, kOptions, kCommands),
              AllOf(HasSubstr("no command 'snapsht'"), HasSubstr("mean 'snapshot'")));
  EXPECT_THAT(unknown_words({"--sinc=x"}, kOptions, kCommands),
              AllOf(HasSubstr("no option '--sinc'"), HasSubstr("mean '--since'")));
  EXPECT_THAT(unknown_words({"frobnicate"}, kOptions, kCommands), EndsWith("no command 'frobnicate'"));
  EXPECT_THAT(unknown_words({"--frobnicate"}, kOptions, {}), EndsWith("no option '--frobnicate'"));
  EXPECT_THAT(unknown_words({"-x"}, kOptions, {}), EndsWith("no option '-x'"));
}

TEST(UnknownWords, OfACommandStandBehindIt) {
  EXPECT_THAT(unknown_words({"lst"}, {}, {"list", "test"}, "triggers"),
              AllOf(HasSubstr("no command 'triggers lst'"), HasSubstr("mean 'triggers list'")));
  EXPECT_THAT(unknown_words({"--sinc"}, kOptions, {}, "triggers"),
              AllOf(HasSubstr("no option '--sinc'"), HasSubstr("mean '--since'"), Not(HasSubstr("triggers"))));
}

TEST(UsageText, AMissingValueHasAPlainMessage) {
  EXPECT_THAT(usage_text("--host: 1 required HOST missing"),
              AllOf(StartsWith("--host "), HasSubstr("value"), EndsWith(": HOST"), Not(HasSubstr("required"))));
  EXPECT_EQ(usage_text("--unit: At Most 1 required but received 2"), "--unit can be given only once");
  EXPECT_EQ(usage_text("--until requires --since"), "--until requires --since");
  EXPECT_EQ(usage_text(""), "");
}

TEST(UnknownWords, AreNamedInTheTypedOrder) {
  EXPECT_THAT(unknown_words({"a", "b", "c"}, kOptions, {}), AllOf(HasSubstr("too many"), EndsWith(": 'a' 'b' 'c'")));
  EXPECT_THAT(unknown_words({"a"}, kOptions, {}), AllOf(HasSubstr("too many"), EndsWith(": 'a'")));
  EXPECT_THAT(unknown_words({"a\x1b[2J"}, kOptions, {}), AllOf(HasSubstr("too many"), EndsWith(": 'a?[2J'")));
  EXPECT_NE(unknown_words({}, kOptions, {}), "");
}

}  // namespace
}  // namespace flight
