// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/expression.hpp"

#include <array>

#include "libcore/unwind/byte_cursor.hpp"

namespace flight {
namespace {

// DW_OP_*
enum : std::uint8_t {
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConst8u = 0x0e,
  kConst8s = 0x0f,
  kConstu = 0x10,
  kConsts = 0x11,
  kDup = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kPick = 0x15,
  kSwap = 0x16,
  kAnd = 0x1a,
  kMinus = 0x1c,
  kMul = 0x1e,
  kNeg = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusUconst = 0x23,
  kShl = 0x24,
  kShr = 0x25,
  kShra = 0x26,
  kXor = 0x27,
  kEq = 0x29,
  kGe = 0x2a,
  kGt = 0x2b,
  kLe = 0x2c,
  kLt = 0x2d,
  kNe = 0x2e,
  kLit0 = 0x30,
  kLit31 = 0x4f,
  kBreg0 = 0x70,
  kBreg31 = 0x8f,
  kBregx = 0x92,
  kOpNop = 0x96,
};

template <typename T>
std::uint64_t sign_extended(ByteCursor& cursor) {
  return static_cast<std::uint64_t>(std::int64_t{cursor.take<T>()});
}

std::uint64_t shifted_right(std::uint64_t value, std::uint64_t count, bool arithmetic) {
  const std::uint64_t fill = arithmetic && (value >> 63U) != 0 ? ~std::uint64_t{0} : 0;
  if (count >= 64) return fill;
  if (count == 0) return value;
  return (value >> count) | (fill << (64 - count));
}

// `a` was pushed before `b`.
std::optional<std::uint64_t> binary(std::uint8_t op, std::uint64_t a, std::uint64_t b) {
  const auto signed_a = static_cast<std::int64_t>(a), signed_b = static_cast<std::int64_t>(b);
  switch (op) {
    case kAnd:
      return a & b;
    case kMinus:
      return a - b;
    case kMul:
      return a * b;
    case kOr:
      return a | b;
    case kPlus:
      return a + b;
    case kShl:
      return b < 64 ? a << b : 0;
    case kShr:
      return shifted_right(a, b, false);
    case kShra:
      return shifted_right(a, b, true);
    case kXor:
      return a ^ b;
    case kEq:
      return signed_a == signed_b ? 1U : 0U;
    case kGe:
      return signed_a >= signed_b ? 1U : 0U;
    case kGt:
      return signed_a > signed_b ? 1U : 0U;
    case kLe:
      return signed_a <= signed_b ? 1U : 0U;
    case kLt:
      return signed_a < signed_b ? 1U : 0U;
    case kNe:
      return signed_a != signed_b ? 1U : 0U;
    default:
      return std::nullopt;
  }
}

class Evaluation {
 public:
  Evaluation(std::span<const std::byte> expression, const UnwindRegisters& registers, const StackCopy& stack)
      : cursor_(expression), registers_(registers), memory_(stack) {}

  ExpressionValue run(std::optional<std::uint64_t> first) {
    if (first) push(*first);
    while (!cursor_.at_end() && !failed_) step(cursor_.take<std::uint8_t>());
    if (failed_ || !cursor_.ok() || depth_ == 0) return {std::nullopt, fault_};
    return {stack_[depth_ - 1]};
  }

 private:
  void fail_with(ExpressionFault fault) {
    if (!failed_) fault_ = fault;
    failed_ = true;
  }
  void push(std::uint64_t value) {
    if (depth_ == stack_.size()) return fail_with(ExpressionFault::refused);
    stack_[depth_++] = value;
  }
  std::uint64_t pop() {
    if (depth_ == 0) {
      fail_with(ExpressionFault::refused);
      return 0;
    }
    return stack_[--depth_];
  }
  void pick(std::size_t index) {
    if (index >= depth_) return fail_with(ExpressionFault::refused);
    push(stack_[depth_ - 1 - index]);
  }
  void push_register(std::uint64_t number, std::int64_t offset) {
    if (number >= kMaxUnwindRegisters || !registers_.knows(static_cast<std::size_t>(number)))
      return fail_with(ExpressionFault::refused);
    push(registers_.values[static_cast<std::size_t>(number)] + static_cast<std::uint64_t>(offset));
  }
  void dereference() {
    const auto value = memory_.read(pop());
    if (!value) return fail_with(ExpressionFault::outside_memory);
    push(*value);
  }

  void step(std::uint8_t op) {
    if (op >= kLit0 && op <= kLit31) return push(std::uint64_t{op} - kLit0);
    if (op >= kBreg0 && op <= kBreg31) return push_register(std::uint64_t{op} - kBreg0, cursor_.take_sleb());
    switch (op) {
      case kBregx: {
        const std::uint64_t number = cursor_.take_uleb();
        return push_register(number, cursor_.take_sleb());
      }
      case kDeref:
        return dereference();
      case kDup:
        return pick(0);
      case kOver:
        return pick(1);
      case kPick:
        return pick(cursor_.take<std::uint8_t>());
      case kDrop:
        static_cast<void>(pop());
        return;
      case kPlusUconst:
        return push(pop() + cursor_.take_uleb());
      case kNeg:
        return push(~pop() + 1);
      case kNot:
        return push(~pop());
      case kOpNop:
        return;
      case kSwap: {
        const std::uint64_t b = pop(), a = pop();
        push(b);
        return push(a);
      }
      default:
        return step_constant(op);
    }
  }
  void step_constant(std::uint8_t op) {
    switch (op) {
      case kConst1u:
        return push(cursor_.take<std::uint8_t>());
      case kConst1s:
        return push(sign_extended<std::int8_t>(cursor_));
      case kConst2u:
        return push(cursor_.take<std::uint16_t>());
      case kConst2s:
        return push(sign_extended<std::int16_t>(cursor_));
      case kConst4u:
        return push(cursor_.take<std::uint32_t>());
      case kConst4s:
        return push(sign_extended<std::int32_t>(cursor_));
      case kConst8u:
      case kConst8s:
        return push(cursor_.take<std::uint64_t>());
      case kConstu:
        return push(cursor_.take_uleb());
      case kConsts:
        return push(static_cast<std::uint64_t>(cursor_.take_sleb()));
      default:
        return step_binary(op);
    }
  }
  void step_binary(std::uint8_t op) {
    const std::uint64_t b = pop(), a = pop();
    const auto value = binary(op, a, b);
    if (!value) return fail_with(ExpressionFault::refused);
    push(*value);
  }

  ByteCursor cursor_;
  const UnwindRegisters& registers_;
  const StackCopy& memory_;
  std::array<std::uint64_t, kMaxExpressionStack> stack_{};
  std::size_t depth_ = 0;
  bool failed_ = false;
  ExpressionFault fault_ = ExpressionFault::refused;
};

}  // namespace

ExpressionValue evaluate(std::span<const std::byte> expression, const UnwindRegisters& registers,
                         const StackCopy& stack, std::optional<std::uint64_t> first) {
  return Evaluation(expression, registers, stack).run(first);
}

}  // namespace flight
