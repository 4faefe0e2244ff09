// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/cfi_entry.hpp"

namespace flight {
namespace {

constexpr std::uint32_t kLongLength = 0xfffffff0;  // and above: reserved, or a 64-bit length
constexpr std::uint32_t kEhCieId = 0, kDebugCieId = 0xffffffff;
constexpr std::size_t kMaxAugmentationLetters = 16;

// The letters up to the terminating zero. nullopt: too many.
std::optional<std::span<const std::byte>> take_letters(ByteCursor& cursor, std::span<const std::byte> section) {
  const std::size_t begin = cursor.position();
  for (std::size_t count = 0; count <= kMaxAugmentationLetters; ++count) {
    if (cursor.take<std::uint8_t>() == 0 && cursor.ok()) return section.subspan(begin, count);
  }
  return std::nullopt;
}

// `letters` after the 'z'. An unknown letter ends the parsing: the data's length covers its data.
bool take_augmentation(ByteCursor& cursor, std::span<const std::byte> letters, Cie& cie) {
  for (const std::byte letter : letters) {
    switch (static_cast<char>(letter)) {
      case 'R':
        cie.pointer_encoding = cursor.take<std::uint8_t>();
        break;
      case 'S':
        cie.is_signal_frame = true;
        break;
      case 'L':
        static_cast<void>(cursor.take<std::uint8_t>());
        break;
      case 'P':  // the personality routine
        if (!skip_pointer(cursor, cursor.take<std::uint8_t>())) return false;
        break;
      case 'B':  // arm64: return addresses are signed with key B
      case 'G':  // arm64: tagged stack
        break;
      default:
        return cursor.ok();
    }
  }
  return cursor.ok();
}

}  // namespace

std::optional<CfiEntry> take_cfi_entry(const CfiSection& section, ByteCursor& cursor) {
  CfiEntry entry;
  entry.offset = cursor.position();
  const auto length = cursor.take<std::uint32_t>();
  if (!cursor.ok() || length == 0) return std::nullopt;
  const std::size_t behind_length = cursor.position();
  if (length >= kLongLength || length < sizeof(std::uint32_t)) {
    cursor.seek(~std::uint64_t{0});
    return std::nullopt;
  }
  const auto id = cursor.take<std::uint32_t>();
  entry.content = cursor.position();
  cursor.seek(behind_length + std::uint64_t{length});
  if (!cursor.ok()) return std::nullopt;
  entry.end = cursor.position();
  if (section.format == CfiFormat::eh_frame) {
    entry.is_cie = id == kEhCieId;
    entry.cie_offset =
        behind_length - std::uint64_t{id};  // backwards from the field; a wrong one lies beyond the section
  } else {
    entry.is_cie = id == kDebugCieId;
    entry.cie_offset = id;
  }
  return entry;
}

std::optional<Cie> parse_cie(const CfiSection& section, const CfiEntry& entry) {
  ByteCursor cursor(section.bytes.first(entry.end));
  cursor.seek(entry.content);
  Cie cie;
  const auto version = cursor.take<std::uint8_t>();
  if (version != 1 && version != 3 && version != 4) return std::nullopt;
  const auto letters = take_letters(cursor, section.bytes);
  if (!letters) return std::nullopt;
  if (version == 4) {
    const auto address_bytes = cursor.take<std::uint8_t>();
    const auto selector_bytes = cursor.take<std::uint8_t>();
    if (address_bytes != 8 || selector_bytes != 0) return std::nullopt;
  }
  cie.code_alignment = cursor.take_uleb();
  cie.data_alignment = cursor.take_sleb();
  const std::uint64_t return_address = version == 1 ? cursor.take<std::uint8_t>() : cursor.take_uleb();
  if (!cursor.ok() || return_address != traits_of(section.machine).return_address) return std::nullopt;
  if (!letters->empty()) {
    if (letters->front() != std::byte{'z'}) return std::nullopt;
    cie.has_augmentation_data = true;
    const std::uint64_t bytes = cursor.take_uleb();
    const std::size_t begin = cursor.position();
    if (!take_augmentation(cursor, letters->subspan(1), cie)) return std::nullopt;
    cursor.seek(begin + std::min<std::uint64_t>(bytes, section.bytes.size()));
  }
  if (!cursor.ok() || cursor.left() > kMaxCieProgramBytes) return std::nullopt;
  cie.program = {section.bytes, section.address, cursor.position(), entry.end};
  return cie;
}

std::optional<Fde> parse_fde(const CfiSection& section, const CfiEntry& entry, const Cie& cie) {
  ByteCursor cursor(section.bytes.first(entry.end));
  cursor.seek(entry.content);
  Fde fde;
  fde.cie_offset = entry.cie_offset;
  const auto begin = take_pointer(cursor, cie.pointer_encoding, {section.address, {}});
  // The size has the same format and is not relative.
  const auto bytes = take_pointer(cursor, cie.pointer_encoding & kPointerFormat, {});
  if (!begin || !bytes || *bytes == 0 || *begin + *bytes < *begin) return std::nullopt;
  fde.begin = *begin;
  fde.end = *begin + *bytes;
  if (cie.has_augmentation_data) {
    const std::uint64_t data_bytes = cursor.take_uleb();
    static_cast<void>(cursor.take_bytes(data_bytes));
  }
  if (!cursor.ok()) return std::nullopt;
  fde.program = {section.bytes, section.address, cursor.position(), entry.end};
  return fde;
}

}  // namespace flight
