// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/kernel_table.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <iterator>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::size_t kTreeNodeBytes = 96;
constexpr std::size_t kOldestCgroupsKept = 1024;  // the system's slices are among them
constexpr std::size_t kAgeBytes = 48;             // a symbol's node in by_age_
constexpr std::uint16_t kUnregistered = PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;

}  // namespace

void KernelTable::apply(std::span<const std::byte> record) {
  const auto type = load<perf_event_header>(record.data()).type;
  if (type == PERF_RECORD_CGROUP) {
    if (const auto cgroup = parse_cgroup(record)) add_cgroup(*cgroup);
  } else if (type == PERF_RECORD_KSYMBOL) {
    if (const auto symbol = parse_ksymbol(record)) add_ksymbol(*symbol);
  }
}

void KernelTable::add_cgroup(const CgroupRecord& cgroup) {
  if (cgroup.path.empty()) return;
  std::string& path = cgroups_[cgroup.id];
  if (path.empty()) cgroup_bytes_ += kTreeNodeBytes;
  cgroup_bytes_ -= path.size();
  path = cgroup.path;
  cgroup_bytes_ += path.size();
  while (cgroups_.size() > kMaxCgroups || (cgroup_bytes_ > most_bytes_ && cgroups_.size() > 1))
    forget_a_cgroup(cgroup.id);
}

// The oldest are the system's slices, and the newest is `added`: one in the middle goes. One that a snapshot has
// samples of goes only if there is no other.
void KernelTable::forget_a_cgroup(std::uint64_t added) {
  const auto middle = std::next(
      cgroups_.begin(), static_cast<std::ptrdiff_t>(std::min<std::size_t>(kOldestCgroupsKept, cgroups_.size() / 2)));
  auto gone = cgroups_.end();
  for (const bool sampled : {false, true}) {
    const auto may_go = [&](const auto& one) {
      return one.first != added && (sampled || !sampled_.contains(one.first));
    };
    gone = std::find_if(middle, cgroups_.end(), may_go);
    if (gone != cgroups_.end()) break;
    gone = std::find_if(cgroups_.begin(), middle, may_go);
    if (gone != middle) break;
  }
  cgroup_bytes_ -= kTreeNodeBytes + gone->second.size();
  sampled_.erase(gone->first);
  cgroups_.erase(gone);
  ++forgotten_cgroups_;
}

void KernelTable::mark_sampled(const std::unordered_set<std::uint64_t>& cgroups) {
  if (sampled_.size() + cgroups.size() > cgroups_.size() / 2) sampled_.clear();
  for (const std::uint64_t id : cgroups)
    if (cgroups_.contains(id)) sampled_.insert(id);
}

void KernelTable::remove(std::map<std::uint64_t, Ksymbol>::iterator symbol) {
  symbol_bytes_ -= kTreeNodeBytes + kAgeBytes + symbol->second.name.size();
  by_age_.erase(symbol->second.number);
  ksymbols_.erase(symbol);
}

// If there are too many, the oldest is removed: what was loaded last is most likely what runs and what is new to the
// reader.
void KernelTable::add_ksymbol(const KsymbolRecord& symbol) {
  if (const auto old = ksymbols_.find(symbol.address); old != ksymbols_.end()) remove(old);
  forgotten_symbols_.erase(symbol.address);
  if ((symbol.flags & kUnregistered) != 0) return;
  symbol_bytes_ += kTreeNodeBytes + kAgeBytes + symbol.name.size();
  by_age_.emplace(next_number_, symbol.address);
  ksymbols_.emplace(symbol.address,
                    Ksymbol{symbol.bytes, symbol.kind, symbol.flags, next_number_++, std::string(symbol.name)});
  // A quarter is for the addresses of those that are forgotten.
  while (ksymbols_.size() > kMaxKsymbols || symbol_bytes_ > most_bytes_ / 4 * 3) forget_a_symbol();
}

void KernelTable::forget_a_symbol() {
  const std::uint64_t oldest = by_age_.begin()->second;
  if (forgotten_symbols_.size() < std::min(kMaxKsymbols, most_bytes_ / 4 / kHashNodeBytes))
    forgotten_symbols_.insert(oldest);
  remove(ksymbols_.find(oldest));
}

void KernelTable::append_to(RecordBuffer& out) const {
  for (const auto& [id, path] : cgroups_) append_cgroup(out, {id, path}, {});
  for (const auto& [address, symbol] : ksymbols_)
    append_ksymbol(out, {address, symbol.bytes, symbol.kind, symbol.flags, symbol.name}, {});
}

}  // namespace flight
