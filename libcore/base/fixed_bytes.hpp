// SPDX-License-Identifier: Apache-2.0
// A buffer of fixed size, in memory that the caller owns: for code that must not allocate while it works.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstring>
#include <span>

namespace flight {

class FixedBytes {
 public:
  FixedBytes() = default;
  explicit FixedBytes(std::span<std::byte> memory) : memory_(memory) {}
  void append(std::span<const std::byte> bytes) {
    assert(bytes.size() <= memory_.size() - size_);
    if (!bytes.empty()) std::memcpy(memory_.data() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void clear() { size_ = 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t room() const { return memory_.size() - size_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return memory_.first(size_); }

 private:
  std::span<std::byte> memory_;
  std::size_t size_ = 0;
};

}  // namespace flight
