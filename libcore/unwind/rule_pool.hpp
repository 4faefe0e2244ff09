// SPDX-License-Identifier: Apache-2.0
// The rules of a table under construction: each is stored once, however many rows use it. unwind_table.hpp describes
// the words and the expressions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libcore/unwind/frame_state.hpp"
#include "libcore/unwind/machine.hpp"

namespace flight {

inline constexpr std::size_t kMaxRuleWords = 1U << 20U;             // 4 MiB of a table's 32
inline constexpr std::size_t kMaxExpressionPoolBytes = 64U << 10U;  // equal ones are stored once, too

class RulePool {
 public:
  explicit RulePool(Machine machine) : machine_(machine) {}

  // The index of the rule's first word. nullopt: it cannot be stored: no CFA, an expression that is too long, an offset
  // that is too large or not a multiple of 8, or a full pool.
  [[nodiscard]] std::optional<std::uint32_t> add(const FrameState& state, bool is_signal_frame);

  [[nodiscard]] std::span<const std::uint32_t> words() const { return words_; }
  [[nodiscard]] std::span<const std::byte> expressions() const { return expressions_; }

 private:
  [[nodiscard]] bool encode(const FrameState& state, bool is_signal_frame);
  [[nodiscard]] bool encode_place(std::size_t number, const RegisterPlace& place);
  [[nodiscard]] std::optional<std::uint32_t> add_expression(std::span<const std::byte> expression);

  Machine machine_;
  std::vector<std::uint32_t> words_;
  std::vector<std::byte> expressions_;
  std::u32string scratch_;  // the rule that is being encoded
  std::unordered_map<std::u32string, std::uint32_t> index_of_rule_;
  std::unordered_map<std::string, std::uint32_t> position_of_expression_;
};

}  // namespace flight
