// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tests/unit/unwind/test_elf.hpp"

namespace flight::test {
namespace {

std::string hex(const UnwindTable& table, std::uint32_t position) {
  UnwindTable::ExpressionBytes bytes;
  const auto expression = table.expression(position, bytes);
  if (!expression) return "?";
  std::string text;
  for (const std::byte byte : *expression) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

std::string place(const UnwindTable& table, SaveKind kind, std::int32_t value) {
  switch (kind) {
    case SaveKind::undefined:
      return "undefined";
    case SaveKind::same:
      return "same";
    case SaveKind::at_cfa:
      return fmt::format("[cfa{:+}]", value * 8);
    case SaveKind::is_cfa:
      return fmt::format("cfa{:+}", value * 8);
    case SaveKind::in_register:
      return fmt::format("r{}", value);
    case SaveKind::at_expression:
      return fmt::format("[{}]", hex(table, static_cast<std::uint32_t>(value)));
    case SaveKind::is_expression:
      return hex(table, static_cast<std::uint32_t>(value));
  }
  return "?";
}

}  // namespace

std::string describe(const UnwindTable& table, std::uint64_t address) {
  const std::uint32_t index = table.find(address);
  if (index == kNoRule) return "";
  const auto rule = table.rule(index);
  if (!rule) return "not a rule";
  std::string text = rule->cfa_register == kCfaByExpression
                         ? hex(table, rule->cfa_value)
                         : fmt::format("r{}{:+}", rule->cfa_register, static_cast<std::int32_t>(rule->cfa_value));
  for (std::uint32_t i = 0; i < rule->saves; ++i) {
    const std::uint32_t word = rule->words[i];
    text += fmt::format(" r{}={}", word & 63U,
                        place(table, static_cast<SaveKind>((word >> 6U) & 7U), static_cast<std::int32_t>(word) >> 9));
  }
  if ((rule->flags & kOutermostFlag) != 0) text += " outermost";
  if ((rule->flags & kSignalFrameFlag) != 0) text += " signal";
  return text;
}

}  // namespace flight::test
