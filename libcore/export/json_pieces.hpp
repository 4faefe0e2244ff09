// SPDX-License-Identifier: Apache-2.0
// Writes a large JSON text, packed with gzip, without having all of it in memory. The caller writes the braces and the
// keys; what is added is written as it is, but for texts.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "libcore/base/result.hpp"
#include "libcore/export/gzip.hpp"

namespace flight {

class JsonPieces {
 public:
  explicit JsonPieces(GzipWriter& to) : to_(to) {}

  void raw(std::string_view json) {
    piece_ += json;
    if (piece_.size() >= kPieceBytes) flush();
  }
  template <typename... Args>
  void format(fmt::format_string<Args...> pattern, Args&&... args) {
    fmt::format_to(std::back_inserter(piece_), pattern, std::forward<Args>(args)...);
    if (piece_.size() >= kPieceBytes) flush();
  }
  // In quotation marks: exported_name().
  void text(std::string_view name);
  // "key":[one,two] where `print` writes one item.
  template <typename Items, typename Print>
  void column(std::string_view key, const Items& items, const Print& print) {
    format("\"{}\":[", key);
    bool first = true;
    for (const auto& item : items) {
      if (!first) raw(",");
      first = false;
      print(item);
    }
    raw("]");
  }
  // The same with `count` times the same item.
  void column_of(std::string_view key, std::size_t count, std::string_view item);

  // The first error: what was added after it was not written.
  [[nodiscard]] Result<void> finish();

 private:
  static constexpr std::size_t kPieceBytes = 64U << 10U;
  void flush();

  GzipWriter& to_;
  std::string piece_;
  Result<void> written_;
};

}  // namespace flight
