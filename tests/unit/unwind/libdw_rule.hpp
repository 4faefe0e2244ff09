// SPDX-License-Identifier: Apache-2.0
// elfutils' libdw as the verifier of a table: its rules at one pc, evaluated with given registers and memory.
#pragma once

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <libelf.h>

#include <cstdlib>
#include <optional>
#include <span>

#include "libcore/unwind/expression.hpp"
#include "libcore/unwind/frame_step.hpp"
#include "tests/unit/unwind/byte_writer.hpp"

namespace flight::test {

// One frame left by libdw.
struct LibdwStep {
  bool has_cfi = false;
  bool is_signal_frame = false;
  bool is_outermost = false;     // the return address is undefined
  std::uint64_t unreadable = 0;  // bit N: register N is in memory that does not exist
  std::optional<std::uint64_t> cfa;
  UnwindRegisters caller;  // known: registers for which libdw or the ABI gives a place
};

class LibdwFile {
 public:
  explicit LibdwFile(std::span<std::byte> image)
      : elf_(elf_memory(reinterpret_cast<char*>(image.data()), image.size())), cfi_(dwarf_getcfi_elf(elf_)) {}
  LibdwFile(const LibdwFile&) = delete;
  LibdwFile& operator=(const LibdwFile&) = delete;
  ~LibdwFile() {
    dwarf_cfi_end(cfi_);
    elf_end(elf_);
  }
  [[nodiscard]] bool has_cfi() const { return cfi_ != nullptr; }

  [[nodiscard]] LibdwStep step(Machine machine, std::uint64_t pc, const UnwindRegisters& registers,
                               const StackCopy& stack) const {
    LibdwStep step;
    Dwarf_Frame* frame = nullptr;
    if (cfi_ == nullptr || dwarf_cfi_addrframe(cfi_, pc, &frame) != 0) return step;
    step.has_cfi = true;
    Dwarf_Addr begin = 0, end = 0;
    dwarf_frame_info(frame, &begin, &end, &step.is_signal_frame);
    fill(step, machine, frame, registers, stack);
    std::free(frame);
    return step;
  }

 private:
  static void fill(LibdwStep& step, Machine machine, Dwarf_Frame* frame, const UnwindRegisters& registers,
                   const StackCopy& stack) {
    const MachineTraits& traits = traits_of(machine);
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0) return;
    step.cfa = value_of({ops, count}, registers, stack, 0);
    for (std::size_t number = 0; number < traits.registers && step.cfa; ++number) {
      if (number == 32) continue;  // arm64's pc is our own number
      Dwarf_Op memory[3];
      if (dwarf_frame_register(frame, static_cast<int>(number), memory, &ops, &count) != 0) continue;
      if (count == 0 && ops == memory && number == traits.return_address) step.is_outermost = true;
      if (count == 0 && ops == memory) continue;  // undefined
      if (count == 0 && registers.knows(number)) step.caller.set(number, registers.values[number]);
      if (count == 0) continue;  // same
      place(step, number, {ops, count}, registers, stack);
    }
  }
  static void place(LibdwStep& step, std::size_t number, std::span<const Dwarf_Op> ops,
                    const UnwindRegisters& registers, const StackCopy& stack) {
    auto value = value_of(ops, registers, stack, *step.cfa);
    const std::uint8_t last = ops.back().atom;
    const bool in_register = ops.size() == 1 && (last == DW_OP_regx || (last >= DW_OP_reg0 && last <= DW_OP_reg31));
    if (value && last != DW_OP_stack_value && !in_register) value = stack.read(*value);
    if (value) step.caller.set(number, *value);
    if (!value) step.unreadable |= std::uint64_t{1} << number;
  }
  // The address, or with DW_OP_stack_value and for a register the value.
  static std::optional<std::uint64_t> value_of(std::span<const Dwarf_Op> ops, const UnwindRegisters& registers,
                                               const StackCopy& stack, std::uint64_t cfa) {
    Bytes bytes;
    for (const Dwarf_Op& op : ops) {
      if (op.atom == DW_OP_stack_value) continue;
      if (op.atom == DW_OP_call_frame_cfa) {
        append(bytes, std::uint8_t{DW_OP_const8u});
        append(bytes, cfa);
        continue;
      }
      if (op.atom == DW_OP_regx || (op.atom >= DW_OP_reg0 && op.atom <= DW_OP_reg31)) {
        append(bytes, std::uint8_t{DW_OP_bregx});
        append_uleb(bytes, op.atom == DW_OP_regx ? op.number : op.atom - std::uint64_t{DW_OP_reg0});
        append_sleb(bytes, 0);
        continue;
      }
      append_operation(bytes, op);
    }
    return evaluate(bytes, registers, stack, std::nullopt).value;
  }
  static void append_operation(Bytes& bytes, const Dwarf_Op& op) {
    append(bytes, op.atom);
    const auto number = static_cast<std::int64_t>(op.number);
    if (op.atom >= DW_OP_breg0 && op.atom <= DW_OP_breg31) return append_sleb(bytes, number);
    switch (op.atom) {
      case DW_OP_bregx:
        append_uleb(bytes, op.number);
        return append_sleb(bytes, static_cast<std::int64_t>(op.number2));
      case DW_OP_const1u:
      case DW_OP_const1s:
      case DW_OP_pick:
        return append(bytes, static_cast<std::uint8_t>(number));
      case DW_OP_const2u:
      case DW_OP_const2s:
        return append(bytes, static_cast<std::uint16_t>(number));
      case DW_OP_const4u:
      case DW_OP_const4s:
        return append(bytes, static_cast<std::uint32_t>(number));
      case DW_OP_const8u:
      case DW_OP_const8s:
        return append(bytes, op.number);
      case DW_OP_constu:
      case DW_OP_plus_uconst:
        return append_uleb(bytes, op.number);
      case DW_OP_consts:
        return append_sleb(bytes, number);
      default:
        return;
    }
  }

  Elf* elf_;
  Dwarf_CFI* cfi_;
};

}  // namespace flight::test
