// SPDX-License-Identifier: Apache-2.0
// A position in untrusted bytes: little-endian numbers and LEB128 (DWARF 5, 7.6); each read is checked against the end.
// Its one rule: a read beyond the end returns zero and makes the cursor invalid for good, so that one check of ok()
// after a group of reads is enough.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace flight {

class ByteCursor {
 public:
  ByteCursor() = default;
  explicit ByteCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] std::size_t position() const { return at_; }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  // Moves the position; beyond the end the cursor becomes invalid.
  void seek(std::uint64_t position) {
    if (position > bytes_.size()) return spoil();
    at_ = static_cast<std::size_t>(position);
  }

  template <typename T>
  [[nodiscard]] T take() {
    T value{};
    if (left() < sizeof value) {
      spoil();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  [[nodiscard]] std::span<const std::byte> take_bytes(std::uint64_t count) {
    if (count > left()) {
      spoil();
      return {};
    }
    const auto some = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += some.size();
    return some;
  }
  // At most kMaxLebBytes; bits above the 64th are dropped.
  [[nodiscard]] std::uint64_t take_uleb() { return take_leb().value; }
  [[nodiscard]] std::int64_t take_sleb() {
    const Leb leb = take_leb();
    std::uint64_t value = leb.value;
    if (leb.bits < 64 && leb.negative) value |= ~std::uint64_t{0} << leb.bits;
    return static_cast<std::int64_t>(value);
  }

 private:
  static constexpr unsigned kMaxLebBytes = 10;  // of 64 bits
  struct Leb {
    std::uint64_t value = 0;
    unsigned bits = 64;
    bool negative = false;
  };

  void spoil() {
    ok_ = false;
    at_ = bytes_.size();
  }
  Leb take_leb() {
    Leb leb{0, 0, false};
    for (unsigned count = 0; count < kMaxLebBytes; ++count) {
      const auto byte = take<std::uint8_t>();
      if (!ok_) return {};
      if (leb.bits < 64) leb.value |= std::uint64_t{byte & 0x7fU} << leb.bits;
      leb.bits += 7;
      leb.negative = (byte & 0x40U) != 0;
      if ((byte & 0x80U) == 0) return leb;
    }
    spoil();
    return {};
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace flight
