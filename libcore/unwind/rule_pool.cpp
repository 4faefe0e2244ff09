// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/rule_pool.hpp"

#include <limits>

#include "libcore/unwind/expression.hpp"
#include "libcore/unwind/unwind_table.hpp"

namespace flight {
namespace {

std::optional<std::int64_t> slots(std::int64_t bytes) {
  if (bytes % kSaveSlotBytes != 0) return std::nullopt;
  return bytes / kSaveSlotBytes;
}

// nullopt: the register has no value, or the ABI's default, which is not stored.
std::optional<SaveKind> save_kind(Where where) {
  switch (where) {
    case Where::undefined:
      return SaveKind::undefined;
    case Where::same:
      return SaveKind::same;
    case Where::at_cfa:
      return SaveKind::at_cfa;
    case Where::is_cfa:
      return SaveKind::is_cfa;
    case Where::in_register:
      return SaveKind::in_register;
    case Where::at_expression:
      return SaveKind::at_expression;
    case Where::is_expression:
      return SaveKind::is_expression;
    case Where::unspecified:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint32_t> RulePool::add(const FrameState& state, bool is_signal_frame) {
  if (!encode(state, is_signal_frame)) return std::nullopt;
  const auto found = index_of_rule_.find(scratch_);
  if (found != index_of_rule_.end()) return found->second;
  if (words_.size() + scratch_.size() > kMaxRuleWords) return std::nullopt;
  const auto index = static_cast<std::uint32_t>(words_.size());
  words_.insert(words_.end(), scratch_.begin(), scratch_.end());
  index_of_rule_.emplace(scratch_, index);
  return index;
}

bool RulePool::encode(const FrameState& state, bool is_signal_frame) {
  const MachineTraits& traits = traits_of(machine_);
  scratch_.assign(2, 0);
  std::uint32_t cfa_register = kCfaByExpression;
  std::uint32_t cfa_value = 0;
  if (state.cfa_kind == CfaKind::from_expression) {
    const auto position = add_expression(state.cfa_expression);
    if (!position) return false;
    cfa_value = *position;
  } else {
    constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
    if (state.cfa_kind == CfaKind::none || state.cfa_register >= traits.registers) return false;
    if (state.cfa_offset > kMax || state.cfa_offset < -kMax) return false;
    cfa_register = static_cast<std::uint32_t>(state.cfa_register);
    cfa_value = static_cast<std::uint32_t>(state.cfa_offset);
  }
  for (std::size_t number = 0; number < traits.registers; ++number) {
    if (!encode_place(number, state.places[number])) return false;
  }
  const auto saves = static_cast<std::uint32_t>(scratch_.size() - 2);
  const bool is_outermost = state.places[traits.return_address].where == Where::undefined;
  const std::uint32_t flags = (is_signal_frame ? kSignalFrameFlag : 0U) | (is_outermost ? kOutermostFlag : 0U);
  scratch_[0] = saves | (cfa_register << 8U) | (flags << 16U);
  scratch_[1] = cfa_value;
  return true;
}

bool RulePool::encode_place(std::size_t number, const RegisterPlace& place) {
  const bool callee_saved = ((traits_of(machine_).callee_saved >> number) & 1U) != 0;
  const auto kind = save_kind(place.where);
  // The ABI's default for an unspecified register.
  if (!kind || (place.where == Where::same && callee_saved)) return true;
  if (place.where == Where::undefined && (!callee_saved || number == traits_of(machine_).return_address)) return true;
  std::optional<std::int64_t> value = 0;
  if (*kind == SaveKind::at_cfa || *kind == SaveKind::is_cfa) value = slots(place.value);
  if (*kind == SaveKind::in_register) value = place.value;
  if (*kind == SaveKind::at_expression || *kind == SaveKind::is_expression) value = add_expression(place.expression);
  if (!value || *value > kMaxSaveValue || *value < -kMaxSaveValue) return false;
  const auto bits = static_cast<std::uint32_t>(*value) << kSaveValueShift;
  scratch_ += static_cast<char32_t>(bits | (static_cast<std::uint32_t>(*kind) << kSaveKindShift) |
                                    static_cast<std::uint32_t>(number));
  return true;
}

std::optional<std::uint32_t> RulePool::add_expression(std::span<const std::byte> expression) {
  if (expression.empty() || expression.size() > kMaxExpressionBytes) return std::nullopt;
  const std::string key(reinterpret_cast<const char*>(expression.data()), expression.size());
  const auto found = position_of_expression_.find(key);
  if (found != position_of_expression_.end()) return found->second;
  if (expressions_.size() + 1 + expression.size() > kMaxExpressionPoolBytes) return std::nullopt;
  const auto position = static_cast<std::uint32_t>(expressions_.size());
  expressions_.push_back(static_cast<std::byte>(expression.size()));
  expressions_.insert(expressions_.end(), expression.begin(), expression.end());
  position_of_expression_.emplace(key, position);
  return position;
}

}  // namespace flight
