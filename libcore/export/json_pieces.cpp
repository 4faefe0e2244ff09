// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/json_pieces.hpp"

#include "libcore/export/exported_name.hpp"
#include "libcore/json/value.hpp"

namespace flight {

void JsonPieces::text(std::string_view name) { raw(json::dump_text(exported_name(name))); }

void JsonPieces::column_of(std::string_view key, std::size_t count, std::string_view item) {
  format("\"{}\":[", key);
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) raw(",");
    raw(item);
  }
  raw("]");
}

Result<void> JsonPieces::finish() {
  flush();
  return written_ ? to_.finish() : written_;
}

void JsonPieces::flush() {
  if (written_) written_ = to_.add(piece_);
  piece_.clear();
}

}  // namespace flight
