// SPDX-License-Identifier: Apache-2.0
// The executable mappings of one process at one time, and the unwind table of each: a pc outside them is not believed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libcore/unwind/unwind_table.hpp"

namespace flight {

inline constexpr std::size_t kMaxCodeMappings = 65536;  // vm.max_map_count's default is 65530

struct CodeMapping {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t load_bias = 0;         // address = address of the file + bias (UnwindTable::load_bias)
  const UnwindTable* table = nullptr;  // borrowed; nullptr: anonymous memory (JIT), or a file without a table yet
  bool is_file = false;
};

class CodeMap {
 public:
  CodeMap() = default;
  // Sorts them. If two overlap, the later one in the given order wins: the kernel replaced the earlier one.
  [[nodiscard]] static CodeMap create(std::vector<CodeMapping> mappings);

  // nullptr: the address is in no executable mapping.
  [[nodiscard]] const CodeMapping* find(std::uint64_t address) const;
  [[nodiscard]] std::span<const CodeMapping> mappings() const { return mappings_; }

 private:
  std::vector<CodeMapping> mappings_;  // ascending, without overlaps
};

}  // namespace flight
