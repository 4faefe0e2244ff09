// SPDX-License-Identifier: Apache-2.0
// The content of a tracepoint's record as text: "pid=1234, comm=stress, flags=0x10". The fields come from the format's
// text (Documentation/trace/events.rst), the bytes from a ring: neither is trusted to fit the other. The format's own
// print rule is C code and is not interpreted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flight {

inline constexpr std::size_t kMaxTracepointFields = 128;
inline constexpr std::size_t kMaxTracepointTextBytes = 256;

struct TracepointField {
  enum class Kind { number, device, text, dynamic_text, relative_text, other };
  std::string name;
  Kind kind = Kind::number;
  std::size_t offset = 0, size = 0;
  bool is_signed = false;
  bool hexadecimal = false;  // a pointer, an address, flags
};

struct TracepointFormat {
  std::uint32_t id = 0;                 // common_type of its records
  std::vector<TracepointField> fields;  // without the common ones

  // Never fails: fields that cannot be parsed are omitted.
  [[nodiscard]] static TracepointFormat parse(std::string_view text);
};

// The text of one sample's raw bytes; at most kMaxTracepointTextBytes of UTF-8 without misleading characters. Empty if
// the bytes belong to another tracepoint or are too short for any field.
[[nodiscard]] std::string tracepoint_text(const TracepointFormat& format, std::span<const std::byte> raw);

}  // namespace flight
