// SPDX-License-Identifier: Apache-2.0
// The two supported machines, and a thread's registers. Registers have their DWARF numbers: x86-64 by its psABI (figure
// 3.36), arm64 by AADWARF64 (4.1).
//
//   x86-64   0 rax  1 rdx  2 rcx  3 rbx  4 rsi  5 rdi  6 rbp  7 rsp  8..15 r8..r15  16 rip (return address)
//   arm64    0..28 x0..x28  29 x29 (fp)  30 x30 (lr, the return address)  31 sp  32 pc (our own number)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace flight {

enum class Machine : std::uint16_t { x86_64 = 62, arm64 = 183 };  // EM_* of elf(5)

inline constexpr std::size_t kMaxUnwindRegisters = 33;

// The properties of a machine.
struct MachineTraits {
  std::uint8_t registers;  // the number of tracked registers
  std::uint8_t frame_pointer, stack_pointer, return_address, pc;
  std::uint64_t callee_saved;  // bit N: register N is unchanged for the caller if the CFI does not mention it
};

inline constexpr MachineTraits kX86_64Traits{17, 6, 7, 16, 16, 0xf048};
inline constexpr MachineTraits kArm64Traits{33, 29, 31, 30, 32, 0x7ff80000};

[[nodiscard]] constexpr const MachineTraits& traits_of(Machine machine) {
  return machine == Machine::x86_64 ? kX86_64Traits : kArm64Traits;
}
[[nodiscard]] std::optional<Machine> machine_of(std::uint16_t elf_machine);

struct UnwindRegisters {
  std::array<std::uint64_t, kMaxUnwindRegisters> values{};
  std::uint64_t known = 0;  // bit N: values[N] is register N of this frame

  [[nodiscard]] bool knows(std::size_t number) const { return number < values.size() && ((known >> number) & 1U) != 0; }
  void set(std::size_t number, std::uint64_t value) {
    values[number] = value;
    known |= std::uint64_t{1} << number;
  }
};

// The registers of a PERF_SAMPLE_REGS_USER: `values` in the order of the bits of `mask` (sample_regs_user). Registers
// that are not unwound (flags, segments) are dropped. nullopt: pc or stack pointer is missing, or there are too few
// values.
[[nodiscard]] std::optional<UnwindRegisters> registers_of_sample(Machine machine, std::uint64_t mask,
                                                                 std::span<const std::uint64_t> values);
// The mask that requests all of them from perf.
[[nodiscard]] std::uint64_t sample_register_mask(Machine machine);

}  // namespace flight
