// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/signal_trampoline.hpp"

#include <algorithm>
#include <array>

namespace flight {
namespace {

// mov $15 (__NR_rt_sigreturn), %rax; syscall. mov x8, #139; svc #0.
constexpr std::array<std::uint8_t, 9> kX86Code = {0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};
constexpr std::array<std::uint8_t, 8> kArm64Code = {0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4};

std::span<const std::byte> code_of(Machine machine) {
  if (machine == Machine::x86_64) return std::as_bytes(std::span(kX86Code));
  return std::as_bytes(std::span(kArm64Code));
}

// The positions of registers in bytes above the stack pointer at the trampoline, by their number; 0: none. x86-64:
// uc_mcontext of struct ucontext (asm/sigcontext.h); the return address to this code is popped. arm64: struct
// rt_sigframe is a siginfo of 128 bytes and a ucontext whose mcontext is at 176; x0 follows its fault_address.
constexpr std::array<std::int16_t, kX86_64Traits.registers> kX86Positions = {144, 136, 152, 128, 112, 104, 120, 160, 40,
                                                                             48,  56,  64,  72,  80,  88,  96,  168};
constexpr std::int16_t kArm64Position = 128 + 176 + 8;

std::size_t position_of(Machine machine, std::size_t number) {
  return machine == Machine::x86_64 ? static_cast<std::size_t>(kX86Positions[number]) : kArm64Position + number * 8;
}

// DW_OP_breg<sp> position, for each register; and with DW_OP_deref, for the CFA. A position has two LEB128 bytes.
using PositionExpression = std::array<std::byte, 4>;
PositionExpression expression_of(std::uint8_t stack_pointer, std::size_t position) {
  constexpr unsigned kBreg0 = 0x70, kDeref = 0x06;
  return {static_cast<std::byte>(kBreg0 + stack_pointer), static_cast<std::byte>((position & 0x7fU) | 0x80U),
          static_cast<std::byte>(position >> 7U), static_cast<std::byte>(kDeref)};
}

using PositionExpressions = std::array<PositionExpression, kMaxUnwindRegisters>;
PositionExpressions expressions_of(Machine machine) {
  PositionExpressions expressions{};
  const MachineTraits& traits = traits_of(machine);
  for (std::size_t number = 0; number < traits.registers; ++number)
    expressions[number] = expression_of(traits.stack_pointer, position_of(machine, number));
  return expressions;
}

}  // namespace

FrameState SignalTrampoline::state() const {
  static const PositionExpressions kX86 = expressions_of(Machine::x86_64);
  static const PositionExpressions kArm64 = expressions_of(Machine::arm64);
  const PositionExpressions& expressions = machine == Machine::x86_64 ? kX86 : kArm64;
  const MachineTraits& traits = traits_of(machine);
  FrameState state;
  state.cfa_kind = CfaKind::from_expression;
  state.cfa_expression = expressions[traits.stack_pointer];
  for (std::size_t number = 0; number < traits.registers; ++number)
    state.places[number] = {Where::at_expression, 0, std::span(expressions[number]).first(3)};
  return state;
}

std::vector<SignalTrampoline> find_signal_trampolines(const ElfImage& image,
                                                      std::span<const ElfSegment> code_segments) {
  std::vector<SignalTrampoline> found;
  const auto code = code_of(image.machine());
  for (const ElfSegment& segment : code_segments) {
    if (segment.file_bytes > kMaxSearchedCodeBytes) continue;
    const auto bytes = image.file().read(segment.offset, segment.file_bytes);
    if (!bytes) continue;
    for (auto at = bytes->begin(); found.size() < kMaxSignalTrampolines; at += 1) {
      at = std::search(at, bytes->end(), code.begin(), code.end());
      if (at == bytes->end()) break;
      const std::uint64_t begin = segment.address + static_cast<std::uint64_t>(at - bytes->begin());
      found.push_back({begin - 1, begin + code.size(), image.machine()});
    }
  }
  return found;
}

}  // namespace flight
