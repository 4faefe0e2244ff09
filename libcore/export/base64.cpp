// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/base64.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace flight {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kGroupBytes = 3, kGroupDigits = 4;

}  // namespace

Result<void> Base64Writer::add(std::span<const std::byte> bytes) {
  text_.clear();
  if (!rest_.empty()) {
    const std::size_t more = std::min(bytes.size(), kGroupBytes - rest_.size());
    rest_.insert(rest_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(more));
    bytes = bytes.subspan(more);
    if (rest_.size() < kGroupBytes) return {};
    append(rest_);
    rest_.clear();
  }
  for (; bytes.size() >= kGroupBytes; bytes = bytes.subspan(kGroupBytes)) append(bytes.first(kGroupBytes));
  rest_.assign(bytes.begin(), bytes.end());
  return text_.empty() ? Result<void>() : write_(std::as_bytes(std::span(text_)));
}

Result<void> Base64Writer::finish() {
  if (rest_.empty()) return {};
  text_.clear();
  append(rest_);
  rest_.clear();
  return write_(std::as_bytes(std::span(text_)));
}

void Base64Writer::append(std::span<const std::byte> group) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < kGroupBytes; ++i)
    bits = bits << 8U | (i < group.size() ? std::to_integer<std::uint32_t>(group[i]) : 0U);
  for (std::size_t i = 0; i < kGroupDigits; ++i)
    text_ += i <= group.size() ? kDigits[(bits >> (18U - 6U * i)) & 63U] : '=';
}

}  // namespace flight
