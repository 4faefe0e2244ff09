// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace flight {
namespace {

TEST(Text, PrintableLeavesNothingThatDrivesATerminal) {
  EXPECT_EQ(printable("plain é € 😀"), "plain é € 😀");
  EXPECT_EQ(printable("a\x1b[2J\n\t\x7f"), "a?[2J???");
  EXPECT_EQ(printable("\xc2\x9b\xc2\xa0"), "?\xc2\xa0");
  EXPECT_EQ(printable("\xe2\x80\xae"), "?");                        // right-to-left override
  EXPECT_EQ(printable("\xff\xc3\xc0\xaf\xed\xa0\x80"), "???????");  // stray, cut, overlong, a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "????");
}

TEST(Text, BytesThatAreNoUtf8StayDifferent) {
  EXPECT_EQ(as_utf8("plain é € 😀 \x1b"), "plain é € 😀 \x1b");
  EXPECT_EQ(as_utf8("h\xc3.service"), R"(h\xc3.service)");
  EXPECT_EQ(as_utf8("h\xc4.service"), R"(h\xc4.service)");
  EXPECT_EQ(as_utf8("\xff\xed\xa0\x80"), R"(\xff\xed\xa0\x80)");
  EXPECT_EQ(as_utf8(R"(a\x2db.service)"), R"(a\x2db.service)") << "as systemd has written it";
}

TEST(Text, IsPrintableWherePrintableChangesNothing) {
  for (const char* good : {"", "plain é € 😀", "\xc2\xa0"}) EXPECT_TRUE(is_printable(good)) << good;
  for (const char* bad : {"a\nb", "\x7f", "\xc2\x9b", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6", "\xff"})
    EXPECT_FALSE(is_printable(bad)) << bad;
}

TEST(Text, InvisibleCharactersAreNotPrintable) {
  for (const char* hidden :
       {"\u00ad", "\u034f", "\u061c", "\u115f", "\u180e", "\u200b", "\u200c", "\u200d", "\u200e", "\u2060", "\u2064",
        "\u206f", "\u3164", "\ufeff", "\uffa0", "\ufff9", "\U0001d173", "\U000e0001", "\U000e007f"}) {
    const std::string text = std::string("check") + hidden + "out";
    EXPECT_FALSE(is_printable(text)) << text;
    EXPECT_EQ(printable(text), "check?out");
  }
  // Neighbours of the refused characters, and characters that change the one before: an emoji's form, an accent.
  for (const char* shown : {"\u2010", "\u2027", "\u202f", "\u2070", "\u3163", "\ufffd", "\u26a0\ufe0f", "e\u0301"})
    EXPECT_TRUE(is_printable(shown)) << shown;
}

// A name of the kernel or of flightd itself never begins like one that is not in quotation marks.
TEST(Text, ANameThatAProcessGaveItselfLooksLikeNoOther) {
  for (const char* name : {"bash", "X11", "7z", "(sd-pam)", "-bash", "_x", ".x", "/x", "@x", "kworker/0:1", "x[1]"})
    EXPECT_EQ(own_name(name), name);
  EXPECT_EQ(own_name("[kworker/0:1]"), "\"[kworker/0:1]\"");
  for (const char* name : {"[lost]", " [kworker/0:1]", ":123", "\uff3bkworker\uff3d", "\"[x]\"", "\x1b[2J", "{x}"})
    EXPECT_EQ(own_name(name), '"' + std::string(name) + '"');
  EXPECT_EQ(own_name(""), "");
}

}  // namespace
}  // namespace flight
