// SPDX-License-Identifier: Apache-2.0
// Makes the unwind table of a file from its .eh_frame, and from .debug_frame for code without .eh_frame. The file is
// untrusted input: an error in it loses its own rows, and costs at most the time and memory that the limits allow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/unwind/elf_image.hpp"

namespace flight {

inline constexpr std::size_t kMaxTableCies = 16384;  // linkers merge equal ones: node has 14, libc 3
inline constexpr std::size_t kMaxTableFdes = 1U << 20U;
inline constexpr std::size_t kMaxTableRows = 3U << 20U;  // 24 MiB of a table's 32

struct TableCounts {
  std::size_t cies = 0, fdes = 0, rows = 0, rule_words = 0;
  std::size_t refused_fdes = 0;   // not parsed, outside the code, or of a refused CIE
  std::size_t refused_rules = 0;  // ranges whose rule cannot be stored or ends in an unknown instruction
  std::size_t trampolines = 0;    // signal trampolines without CFI
  bool is_cut = false;            // a limit was reached: addresses beyond it have no CFI
};

struct BuiltTable {
  std::vector<std::byte> bytes;  // UnwindTable::parse reads them
  TableCounts counts;
};

// A file without CFI gives a table without rows. Errors are those of reading the file.
[[nodiscard]] Result<BuiltTable> build_unwind_table(const ElfImage& image);

}  // namespace flight
