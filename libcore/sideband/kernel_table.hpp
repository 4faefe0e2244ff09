// SPDX-License-Identifier: Apache-2.0
// The facts of the sideband that are not about processes: paths of cgroups, and kernel symbols that come and go (BPF
// programs, trampolines). Private to sideband. The removal of a cgroup is not recorded, its path can have 4 KB, and a
// user can make thousands; symbols can be many. So each of the two is limited in number and in bytes, or nothing would
// be left for the processes' names. What does not fit is counted. A user's or container's cgroups are all below one: so
// when the table is full, those below the one with the most of them go first.
//
// An address is used again, and the log that has the records can be shorter than a window. So a symbol has its time,
// and one that has ended stays until no window can begin before its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

#include "libcore/perf/record_build.hpp"
#include "libcore/sideband/forgotten.hpp"
#include "libcore/sideband/mappings.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

inline constexpr std::size_t kMaxKsymbols = 32768;

class KernelTable {
 public:
  // `most_bytes`: of the cgroups, and of the symbols.
  explicit KernelTable(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  // Applies CGROUP and KSYMBOL records, ignores others.
  void apply(std::span<const std::byte> record);
  // Applies a scan's CGROUP record. A scan has paths from the root of the broker's cgroup namespace, the kernel's
  // records have them from the root of the hierarchy: of a cgroup, the longer path stays.
  void apply_scanned(std::span<const std::byte> record);
  // No window begins before that any more: symbols that ended earlier are not needed. Never decreases.
  void forget(EventTime horizon_ns);
  // Calls `visit(address, kind, name, since_ns)` with each symbol that is loaded, ascending by address.
  template <typename Visit>
  void for_each_symbol(Visit visit) const {
    for (const auto& [address, symbol] : ksymbols_)
      visit(address, symbol.kind, std::string_view(symbol.name), symbol.since_ns);
  }
  // Calls `visit(address, until_ns)` with each one that has ended.
  template <typename Visit>
  void for_each_ended(Visit visit) const {
    for (const Ended& one : ended_) visit(one.address, one.until_ns);
  }
  // Calls `put(time_ns, record)` with each load and each end that is known; 0: it was there before.
  template <typename Put>
  void for_each_change(Put put) const {
    for (const Ended& one : ended_) {
      put(one.symbol.since_ns, record_of(one.address, one.symbol));
      put(one.until_ns, end_of(one));
    }
    for (const auto& [address, symbol] : ksymbols_) put(symbol.since_ns, record_of(address, symbol));
  }
  // Writes records that are valid from the beginning.
  void append_cgroups(RecordBuffer& out) const;
  // The newest snapshot has samples of these cgroups: they are forgotten last. Those of earlier snapshots, too, but
  // only while they are less than half of all, or removed ones would stay for ever.
  void mark_sampled(const std::unordered_set<std::uint64_t>& cgroups);
  [[nodiscard]] std::size_t bytes() const {
    return cgroup_bytes_ + sampled_.size() * kHashNodeBytes + symbol_bytes_ +
           forgotten_symbols_.size() * kHashNodeBytes;
  }
  // Symbols that are loaded, but were removed for newer ones, and those that have ended, as long as a window may need
  // them. Of loaded ones not more than the memory for them allows to count.
  [[nodiscard]] std::uint64_t forgotten_symbols() const {
    return forgotten_symbols_.size() + forgotten_ended_.since(0);
  }
  // How often a path was removed for a newer one, so far. One that a scan finds again can be removed again.
  [[nodiscard]] std::uint64_t forgotten_cgroups() const { return forgotten_cgroups_; }
  void add_forgotten_cgroups(std::uint64_t count) { forgotten_cgroups_ += count; }

 private:
  struct Ksymbol {
    std::uint32_t bytes = 0;
    std::uint16_t kind = 0, flags = 0;
    std::uint64_t number = 0;  // ascending with time
    EventTime since_ns = 0;    // 0: it was there before
    std::string name;
  };
  struct Ended {
    std::uint64_t address = 0;
    EventTime until_ns = 0;
    Ksymbol symbol;
  };
  [[nodiscard]] static KsymbolRecord record_of(std::uint64_t address, const Ksymbol& symbol);
  [[nodiscard]] static KsymbolRecord end_of(const Ended& one);
  void add_cgroup(const CgroupRecord& cgroup);
  using Cgroups = std::map<std::uint64_t, std::string>;  // by id; ids grow, so the smallest is the oldest
  void forget_cgroups(std::uint64_t added);
  void forget_cgroups_of(std::string_view owner, std::uint64_t added);
  void forget_a_cgroup(std::uint64_t added);
  [[nodiscard]] std::string largest_owner() const;
  [[nodiscard]] Cgroups::iterator after_the_oldest();
  Cgroups::iterator forget(Cgroups::iterator cgroup);
  void forget_a_symbol();
  void add_ksymbol(const KsymbolRecord& symbol, EventTime time_ns);
  using Symbols = std::map<std::uint64_t, Ksymbol>;  // by address
  void end(Symbols::iterator symbol, EventTime time_ns);
  void remove(Symbols::iterator symbol);
  void drop_first_ended();

  std::size_t most_bytes_;
  Cgroups cgroups_;
  std::size_t forget_singly_ = 0;              // so many more, before the largest owner is looked for again
  std::unordered_set<std::uint64_t> sampled_;  // some of their ids
  Symbols ksymbols_;                           // those that are loaded
  std::deque<Ended> ended_;                    // since the horizon, in the order in which they ended
  EventTime horizon_ns_ = 0;
  Forgotten forgotten_ended_;
  std::map<std::uint64_t, std::uint64_t> by_age_;        // their addresses, by number
  std::unordered_set<std::uint64_t> forgotten_symbols_;  // addresses
  std::uint64_t forgotten_cgroups_ = 0, next_number_ = 0;
  std::size_t cgroup_bytes_ = 0, symbol_bytes_ = 0;
};

}  // namespace flight
