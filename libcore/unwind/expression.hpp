// SPDX-License-Identifier: Apache-2.0
// Evaluates DWARF expressions (DWARF 5, 2.5) as call frame information uses them: the procedure linkage table's CFA,
// the registers in a signal's frame, the CFA of a realigned stack. Branches, calls and addresses are not supported, so
// that an expression takes as many steps as it has operations; the bytes are not trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libcore/unwind/machine.hpp"
#include "libcore/unwind/stack_copy.hpp"

namespace flight {

inline constexpr std::size_t kMaxExpressionBytes = 128;  // glibc's and OpenSSL's have under 20
inline constexpr std::size_t kMaxExpressionStack = 16;

enum class ExpressionFault : std::uint8_t {
  refused,         // an unknown operation, a lost register, an empty or full stack
  outside_memory,  // it reads memory outside the copied stack
};

struct ExpressionValue {
  std::optional<std::uint64_t> value;  // nullopt: see fault
  ExpressionFault fault = ExpressionFault::refused;
};

// `first`: the initial value on the evaluation's stack: the CFA, for an expression of a register (DWARF 5, 6.4.2.3).
[[nodiscard]] ExpressionValue evaluate(std::span<const std::byte> expression, const UnwindRegisters& registers,
                                       const StackCopy& stack, std::optional<std::uint64_t> first);

}  // namespace flight
