// SPDX-License-Identifier: Apache-2.0
// Unwinds user stacks: from the registers and the copied stack of a sample to the pcs of its frames. Uses CFI if the pc
// has some, otherwise the frame pointer (JIT code), then CFI again, up to a frame that has no caller.
//
//   pc ──CodeMap──▶ mapping ──RuleCache──▶ rule ──step_by_rule──────────▶ caller's registers ──▶ pc ...
//                           └─ no CFI ───────────step_by_frame_pointer──▶
//
// Its one rule: a pc outside all executable mappings is never reported, except the sample's own. Nothing is allocated.
// One thread at a time uses an object, for any number of processes.
#pragma once

#include <cstdint>
#include <span>

#include "libcore/unwind/code_map.hpp"
#include "libcore/unwind/machine.hpp"
#include "libcore/unwind/rule_cache.hpp"
#include "libcore/unwind/stack_copy.hpp"

namespace flight {

inline constexpr std::size_t kMaxUnwoundFrames = 127;  // kernel.perf_event_max_stack's default

enum class UnwindStatus : std::uint8_t {
  complete,     // reached a frame that has no caller
  spliced,      // the copied stack ended; continued by the kernel's frames (splice.hpp)
  truncated,    // the copied stack ended
  no_file,      // the table of the file at `stopped_at` is missing
  no_cfi,       // the caller of `stopped_at` is unknown: no CFI, and no usable frame pointer
  no_mapping,   // the supposed caller of `stopped_at` is in no executable mapping
  no_progress,  // the caller of `stopped_at` would be below it on the stack
  too_deep,     // there are more frames than requested
};

struct Unwound {
  UnwindStatus status = UnwindStatus::complete;
  std::uint32_t frames = 0;               // the number of written pcs
  std::uint32_t frame_pointer_steps = 0;  // through code without CFI
  std::uint64_t stopped_at = 0;           // the last pc
};

class Unwinder {
 public:
  // `code_mask`: the bits of a return address that are address. arm64 puts a signature (PAC) into the others; from
  // PTRACE_GETREGSET NT_ARM_PAC_MASK, or all bits below the size of the user's address space.
  explicit Unwinder(Machine machine, std::uint64_t code_mask = ~std::uint64_t{0})
      : machine_(machine), code_mask_(code_mask) {}

  // Writes the pcs, innermost first: the sample's own, then return addresses, as the kernel writes them in callchains.
  // A return address is after the call, so it is looked up at the byte before it.
  [[nodiscard]] Unwound unwind(const UnwindRegisters& sample, const StackCopy& stack, const CodeMap& code,
                               std::span<std::uint64_t> pcs);

 private:
  struct Walk;
  Machine machine_;
  std::uint64_t code_mask_;
  RuleCache rules_;
};

}  // namespace flight
