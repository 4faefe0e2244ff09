// SPDX-License-Identifier: Apache-2.0
// How the bytes of a recording's journal are made and read: numbers as they are in memory, and checksums (journal.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace flight {

static_assert(std::endian::native == std::endian::little, "a journal is little-endian");

// FNV-1a, 64 bits; `before`: of what comes before these bytes.
inline constexpr std::uint64_t kJournalChecksumBasis = 0xcbf29ce484222325;
[[nodiscard]] inline std::uint64_t journal_checksum(std::span<const std::byte> bytes,
                                                    std::uint64_t before = kJournalChecksumBasis) {
  for (const std::byte byte : bytes) before = (before ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3ULL;
  return before;
}
// The checksum of an entry or a note; `fields`: all of it but the checksum itself.
[[nodiscard]] inline std::uint64_t entry_checksum(std::span<const std::byte> fields, std::uint64_t facts_checksum) {
  return journal_checksum(fields, journal_checksum(std::as_bytes(std::span(&facts_checksum, 1))));
}

template <typename T>
void put_journal_value(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Takes fields from the front. If there are too few bytes, it fails and stays failed.
class JournalCursor {
 public:
  explicit JournalCursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    T value{};
    const auto bytes = take_bytes(sizeof value);
    if (good_) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> take_bytes(std::uint64_t count) {
    good_ = good_ && count <= rest_.size();
    if (!good_) return {};
    const auto bytes = rest_.first(static_cast<std::size_t>(count));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }
  [[nodiscard]] std::span<const std::byte> rest() const { return rest_; }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace flight
