// SPDX-License-Identifier: Apache-2.0
// One step of an unwind: from a frame's registers to its caller's, by a table's rule or by the frame pointer. The only
// readable memory is the copied stack.
#pragma once

#include <cstdint>

#include "libcore/unwind/machine.hpp"
#include "libcore/unwind/stack_copy.hpp"
#include "libcore/unwind/unwind_table.hpp"

namespace flight {

enum class FrameStep : std::uint8_t {
  caller,         // the registers are the caller's
  interrupted,    // the registers are those that a signal interrupted
  outermost,      // there is no caller
  outside_stack,  // a needed word was not copied
  no_progress,    // the caller's stack pointer would not be above this one's
  no_rule,        // the rule is wrong, or needs a lost register
};

// `is_leaf`: this function has called no other, so that the CFA may be the stack pointer: the return address is in a
// register (arm64's leaves, glibc's vfork). `registers` change only if the result is `caller` or `interrupted`.
[[nodiscard]] FrameStep step_by_rule(const UnwindTable& table, const UnwindRule& rule, const StackCopy& stack,
                                     bool is_leaf, UnwindRegisters& registers);
// The frame record of code that keeps a frame pointer: the caller's frame pointer, and above it the return address.
// outermost: the frame pointer is zero (x86-64 psABI 3.4.1, AAPCS64 6.4.6). Only the frame pointer is known in the
// caller.
[[nodiscard]] FrameStep step_by_frame_pointer(Machine machine, const StackCopy& stack, UnwindRegisters& registers);

}  // namespace flight
