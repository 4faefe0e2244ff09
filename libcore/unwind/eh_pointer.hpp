// SPDX-License-Identifier: Apache-2.0
// Encoded pointers of .eh_frame and .eh_frame_hdr (LSB 5.0, 10.5: DW_EH_PE_*). The low four bits are the format, the
// next three what the value is relative to, the highest bit means "the address of the pointer".
#pragma once

#include <cstdint>
#include <optional>

#include "libcore/unwind/byte_cursor.hpp"

namespace flight {

inline constexpr std::uint8_t kPointerOmitted = 0xff;
inline constexpr std::uint8_t kPointerFormat = 0x0f;  // mask
inline constexpr std::uint8_t kPointerAbsolute = 0;   // 8 bytes

struct PointerBase {
  std::uint64_t section_address = 0;  // of the byte at the cursor's position 0: the base of "pcrel"
  std::optional<std::uint64_t> data;  // the base of "datarel": in .eh_frame_hdr its own address
};

// nullopt: the pointer ends beyond the bytes, or its encoding is refused: indirect (the pointer is in memory that
// relocation writes), textrel, funcrel, aligned, datarel without a base.
[[nodiscard]] std::optional<std::uint64_t> take_pointer(ByteCursor& cursor, std::uint8_t encoding,
                                                        const PointerBase& base);
// Skips the pointer's bytes; false if the size cannot be known.
[[nodiscard]] bool skip_pointer(ByteCursor& cursor, std::uint8_t encoding);

}  // namespace flight
