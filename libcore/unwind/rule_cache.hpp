// SPDX-License-Identifier: Apache-2.0
// A cache of the rule for a pc of a table: most samples have the same few pcs, and each step of a search through a
// large table misses the CPU's cache. Direct-mapped; a table's serial is part of the key, so that the rule of a deleted
// table is never found.
#pragma once

#include <array>
#include <cstdint>

#include "libcore/unwind/unwind_table.hpp"

namespace flight {

class RuleCache {
 public:
  // Like UnwindTable::find.
  [[nodiscard]] std::uint32_t find(const UnwindTable& table, std::uint64_t address) {
    const std::uint64_t mixed = (address ^ (std::uint64_t{table.serial()} << 40U)) * 0x9e3779b97f4a7c15ULL;
    Entry& entry = entries_[mixed >> (64U - kBits)];
    if (entry.address != address || entry.serial != table.serial())
      entry = {address, table.serial(), table.find(address)};
    return entry.rule;
  }

 private:
  static constexpr unsigned kBits = 12;
  struct Entry {
    std::uint64_t address = 0;
    std::uint32_t serial = 0, rule = kNoRule;  // no table has serial 0
  };
  std::array<Entry, std::size_t{1} << kBits> entries_{};  // 64 KiB
};

}  // namespace flight
