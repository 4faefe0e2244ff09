// SPDX-License-Identifier: Apache-2.0
// The C library's wcwidth(3) verifies the width of characters.
#include "libcore/base/columns.hpp"

#include <gtest/gtest.h>
#include <wchar.h>

#include <clocale>

#include "libcore/base/text.hpp"

namespace flight {
namespace {

std::string utf8_of(char32_t c) {
  if (c < 0x80) return {static_cast<char>(c)};
  const auto tail = [c](unsigned shift) { return static_cast<char>(0x80U | ((c >> shift) & 0x3fU)); };
  if (c < 0x800) return {static_cast<char>(0xc0U | (c >> 6U)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0U | (c >> 12U)), tail(6), tail(0)};
  return {static_cast<char>(0xf0U | (c >> 18U)), tail(12), tail(6), tail(0)};
}

TEST(Columns, AreNeverFewerThanTheTerminals) {
  const std::string before = std::setlocale(LC_CTYPE, nullptr);
  ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);
  std::size_t wide = 0;
  for (char32_t c = 0x20; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const int verified = ::wcwidth(static_cast<wchar_t>(c));
    if (verified < 0) continue;  // a terminal does not show it
    wide += verified == 2 ? 1U : 0U;
    ASSERT_GE(columns(utf8_of(c)), static_cast<std::size_t>(verified)) << std::hex << static_cast<std::uint32_t>(c);
  }
  EXPECT_GT(wide, 50'000U) << "the verifier knows no wide ones";
  std::setlocale(LC_CTYPE, before.c_str());
}

TEST(Columns, CountCharactersNotBytes) {
  EXPECT_EQ(columns(""), 0U);
  EXPECT_EQ(columns("abc"), 3U);
  EXPECT_EQ(columns("é€x"), 3U);
  EXPECT_EQ(columns("日本"), 4U);
  EXPECT_EQ(columns("\xff\xfe"), 2U);
}

TEST(Columns, CutInTheMiddle) {
  EXPECT_EQ(cut_middle("short", 5), "short");
  EXPECT_EQ(cut_middle("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(cut_middle("abcdefghij", 6), "abc…ij");
  EXPECT_EQ(cut_middle("abcdefghij", 6, "..."), "ab...j");
  EXPECT_EQ(cut_middle("abcdefghij", 2, "..."), "aj");
  EXPECT_EQ(cut_middle("abcdefghij", 0), "");
  EXPECT_EQ(cut_end("abcdefghij", 5), "abcd…");
  EXPECT_EQ(cut_end("abcdefghij", 10), "abcdefghij");
}

TEST(Columns, WholeCharactersAreLeft) {
  for (std::size_t most = 0; most < 30; ++most)
    for (const std::string text : {"日本語日本語日本語", "aé日b€本c語", "ééééééééééééééé"})
      for (const std::string& cut : {cut_middle(text, most), cut_end(text, most)}) {
        EXPECT_TRUE(is_printable(cut)) << cut;
        EXPECT_LE(columns(cut), most);
      }
}

}  // namespace
}  // namespace flight
