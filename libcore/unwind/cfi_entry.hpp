// SPDX-License-Identifier: Apache-2.0
// The two entries of .eh_frame (LSB 5.0, 10.6.1) and .debug_frame (DWARF 5, 6.4.1). A CIE holds what many functions
// have in common, an FDE is one function's.
//
//   length │ CIE id    │ version, augmentation, alignments, return address │ instructions
//   length │ CIE pointer │ begin, size, augmentation data                  │ instructions
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "libcore/unwind/byte_cursor.hpp"
#include "libcore/unwind/eh_pointer.hpp"
#include "libcore/unwind/machine.hpp"

namespace flight {

// A CIE's instructions are run once for all its FDEs; real ones have under 40 bytes.
inline constexpr std::size_t kMaxCieProgramBytes = 1024;

enum class CfiFormat : std::uint8_t { eh_frame, debug_frame };

// A program in its section. The address of each position is needed for pc-relative operands.
struct CfiProgram {
  std::span<const std::byte> section;
  std::uint64_t section_address = 0;
  std::size_t begin = 0, end = 0;
};

struct Cie {
  std::uint64_t code_alignment = 1;
  std::int64_t data_alignment = 1;
  std::uint8_t pointer_encoding = kPointerAbsolute;
  bool has_augmentation_data = false;
  bool is_signal_frame = false;  // its pc is that of the interrupted instruction, not a return address
  CfiProgram program;
};

struct Fde {
  std::uint64_t cie_offset = 0;  // of the CIE in the section
  std::uint64_t begin = 0, end = 0;
  CfiProgram program;
};

// One entry's bounds: the content follows its length.
struct CfiEntry {
  std::size_t offset = 0;            // of the length
  std::size_t content = 0, end = 0;  // behind the id
  bool is_cie = false;
  std::uint64_t cie_offset = 0;  // of an FDE's CIE
};

struct CfiSection {
  std::span<const std::byte> bytes;
  std::uint64_t address = 0;
  CfiFormat format = CfiFormat::eh_frame;
  Machine machine = Machine::x86_64;
};

// The entry at the cursor, which moves to its end. nullopt: the section ends here, with a terminator (length 0: ok()
// holds), or with an entry that is truncated or has 64-bit lengths, which no linker writes (ok() does not hold).
[[nodiscard]] std::optional<CfiEntry> take_cfi_entry(const CfiSection& section, ByteCursor& cursor);
// nullopt: the CIE and its FDEs are refused: an unknown version or augmentation, or another return address.
[[nodiscard]] std::optional<Cie> parse_cie(const CfiSection& section, const CfiEntry& entry);
[[nodiscard]] std::optional<Fde> parse_fde(const CfiSection& section, const CfiEntry& entry, const Cie& cie);

}  // namespace flight
