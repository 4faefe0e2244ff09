// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace flight {
namespace {

// Control characters: C0, DEL and C1. Invisible characters: Unicode's Default_Ignorable_Code_Point
// (DerivedCoreProperties.txt), which includes the marks that change the text direction, but without the variation
// selectors, which select a form of the character before them. Line and paragraph separators; interlinear annotation.
constexpr std::array<std::pair<char32_t, char32_t>, 19> kMisleading{{
    {0x00, 0x1f},       {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},     {0x61c, 0x61c},
    {0x115f, 0x1160},   {0x17b4, 0x17b5},   {0x180e, 0x180e},   {0x200b, 0x200f},   {0x2028, 0x202e},
    {0x2060, 0x206f},   {0x3164, 0x3164},   {0xfeff, 0xfeff},   {0xffa0, 0xffa0},   {0xfff0, 0xfffb},
    {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe00ff}, {0xe01f0, 0xe0fff},
}};

bool misleads(char32_t c) {
  if (c >= ' ' && c <= '~') return false;  // nearly every character
  return std::any_of(kMisleading.begin(), kMisleading.end(),
                     [c](const auto& range) { return c >= range.first && c <= range.second; });
}

}  // namespace

std::size_t decode_utf8(std::string_view text, char32_t& out) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  std::size_t length = 1;
  char32_t value = byte(0);
  char32_t least = 0;
  if (byte(0) >= 0xf0 && byte(0) < 0xf8) {
    length = 4, value = byte(0) & 0x07U, least = 0x10000;
  } else if (byte(0) >= 0xe0 && byte(0) < 0xf0) {
    length = 3, value = byte(0) & 0x0fU, least = 0x800;
  } else if (byte(0) >= 0xc0 && byte(0) < 0xe0) {
    length = 2, value = byte(0) & 0x1fU, least = 0x80;
  } else if (byte(0) >= 0x80) {
    return 0;
  }
  if (length > text.size()) return 0;
  for (std::size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0U) != 0x80U) return 0;
    value = (value << 6U) | (byte(at) & 0x3fU);
  }
  if (value < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return 0;
  out = value;
  return length;
}

bool is_printable(std::string_view text) {
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode_utf8(text, c);
    if (length == 0 || misleads(c)) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode_utf8(text, c);
    if (length == 0 || misleads(c)) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string as_utf8(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  while (!text.empty()) {
    char32_t c = 0;
    const std::size_t length = decode_utf8(text, c);
    if (length == 0) {
      const auto byte = static_cast<unsigned char>(text[0]);
      out += "\\x";
      out += kDigits[byte / kDigits.size()];
      out += kDigits[byte % kDigits.size()];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

std::string own_name(std::string_view name) {
  constexpr std::string_view kFirstOfCommands = "._/(+-@~";  // "(sd-pam)", "-bash"
  if (name.empty()) return {};
  const char first = name[0];
  const bool letter =
      (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || (first >= '0' && first <= '9');
  if (letter || kFirstOfCommands.find(first) != std::string_view::npos) return std::string(name);
  return '"' + std::string(name) + '"';
}

}  // namespace flight
