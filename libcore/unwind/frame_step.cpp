// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/frame_step.hpp"

namespace flight {
namespace {

// Evaluates the places of one rule in one frame.
class PlaceReader {
 public:
  PlaceReader(const UnwindTable& table, const StackCopy& stack, const UnwindRegisters& registers)
      : table_(table), stack_(stack), registers_(registers) {}

  [[nodiscard]] ExpressionValue by_expression(std::uint32_t position, std::optional<std::uint64_t> first) const {
    UnwindTable::ExpressionBytes bytes;
    const auto expression = table_.expression(position, bytes);
    if (!expression) return {};
    return evaluate(*expression, registers_, stack_, first);
  }
  [[nodiscard]] ExpressionValue in_memory(std::uint64_t address) const {
    return {stack_.read(address), ExpressionFault::outside_memory};
  }
  [[nodiscard]] ExpressionValue in_register(std::uint64_t number) const {
    if (!registers_.knows(static_cast<std::size_t>(number))) return {};
    return {registers_.values[static_cast<std::size_t>(number)]};
  }
  [[nodiscard]] ExpressionValue cfa(const UnwindRule& rule) const {
    if (rule.cfa_register == kCfaByExpression) return by_expression(rule.cfa_value, std::nullopt);
    ExpressionValue base = in_register(rule.cfa_register);
    if (base.value) *base.value += static_cast<std::uint64_t>(std::int64_t{static_cast<std::int32_t>(rule.cfa_value)});
    return base;
  }
  [[nodiscard]] ExpressionValue saved(SaveKind kind, std::int32_t value, std::size_t number, std::uint64_t cfa) const {
    const std::uint64_t slot = cfa + static_cast<std::uint64_t>(std::int64_t{value} * kSaveSlotBytes);
    switch (kind) {
      case SaveKind::at_cfa:
        return in_memory(slot);
      case SaveKind::is_cfa:
        return {slot};
      case SaveKind::same:
        return in_register(number);
      case SaveKind::in_register:
        return in_register(static_cast<std::uint32_t>(value));
      case SaveKind::is_expression:
        return by_expression(static_cast<std::uint32_t>(value), cfa);
      case SaveKind::at_expression: {
        const ExpressionValue address = by_expression(static_cast<std::uint32_t>(value), cfa);
        return address.value ? in_memory(*address.value) : address;
      }
      case SaveKind::undefined:
        break;
    }
    return {};
  }

 private:
  const UnwindTable& table_;
  const StackCopy& stack_;
  const UnwindRegisters& registers_;
};

FrameStep step_of(ExpressionFault fault) {
  return fault == ExpressionFault::outside_memory ? FrameStep::outside_stack : FrameStep::no_rule;
}

}  // namespace

FrameStep step_by_rule(const UnwindTable& table, const UnwindRule& rule, const StackCopy& stack, bool is_leaf,
                       UnwindRegisters& registers) {
  const MachineTraits& traits = traits_of(table.machine());
  const bool is_signal_frame = (rule.flags & kSignalFrameFlag) != 0;
  if ((rule.flags & kOutermostFlag) != 0) return FrameStep::outermost;
  const PlaceReader reader(table, stack, registers);
  const ExpressionValue cfa = reader.cfa(rule);
  if (!cfa.value) return step_of(cfa.fault);
  // A signal's frame can be on a separate stack (sigaltstack(2)), at any address.
  const std::uint64_t stack_pointer = registers.values[traits.stack_pointer];
  if (!is_signal_frame && (*cfa.value < stack_pointer || (*cfa.value == stack_pointer && !is_leaf)))
    return FrameStep::no_progress;

  UnwindRegisters caller;
  caller.values = registers.values;
  caller.known = registers.known & traits.callee_saved;
  caller.set(traits.stack_pointer, *cfa.value);
  constexpr std::uint32_t kNumberMask = (1U << kSaveKindShift) - 1;
  constexpr std::uint32_t kKindMask = (1U << (kSaveValueShift - kSaveKindShift)) - 1;
  for (std::uint32_t i = 0; i < rule.saves; ++i) {
    const std::uint32_t word = rule.words[i];
    const std::size_t number = word & kNumberMask;
    const auto kind = static_cast<SaveKind>((word >> kSaveKindShift) & kKindMask);
    if (number >= traits.registers) return FrameStep::no_rule;
    if (kind == SaveKind::undefined) {
      caller.known &= ~(std::uint64_t{1} << number);
      continue;
    }
    const std::int32_t operand = static_cast<std::int32_t>(word) >> kSaveValueShift;
    // The register was popped; compilers do not describe this in an epilogue. The memory below the stack pointer was
    // not copied, and the register already has its value again.
    const bool is_popped =
        is_leaf && kind == SaveKind::at_cfa && number != traits.pc &&
        *cfa.value + static_cast<std::uint64_t>(std::int64_t{operand} * kSaveSlotBytes) < stack_pointer;
    const ExpressionValue value =
        is_popped ? reader.in_register(number) : reader.saved(kind, operand, number, *cfa.value);
    if (value.value) {
      caller.set(number, *value.value);
    } else if (value.fault == ExpressionFault::outside_memory) {
      return FrameStep::outside_stack;
    } else {
      caller.known &= ~(std::uint64_t{1} << number);  // lost; a rule that needs it fails
    }
  }
  if (!caller.knows(traits.return_address) || !caller.knows(traits.stack_pointer)) return FrameStep::no_rule;
  // A signal's frame has the pc itself; otherwise the caller continues at the return address.
  if (!caller.knows(traits.pc)) caller.set(traits.pc, caller.values[traits.return_address]);
  registers = caller;
  return is_signal_frame ? FrameStep::interrupted : FrameStep::caller;
}

FrameStep step_by_frame_pointer(Machine machine, const StackCopy& stack, UnwindRegisters& registers) {
  constexpr std::uint64_t kRecordBytes = 16;
  const MachineTraits& traits = traits_of(machine);
  if (!registers.knows(traits.frame_pointer)) return FrameStep::no_rule;
  const std::uint64_t record = registers.values[traits.frame_pointer];
  if (record == 0) return FrameStep::outermost;
  if (record < registers.values[traits.stack_pointer] || record % 8 != 0) return FrameStep::no_rule;
  const auto frame_pointer = stack.read(record);
  const auto return_address = stack.read(record + 8);
  if (!frame_pointer || !return_address) return FrameStep::outside_stack;
  UnwindRegisters caller;
  caller.set(traits.frame_pointer, *frame_pointer);
  caller.set(traits.stack_pointer, record + kRecordBytes);
  caller.set(traits.return_address, *return_address);
  caller.set(traits.pc, *return_address);
  registers = caller;
  return FrameStep::caller;
}

}  // namespace flight
