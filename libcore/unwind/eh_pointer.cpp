// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/eh_pointer.hpp"

namespace flight {
namespace {

constexpr std::uint8_t kRelativeTo = 0x70;
constexpr std::uint8_t kAbsoluteValue = 0x00, kPcRelative = 0x10, kDataRelative = 0x30;
constexpr std::uint8_t kIndirect = 0x80;

template <typename T>
std::uint64_t extended(ByteCursor& cursor) {
  return static_cast<std::uint64_t>(std::int64_t{cursor.take<T>()});
}

std::optional<std::uint64_t> take_value(ByteCursor& cursor, std::uint8_t format) {
  std::uint64_t value = 0;
  switch (format) {
    case 0x00:
      value = cursor.take<std::uint64_t>();
      break;  // absptr: both machines have 8 bytes
    case 0x01:
      value = cursor.take_uleb();
      break;
    case 0x02:
      value = cursor.take<std::uint16_t>();
      break;
    case 0x03:
      value = cursor.take<std::uint32_t>();
      break;
    case 0x04:
      value = cursor.take<std::uint64_t>();
      break;
    case 0x09:
      value = static_cast<std::uint64_t>(cursor.take_sleb());
      break;
    case 0x0a:
      value = extended<std::int16_t>(cursor);
      break;
    case 0x0b:
      value = extended<std::int32_t>(cursor);
      break;
    case 0x0c:
      value = extended<std::int64_t>(cursor);
      break;
    default:
      return std::nullopt;
  }
  if (!cursor.ok()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::uint64_t> take_pointer(ByteCursor& cursor, std::uint8_t encoding, const PointerBase& base) {
  if ((encoding & kIndirect) != 0) return std::nullopt;
  const std::uint64_t field = base.section_address + cursor.position();
  const auto value = take_value(cursor, encoding & kPointerFormat);
  if (!value) return std::nullopt;
  switch (encoding & kRelativeTo) {
    case kAbsoluteValue:
      return *value;
    case kPcRelative:
      return *value + field;
    case kDataRelative:
      return base.data ? std::optional(*value + *base.data) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool skip_pointer(ByteCursor& cursor, std::uint8_t encoding) {
  if (encoding == kPointerOmitted) return true;
  if ((encoding & kRelativeTo) > 0x40) return false;  // aligned: padded by its address
  return take_value(cursor, encoding & kPointerFormat).has_value();
}

}  // namespace flight
