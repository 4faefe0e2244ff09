// SPDX-License-Identifier: Apache-2.0
// The facts of the sideband that are not about processes: paths of cgroups, and kernel symbols that come and go (BPF
// programs, trampolines). Private to sideband. The removal of a cgroup is not recorded, so their number is limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "libcore/perf/record_build.hpp"

namespace flight {

inline constexpr std::size_t kMaxCgroups = 32768;
inline constexpr std::size_t kMaxKsymbols = 32768;

class KernelTable {
 public:
  // Applies CGROUP and KSYMBOL records, ignores others.
  void apply(std::span<const std::byte> record);
  // Calls `visit(address, kind, name)` with each symbol, ascending by address.
  template <typename Visit>
  void for_each_symbol(Visit visit) const {
    for (const auto& [address, symbol] : ksymbols_) visit(address, symbol.kind, std::string_view(symbol.name));
  }
  // Writes records that are valid from the beginning.
  void append_to(RecordBuffer& out) const;
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Ksymbol {
    std::uint32_t bytes = 0;
    std::uint16_t kind = 0, flags = 0;
    std::string name;
  };
  void add_cgroup(const CgroupRecord& cgroup);
  void add_ksymbol(const KsymbolRecord& symbol);

  std::map<std::uint64_t, std::string> cgroups_;  // by id; ids grow, so the smallest is the oldest
  std::map<std::uint64_t, Ksymbol> ksymbols_;     // by address
  std::size_t bytes_ = 0;
};

}  // namespace flight
