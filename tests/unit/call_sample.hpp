// SPDX-License-Identifier: Apache-2.0
// Offsets in a SAMPLE of raw_syscalls:sys_enter with IDENTIFIER, IP, TID, TIME, CPU, PERIOD and RAW (u32 size, 8 common
// bytes, long id, args[0]), for tests that number their calls by the first argument.
#pragma once

#include <cstddef>

namespace flight::test {

inline constexpr std::size_t kCallTime = 8 + 3 * 8;  // behind the header, IDENTIFIER, IP and TID
inline constexpr std::size_t kCallArgument = 8 + 6 * 8 + 4 + 8 + 8;

}  // namespace flight::test
