// SPDX-License-Identifier: Apache-2.0
// The call frame information at one pc (DWARF 5, 6.4.1): a row of the table that DWARF describes but does not store.
// The CFA (canonical frame address) is the stack pointer as it was before the call; each register of the caller is
// found at its place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libcore/unwind/machine.hpp"

namespace flight {

enum class Where : std::uint8_t {
  unspecified,    // by the ABI: a callee-saved register keeps its value, another one is lost
  undefined,      // lost; for the return address: there is no caller
  same,           // keeps its value
  at_cfa,         // in memory at CFA + value
  is_cfa,         // CFA + value
  in_register,    // in register `value`
  at_expression,  // in memory at the address that the expression yields
  is_expression,  // the value of the expression
};

struct RegisterPlace {
  Where where = Where::unspecified;
  std::int64_t value = 0;
  std::span<const std::byte> expression;  // bytes of the section
};

enum class CfaKind : std::uint8_t { none, from_register, from_expression };

struct FrameState {
  CfaKind cfa_kind = CfaKind::none;
  std::uint64_t cfa_register = 0;
  std::int64_t cfa_offset = 0;
  std::span<const std::byte> cfa_expression;
  std::array<RegisterPlace, kMaxUnwindRegisters> places{};
};

}  // namespace flight
