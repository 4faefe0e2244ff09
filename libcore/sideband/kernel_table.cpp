// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/kernel_table.hpp"

#include <linux/perf_event.h>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::size_t kTreeNodeBytes = 96;
constexpr std::size_t kAgeBytes = 48;  // a symbol's node in by_age_
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
  if (path.empty()) bytes_ += kTreeNodeBytes;
  bytes_ -= path.size();
  path = cgroup.path;
  bytes_ += path.size();
  if (cgroups_.size() <= kMaxCgroups) return;
  // The oldest are the system's slices, and the newest is the one to add: remove one from the middle.
  auto middle = cgroups_.begin();
  std::advance(middle, 1024);
  bytes_ -= kTreeNodeBytes + middle->second.size();
  cgroups_.erase(middle);
  ++forgotten_cgroups_;
}

void KernelTable::remove(std::map<std::uint64_t, Ksymbol>::iterator symbol) {
  bytes_ -= kTreeNodeBytes + kAgeBytes + symbol->second.name.size();
  by_age_.erase(symbol->second.number);
  ksymbols_.erase(symbol);
}

// If there are too many, the oldest is removed: what was loaded last is most likely what runs and what is new to the
// reader.
void KernelTable::add_ksymbol(const KsymbolRecord& symbol) {
  if (const auto old = ksymbols_.find(symbol.address); old != ksymbols_.end()) remove(old);
  forgotten_symbols_.erase(symbol.address);
  if ((symbol.flags & kUnregistered) != 0) return;
  bytes_ += kTreeNodeBytes + kAgeBytes + symbol.name.size();
  by_age_.emplace(next_number_, symbol.address);
  ksymbols_.emplace(symbol.address,
                    Ksymbol{symbol.bytes, symbol.kind, symbol.flags, next_number_++, std::string(symbol.name)});
  if (ksymbols_.size() <= kMaxKsymbols) return;
  const std::uint64_t oldest = by_age_.begin()->second;
  if (forgotten_symbols_.size() < kMaxKsymbols) forgotten_symbols_.insert(oldest);
  remove(ksymbols_.find(oldest));
}

void KernelTable::append_to(RecordBuffer& out) const {
  for (const auto& [id, path] : cgroups_) append_cgroup(out, {id, path}, {});
  for (const auto& [address, symbol] : ksymbols_)
    append_ksymbol(out, {address, symbol.bytes, symbol.kind, symbol.flags, symbol.name}, {});
}

}  // namespace flight
