// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/cfa_machine.hpp"

namespace flight {
namespace {

// DW_CFA_*. The first three have an operand in their low six bits.
constexpr std::uint8_t kPrimary = 0xc0, kOperand = 0x3f;
constexpr std::uint8_t kAdvanceLoc = 0x40, kOffset = 0x80, kRestore = 0xc0;
enum : std::uint8_t {
  kNop = 0x00,
  kSetLoc = 0x01,
  kAdvanceLoc1 = 0x02,
  kAdvanceLoc2 = 0x03,
  kAdvanceLoc4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kRememberState = 0x0a,
  kRestoreState = 0x0b,
  kDefCfa = 0x0c,
  kDefCfaRegister = 0x0d,
  kDefCfaOffset = 0x0e,
  kDefCfaExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSf = 0x11,
  kDefCfaSf = 0x12,
  kDefCfaOffsetSf = 0x13,
  kValOffset = 0x14,
  kValOffsetSf = 0x15,
  kValExpression = 0x16,
  kMipsAdvanceLoc8 = 0x1d,
  kArm64NegateRaStateWithPc = 0x2c,
  kArm64NegateRaState = 0x2d,
  kGnuArgsSize = 0x2e,
  kGnuNegativeOffsetExtended = 0x2f,
};

}  // namespace

CfaMachine::CfaMachine(Machine machine, const Cie& cie, const FrameState& initial, const CfiProgram& program,
                       std::uint64_t begin)
    : cie_(cie),
      initial_(initial),
      program_(program),
      registers_(traits_of(machine).registers),
      cursor_(program.section.first(program.end)),
      state_(initial),
      location_(begin),
      next_location_(begin) {
  cursor_.seek(program.begin);
}

CfaMachine::Stop CfaMachine::run() {
  location_ = next_location_;
  while (!cursor_.at_end()) {
    const Effect effect = execute(cursor_.take<std::uint8_t>());
    if (effect == Effect::refuse || !cursor_.ok()) return Stop::refused;
    if (effect == Effect::advance) return Stop::advanced;
  }
  return Stop::ended;
}

// Unsigned, so that an overflow in a wrong file gives a wrong number and no undefined behaviour.
std::int64_t CfaMachine::factored(std::uint64_t offset) const {
  return static_cast<std::int64_t>(offset * static_cast<std::uint64_t>(cie_.data_alignment));
}

CfaMachine::Effect CfaMachine::set(std::uint64_t number, const RegisterPlace& place) {
  if (number < registers_) state_.places[static_cast<std::size_t>(number)] = place;
  return Effect::none;
}

CfaMachine::Effect CfaMachine::restore(std::uint64_t number) {
  return number < registers_ ? set(number, initial_.places[static_cast<std::size_t>(number)]) : Effect::none;
}

CfaMachine::Effect CfaMachine::advance(std::uint64_t delta) {
  const std::uint64_t next = location_ + delta * cie_.code_alignment;
  if (next < location_) return Effect::refuse;
  next_location_ = next;
  return next == location_ ? Effect::none : Effect::advance;
}

CfaMachine::Effect CfaMachine::restore_state() {
  if (remembered_.empty()) return Effect::refuse;
  state_ = remembered_.back();
  remembered_.pop_back();
  return Effect::none;
}

CfaMachine::Effect CfaMachine::execute(std::uint8_t opcode) {
  const std::uint8_t operand = opcode & kOperand;
  switch (opcode & kPrimary) {
    case kAdvanceLoc:
      return advance(operand);
    case kOffset:
      return set(operand, {Where::at_cfa, factored(cursor_.take_uleb()), {}});
    case kRestore:
      return restore(operand);
    default:
      return execute_extended(opcode);
  }
}

CfaMachine::Effect CfaMachine::execute_extended(std::uint8_t opcode) {
  switch (opcode) {
    case kNop:
      return Effect::none;
    case kRememberState:
      if (remembered_.size() == kMaxRememberedStates) return Effect::refuse;
      remembered_.push_back(state_);
      return Effect::none;
    case kRestoreState:
      return restore_state();
    case kOffsetExtended:
    case kRestoreExtended:
    case kUndefined:
    case kSameValue:
    case kRegister:
    case kExpression:
    case kOffsetExtendedSf:
    case kValOffset:
    case kValOffsetSf:
    case kValExpression:
    case kGnuNegativeOffsetExtended:
      break;
    default:
      return execute_cfa(opcode);
  }
  const std::uint64_t number = cursor_.take_uleb();
  switch (opcode) {
    case kOffsetExtended:
      return set(number, {Where::at_cfa, factored(cursor_.take_uleb()), {}});
    case kOffsetExtendedSf:
      return set(number, {Where::at_cfa, factored(static_cast<std::uint64_t>(cursor_.take_sleb())), {}});
    case kGnuNegativeOffsetExtended:
      return set(number, {Where::at_cfa, factored(~cursor_.take_uleb() + 1), {}});
    case kRestoreExtended:
      return restore(number);
    case kUndefined:
      return set(number, {Where::undefined, 0, {}});
    case kSameValue:
      return set(number, {Where::same, 0, {}});
    case kRegister:
      return set(number, {Where::in_register, static_cast<std::int64_t>(cursor_.take_uleb()), {}});
    case kValOffset:
      return set(number, {Where::is_cfa, factored(cursor_.take_uleb()), {}});
    case kValOffsetSf:
      return set(number, {Where::is_cfa, factored(static_cast<std::uint64_t>(cursor_.take_sleb())), {}});
    case kExpression:
      return set(number, {Where::at_expression, 0, take_block()});
    case kValExpression:
      return set(number, {Where::is_expression, 0, take_block()});
    default:
      return Effect::refuse;
  }
}

CfaMachine::Effect CfaMachine::execute_cfa(std::uint8_t opcode) {
  switch (opcode) {
    case kDefCfa:
    case kDefCfaSf:
      state_.cfa_kind = CfaKind::from_register;
      state_.cfa_register = cursor_.take_uleb();
      state_.cfa_offset = opcode == kDefCfa ? static_cast<std::int64_t>(cursor_.take_uleb())
                                            : factored(static_cast<std::uint64_t>(cursor_.take_sleb()));
      return Effect::none;
    case kDefCfaRegister:
      if (state_.cfa_kind != CfaKind::from_register) return Effect::refuse;
      state_.cfa_register = cursor_.take_uleb();
      return Effect::none;
    case kDefCfaOffset:
    case kDefCfaOffsetSf:
      if (state_.cfa_kind != CfaKind::from_register) return Effect::refuse;
      state_.cfa_offset = opcode == kDefCfaOffset ? static_cast<std::int64_t>(cursor_.take_uleb())
                                                  : factored(static_cast<std::uint64_t>(cursor_.take_sleb()));
      return Effect::none;
    case kDefCfaExpression:
      state_.cfa_kind = CfaKind::from_expression;
      state_.cfa_expression = take_block();
      return Effect::none;
    default:
      return execute_location(opcode);
  }
}

CfaMachine::Effect CfaMachine::execute_location(std::uint8_t opcode) {
  switch (opcode) {
    case kAdvanceLoc1:
      return advance(cursor_.take<std::uint8_t>());
    case kAdvanceLoc2:
      return advance(cursor_.take<std::uint16_t>());
    case kAdvanceLoc4:
      return advance(cursor_.take<std::uint32_t>());
    case kMipsAdvanceLoc8:
      return advance(cursor_.take<std::uint64_t>());
    case kSetLoc: {
      const auto location = take_pointer(cursor_, cie_.pointer_encoding, {program_.section_address, {}});
      if (!location || *location < location_) return Effect::refuse;
      next_location_ = *location;
      return next_location_ == location_ ? Effect::none : Effect::advance;
    }
    default:
      return execute_vendor(opcode);
  }
}

// Whether a return address is signed is not stored: its signature is masked off in any case.
CfaMachine::Effect CfaMachine::execute_vendor(std::uint8_t opcode) {
  switch (opcode) {
    case kArm64NegateRaState:
    case kArm64NegateRaStateWithPc:
      return registers_ == kArm64Traits.registers ? Effect::none : Effect::refuse;
    case kGnuArgsSize:
      static_cast<void>(cursor_.take_uleb());
      return Effect::none;
    default:
      return Effect::refuse;
  }
}

}  // namespace flight
