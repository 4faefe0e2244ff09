// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/nearest_word.hpp"

#include <gtest/gtest.h>

namespace flight {
namespace {

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
  EXPECT_EQ(with_help("too many arguments", "flightd"), "too many arguments; see flightd --help");
  EXPECT_EQ(with_help("did you mean 'x'?", "flightd"), "did you mean 'x'? See flightd --help");
}

TEST(UnknownWords, SuggestWhatWasMeant) {
  EXPECT_EQ(unknown_words({"snapsht"}, kOptions, kCommands), "there is no command 'snapsht': did you mean 'snapshot'?");
  EXPECT_EQ(unknown_words({"--sinc=x"}, kOptions, kCommands), "there is no option '--sinc': did you mean '--since'?");
  EXPECT_EQ(unknown_words({"frobnicate"}, kOptions, kCommands), "there is no command 'frobnicate'");
  EXPECT_EQ(unknown_words({"--frobnicate"}, kOptions, {}), "there is no option '--frobnicate'");
}

TEST(UnknownWords, OfACommandStandBehindIt) {
  EXPECT_EQ(unknown_words({"lst"}, {}, {"list", "test"}, "triggers"),
            "there is no command 'triggers lst': did you mean 'triggers list'?");
  EXPECT_EQ(unknown_words({"--sinc"}, kOptions, {}, "triggers"),
            "there is no option '--sinc': did you mean '--since'?");
}

TEST(UsageText, AMissingValueHasAPlainMessage) {
  EXPECT_EQ(usage_text("--host: 1 required HOST missing"), "--host needs a value: HOST");
  EXPECT_EQ(usage_text("--until requires --since"), "--until requires --since");
  EXPECT_EQ(usage_text(""), "");
}

TEST(UnknownWords, AreNamedInTheTypedOrder) {
  EXPECT_EQ(unknown_words({"a", "b", "c"}, kOptions, {}), "too many arguments: 'a' 'b' 'c'");
  EXPECT_EQ(unknown_words({"a"}, kOptions, {}), "too many arguments: 'a'");
  EXPECT_EQ(unknown_words({"a\x1b[2J"}, kOptions, {}), "too many arguments: 'a?[2J'");
  EXPECT_NE(unknown_words({}, kOptions, {}), "");
}

}  // namespace
}  // namespace flight
