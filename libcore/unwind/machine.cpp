// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/machine.hpp"

namespace flight {
namespace {

constexpr std::uint8_t kNone = 0xff;
// arch/x86/include/uapi/asm/perf_regs.h: AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8..R15. Copied here,
// because an arm64 build has only arm64's header.
constexpr std::array<std::uint8_t, 24> kX86SampleOrder = {
    0, 3, 2, 1, 4, 5, 6, 7, 16, kNone, kNone, kNone, kNone, kNone, kNone, kNone, 8, 9, 10, 11, 12, 13, 14, 15};
// arch/arm64/include/uapi/asm/perf_regs.h: X0..X29, LR, SP, PC; the same order as here.
constexpr unsigned kArm64SampleRegisters = 33;

std::uint8_t register_of_bit(Machine machine, unsigned bit) {
  if (machine == Machine::x86_64) return bit < kX86SampleOrder.size() ? kX86SampleOrder[bit] : kNone;
  return bit < kArm64SampleRegisters ? static_cast<std::uint8_t>(bit) : kNone;
}

}  // namespace

std::optional<Machine> machine_of(std::uint16_t elf_machine) {
  if (elf_machine == static_cast<std::uint16_t>(Machine::x86_64)) return Machine::x86_64;
  if (elf_machine == static_cast<std::uint16_t>(Machine::arm64)) return Machine::arm64;
  return std::nullopt;
}

std::optional<UnwindRegisters> registers_of_sample(Machine machine, std::uint64_t mask,
                                                   std::span<const std::uint64_t> values) {
  UnwindRegisters registers;
  std::size_t next = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (((mask >> bit) & 1U) == 0) continue;
    if (next == values.size()) return std::nullopt;
    const std::uint8_t number = register_of_bit(machine, bit);
    if (number != kNone) registers.set(number, values[next]);
    ++next;
  }
  const MachineTraits& traits = traits_of(machine);
  if (!registers.knows(traits.pc) || !registers.knows(traits.stack_pointer)) return std::nullopt;
  return registers;
}

std::uint64_t sample_register_mask(Machine machine) {
  std::uint64_t mask = 0;
  for (unsigned bit = 0; bit < 64; ++bit) {
    if (register_of_bit(machine, bit) != kNone) mask |= std::uint64_t{1} << bit;
  }
  return mask;
}

}  // namespace flight
