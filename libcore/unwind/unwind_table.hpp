// SPDX-License-Identifier: Apache-2.0
// The unwind table of one file: its call frame information in a flat form that is searched without parsing. One process
// writes it (table_builder.hpp), another one maps the file and unwinds with it.
//
// The reader does not trust the bytes, not even to stay as they are while it reads: the counts are copied once, every
// index is checked where it is used, every value is loaded once. Wrong bytes give wrong frames, and nothing else.
// Only a file that is truncated while it is mapped does harm (SIGBUS): map a sealed memfd, or a copy.
//
//        0  "FLUNWIND"
//        8  u32 version           12  u32 ELF machine
//       16  u64 base: the address that pcs are relative to
//       24  u32 segments (S)      28  u32 rows (N)
//       32  u32 rule words (W)    36  u32 expression bytes (E)
//       40  S × { u64 file offset, u64 address, u64 bytes }     executable PT_LOADs
//           N × u32 pc - base, ascending       ┐ a row holds from its pc to the next row's;
//           N × u32 rule: index of a word,     ┘ kNoRule: there is no CFI from here on
//           W × u32 words, the rules:
//                 count of saves │ CFA register << 8 │ flags << 16         CFA register 0xff: an expression
//                 CFA offset (i32, bytes), or position of an expression
//                 count × save: register │ SaveKind << 6 │ value << 9      value: signed, see SaveKind
//           E bytes: expressions, each behind a byte with its length
//
// All numbers are little-endian, as on both machines. Many rows share few rules: libc's 28,522 rows need 2,780 words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "libcore/base/result.hpp"
#include "libcore/unwind/expression.hpp"
#include "libcore/unwind/machine.hpp"

namespace flight {

inline constexpr std::size_t kMaxTableBytes = 32U << 20U;
inline constexpr std::size_t kMaxTableSegments = 16;
inline constexpr std::uint32_t kTableVersion = 1;
inline constexpr std::array<char, 8> kTableMagic = {'F', 'L', 'U', 'N', 'W', 'I', 'N', 'D'};
inline constexpr std::size_t kTableHeaderBytes = 40;
inline constexpr std::uint32_t kNoRule = 0xffffffff;

// The place of a caller's register. Where::unspecified is not stored.
enum class SaveKind : std::uint8_t {
  undefined = 0,
  same = 1,
  at_cfa = 2,         // in memory at CFA + 8 * value
  is_cfa = 3,         // CFA + 8 * value
  in_register = 4,    // value: the register
  at_expression = 5,  // value: position of the expression that yields an address
  is_expression = 6,  // value: position of the expression that yields the register
};
inline constexpr std::int64_t kSaveSlotBytes = 8;
inline constexpr unsigned kSaveKindShift = 6, kSaveValueShift = 9;
inline constexpr std::int32_t kMaxSaveValue = (1 << 22) - 1;  // 23 bits, signed
inline constexpr std::uint32_t kCfaByExpression = 0xff;
// Flags. kOutermostFlag: the return address is undefined, the stack ends here, and the CFA has no meaning.
inline constexpr std::uint32_t kSignalFrameFlag = 1, kOutermostFlag = 2;

struct TableSegment {
  std::uint64_t file_offset = 0, address = 0, bytes = 0;
};

// A rule's words, copied out of the table.
struct UnwindRule {
  std::uint32_t saves = 0, cfa_register = 0, flags = 0;
  std::uint32_t cfa_value = 0;
  std::array<std::uint32_t, kMaxUnwindRegisters> words{};
};

class UnwindTable {
 public:
  // Borrows the bytes, which begin at a multiple of 8. EINVAL: they are not a table of this version.
  [[nodiscard]] static Result<UnwindTable> parse(std::span<const std::byte> bytes);

  [[nodiscard]] Machine machine() const { return machine_; }
  [[nodiscard]] std::uint32_t rows() const { return rows_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }
  // Unique among all tables that this process ever parsed: a key for caches that outlive a table.
  [[nodiscard]] std::uint32_t serial() const { return serial_; }

  // The difference to add to the file's addresses, if the file is mapped from `file_offset` on at `mapped_at`. nullopt:
  // no executable segment is there.
  [[nodiscard]] std::optional<std::uint64_t> load_bias(std::uint64_t mapped_at, std::uint64_t file_offset) const;

  // The rule at an address of the file; kNoRule: there is no CFI.
  [[nodiscard]] std::uint32_t find(std::uint64_t address) const;
  // nullopt: there is no rule at `index`.
  [[nodiscard]] std::optional<UnwindRule> rule(std::uint32_t index) const;
  using ExpressionBytes = std::array<std::byte, kMaxExpressionBytes>;
  // Copies the expression. nullopt: there is none at this position.
  [[nodiscard]] std::optional<std::span<const std::byte>> expression(std::uint32_t position,
                                                                     ExpressionBytes& out) const;

 private:
  explicit UnwindTable(std::span<const std::byte> bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint32_t word(std::size_t offset) const;

  std::span<const std::byte> bytes_;
  Machine machine_ = Machine::x86_64;
  std::uint32_t serial_ = 0;
  std::uint64_t base_ = 0;
  std::uint32_t segment_count_ = 0, rows_ = 0, rule_words_ = 0, expression_bytes_ = 0;
  std::size_t pcs_at_ = 0, row_rules_at_ = 0, rules_at_ = 0, expressions_at_ = 0;
  std::array<TableSegment, kMaxTableSegments> segments_{};
};

}  // namespace flight
