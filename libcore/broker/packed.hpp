// SPDX-License-Identifier: Apache-2.0
// The broker's binary replies: structures in the byte order of the machine, each text padded to 8 bytes.
#pragma once

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace flight {

class PackedWriter {
 public:
  explicit PackedWriter(std::size_t expected_bytes = 0) { bytes_.reserve(expected_bytes); }

  template <typename T>
  void add(const T& value) {
    append(&value, sizeof value);
  }
  void add_text(std::string_view text) {
    append(text.data(), text.size());
    bytes_.resize((bytes_.size() + 7) & ~std::size_t{7});
  }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  void append(const void* data, std::size_t size) {
    const auto* first = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), first, first + size);
  }
  std::vector<std::byte> bytes_;
};

// Reads input from the other side. A truncated part is not read.
class PackedReader {
 public:
  explicit PackedReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  [[nodiscard]] bool take(T& value) {
    if (left_.size() < sizeof value) return false;
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    return true;
  }
  // A view into the input.
  [[nodiscard]] std::optional<std::string_view> take_text(std::size_t size) {
    if (size > left_.size() || ((size + 7) & ~std::size_t{7}) > left_.size()) return std::nullopt;
    const std::string_view text(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan((size + 7) & ~std::size_t{7});
    return text;
  }
  [[nodiscard]] std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
};

}  // namespace flight
