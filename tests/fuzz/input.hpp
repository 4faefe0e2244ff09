// SPDX-License-Identifier: Apache-2.0
// Splits a fuzzer's bytes: first the few numbers that the tested code gets from a caller, then the bytes that it
// reads. Missing bytes are zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace flight::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(std::as_bytes(std::span(data, size))) {}

  template <typename T>
  [[nodiscard]] T take() {
    T value{};
    const auto some = take_bytes(sizeof value);
    std::memcpy(&value, some.data(), some.size());
    return value;
  }
  [[nodiscard]] std::span<const std::byte> take_bytes(std::size_t count) {
    const auto some = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(some.size());
    return some;
  }
  // Up to the next line that is just "---", or all of it: so that seeds of several texts are readable.
  [[nodiscard]] std::string_view take_text() {
    constexpr std::string_view kCut = "\n---\n";
    const std::string_view all = text();
    const std::size_t end = all.find(kCut);
    if (end == std::string_view::npos) bytes_ = {};
    if (end != std::string_view::npos) bytes_ = bytes_.subspan(end + kCut.size());
    return all.substr(0, end);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace flight::fuzz
