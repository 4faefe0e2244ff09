// SPDX-License-Identifier: Apache-2.0
// What the sideband tells beside processes: the paths of cgroups, and kernel symbols that come and go (BPF programs,
// trampolines); private to sideband. A cgroup's end is not recorded: they are bounded in number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "libcore/perf/record_build.hpp"

namespace flight {

inline constexpr std::size_t kMaxCgroups = 32768;
inline constexpr std::size_t kMaxKsymbols = 32768;

class KernelTable {
 public:
  // CGROUP and KSYMBOL; others do nothing.
  void apply(std::span<const std::byte> record);
  // As records that were always true.
  void append_to(RecordBuffer& out) const;
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Ksymbol {
    std::uint32_t bytes = 0;
    std::uint16_t kind = 0;
    std::string name;
  };
  void add_cgroup(const CgroupRecord& cgroup);
  void add_ksymbol(const KsymbolRecord& symbol);

  std::map<std::uint64_t, std::string> cgroups_;  // by id; ids grow, so the smallest is the oldest
  std::map<std::uint64_t, Ksymbol> ksymbols_;     // by address
  std::size_t bytes_ = 0;
};

}  // namespace flight
