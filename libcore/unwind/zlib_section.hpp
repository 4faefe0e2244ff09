// SPDX-License-Identifier: Apache-2.0
// A section with SHF_COMPRESSED (gABI, chapter 4): Elf64_Chdr, then a zlib stream. Go's linker compresses .debug_frame,
// and Go programs have no .eh_frame.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

// EFBIG: more than kMaxFileReadBytes when unpacked. EINVAL: invalid bytes, or another compression.
[[nodiscard]] Result<std::vector<std::byte>> unpack_section(std::span<const std::byte> packed);

}  // namespace flight
