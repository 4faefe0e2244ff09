// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/unwind_table.hpp"

#include <atomic>
#include <cstring>

#include "libcore/unwind/byte_cursor.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kMaxPageBytes = 64U << 10U;  // arm64's largest
constexpr std::size_t kTableAlignment = 8;

std::uint32_t next_serial() {
  static std::atomic<std::uint32_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

Result<UnwindTable> UnwindTable::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kTableHeaderBytes || bytes.size() > kMaxTableBytes)
    return fail(std::errc::invalid_argument, "unwind table of {} bytes", bytes.size());
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kTableAlignment != 0)
    return fail(std::errc::invalid_argument, "unwind table at a wrong alignment");
  UnwindTable table(bytes);
  ByteCursor cursor(bytes);
  const auto magic = cursor.take<std::array<char, kTableMagic.size()>>();
  const auto version = cursor.take<std::uint32_t>();
  if (magic != kTableMagic || version != kTableVersion)
    return fail(std::errc::invalid_argument, "not an unwind table of version {}", kTableVersion);
  const auto elf_machine = cursor.take<std::uint32_t>();
  const auto machine = elf_machine <= 0xffff ? machine_of(static_cast<std::uint16_t>(elf_machine)) : std::nullopt;
  if (!machine) return fail(std::errc::invalid_argument, "unwind table of ELF machine {}", elf_machine);
  table.machine_ = *machine;
  table.base_ = cursor.take<std::uint64_t>();
  table.segment_count_ = cursor.take<std::uint32_t>();
  table.rows_ = cursor.take<std::uint32_t>();
  table.rule_words_ = cursor.take<std::uint32_t>();
  table.expression_bytes_ = cursor.take<std::uint32_t>();
  if (table.segment_count_ > kMaxTableSegments)
    return fail(std::errc::invalid_argument, "unwind table with {} segments", table.segment_count_);
  for (std::uint32_t i = 0; i < table.segment_count_; ++i) table.segments_[i] = cursor.take<TableSegment>();
  // Each count is below 2^32: no sum overflows.
  table.pcs_at_ = kTableHeaderBytes + table.segment_count_ * sizeof(TableSegment);
  table.row_rules_at_ = table.pcs_at_ + std::size_t{table.rows_} * sizeof(std::uint32_t);
  table.rules_at_ = table.row_rules_at_ + std::size_t{table.rows_} * sizeof(std::uint32_t);
  table.expressions_at_ = table.rules_at_ + std::size_t{table.rule_words_} * sizeof(std::uint32_t);
  if (!cursor.ok() || table.expressions_at_ + table.expression_bytes_ != bytes.size())
    return fail(std::errc::invalid_argument, "unwind table of {} bytes does not have the size of its content",
                bytes.size());
  table.serial_ = next_serial();
  return table;
}

// One load, because a writer of the file can change the value between two. parse() checks the alignment; offsets are
// multiples of four and were checked by the caller.
std::uint32_t UnwindTable::word(std::size_t offset) const {
  return __atomic_load_n(reinterpret_cast<const std::uint32_t*>(bytes_.data() + offset), __ATOMIC_RELAXED);
}

std::optional<std::uint64_t> UnwindTable::load_bias(std::uint64_t mapped_at, std::uint64_t file_offset) const {
  std::optional<std::uint64_t> bias;
  std::uint64_t nearest = kMaxPageBytes;
  for (std::uint32_t i = 0; i < segment_count_; ++i) {
    const TableSegment& segment = segments_[i];
    const bool is_inside = file_offset >= segment.file_offset && file_offset - segment.file_offset < segment.bytes;
    // A mapping begins at the page in which the segment begins.
    const std::uint64_t before = is_inside ? 0 : segment.file_offset - file_offset;
    if ((!is_inside && file_offset > segment.file_offset) || before >= nearest) continue;
    nearest = before;
    bias = mapped_at - (segment.address + (file_offset - segment.file_offset));
  }
  return bias;
}

std::uint32_t UnwindTable::find(std::uint64_t address) const {
  const std::uint64_t pc = address - base_;
  if (address < base_ || pc > 0xffffffff) return kNoRule;
  // The last row whose pc is not above the address. The loop has no branch, whose outcome could not be predicted.
  std::size_t first = 0;
  for (std::size_t count = rows_; count > 1;) {
    const std::size_t half = count / 2;
    first = word(pcs_at_ + (first + half) * sizeof(std::uint32_t)) <= pc ? first + half : first;
    count -= half;
  }
  if (rows_ == 0 || word(pcs_at_ + first * sizeof(std::uint32_t)) > pc) return kNoRule;
  return word(row_rules_at_ + first * sizeof(std::uint32_t));
}

std::optional<UnwindRule> UnwindTable::rule(std::uint32_t index) const {
  constexpr std::uint32_t kFixedWords = 2;
  if (index >= rule_words_ || rule_words_ - index < kFixedWords) return std::nullopt;
  const std::size_t at = rules_at_ + std::size_t{index} * sizeof(std::uint32_t);
  const std::uint32_t head = word(at);
  UnwindRule rule;
  rule.saves = head & 0xffU;
  rule.cfa_register = (head >> 8U) & 0xffU;
  rule.flags = head >> 16U;
  if (rule.saves > rule.words.size() || rule.saves > rule_words_ - index - kFixedWords) return std::nullopt;
  rule.cfa_value = word(at + sizeof(std::uint32_t));
  for (std::uint32_t i = 0; i < rule.saves; ++i) rule.words[i] = word(at + (kFixedWords + i) * sizeof(std::uint32_t));
  return rule;
}

std::optional<std::span<const std::byte>> UnwindTable::expression(std::uint32_t position, ExpressionBytes& out) const {
  if (position >= expression_bytes_) return std::nullopt;
  const std::byte* at = bytes_.data() + expressions_at_ + position;
  const std::size_t length = __atomic_load_n(reinterpret_cast<const std::uint8_t*>(at), __ATOMIC_RELAXED);
  if (length > out.size() || length > expression_bytes_ - position - 1) return std::nullopt;
  std::memcpy(out.data(), at + 1, length);
  return std::span<const std::byte>(out).first(length);
}

}  // namespace flight
