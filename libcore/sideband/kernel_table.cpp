// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/kernel_table.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

constexpr std::size_t kTreeNodeBytes = 96;
constexpr std::size_t kOldestCgroupsKept = 1024;  // the system's slices are among them
// One with more than this fraction of all cgroups, or of their bytes, has to give way.
constexpr std::size_t kOwnerShares = 4;
constexpr std::size_t kForgottenAtOnce = 8;  // this fraction of its cgroups: each look for it reads the whole table
constexpr std::size_t kForgottenSingly = 512;
constexpr int kOwnerDepth = 4;  // /kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice/cri-ID.scope
constexpr std::size_t kAgeBytes = 48;  // a symbol's node in by_age_
constexpr std::uint16_t kUnregistered = PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER;

// The path down to this level; the whole path if it is not that deep.
std::string_view top_of(std::string_view path, int depth) {
  std::size_t end = 0;
  for (int i = 0; i < depth && end != std::string_view::npos; ++i) end = path.find('/', end + 1);
  return path.substr(0, end);
}

std::size_t symbol_cost(std::string_view name) { return kTreeNodeBytes + kAgeBytes + name.size(); }

bool is_below(std::string_view path, std::string_view top) {
  return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

}  // namespace

void KernelTable::apply(std::span<const std::byte> record) {
  const auto type = load<perf_event_header>(record.data()).type;
  if (type == PERF_RECORD_CGROUP) {
    if (const auto cgroup = parse_cgroup(record)) add_cgroup(*cgroup);
  } else if (type == PERF_RECORD_KSYMBOL) {
    if (const auto symbol = parse_ksymbol(record)) add_ksymbol(*symbol, parse_trailer(record)->time_ns);
  }
}

void KernelTable::apply_scanned(std::span<const std::byte> record) {
  const auto cgroup = parse_cgroup(record);
  if (!cgroup) return;
  const auto known = cgroups_.find(cgroup->id);
  const bool is_part = known != cgroups_.end() && (cgroup->path == "/" || known->second.ends_with(cgroup->path));
  if (!is_part) add_cgroup(*cgroup);
}

void KernelTable::add_cgroup(const CgroupRecord& cgroup) {
  if (cgroup.path.empty()) return;
  std::string& path = cgroups_[cgroup.id];
  if (path.empty()) cgroup_bytes_ += kTreeNodeBytes;
  cgroup_bytes_ -= path.size();
  path = cgroup.path;
  cgroup_bytes_ += path.size();
  while (cgroups_.size() > kMaxCgroups || (cgroup_bytes_ > most_bytes_ && cgroups_.size() > 1))
    forget_cgroups(cgroup.id);
}

void KernelTable::forget_cgroups(std::uint64_t added) {
  if (forget_singly_ == 0) {
    const std::string owner = largest_owner();
    if (!owner.empty()) return forget_cgroups_of(owner, added);
    forget_singly_ = kForgottenSingly;
  }
  --forget_singly_;
  forget_a_cgroup(added);
}

// The deepest path with more than one kOwnerShares-th of all cgroups, or of their bytes, below it: a pod rather than
// the slice of all pods. Empty: there is none.
std::string KernelTable::largest_owner() const {
  struct Has {
    std::size_t cgroups = 0, bytes = 0;
  };
  std::string owner;
  for (int depth = 1; depth <= kOwnerDepth; ++depth) {
    std::unordered_map<std::string_view, Has> tops;
    for (const auto& [id, path] : cgroups_) {
      if (!is_below(path, owner)) continue;
      Has& has = tops[top_of(path, depth)];
      ++has.cgroups;
      has.bytes += kTreeNodeBytes + path.size();
    }
    // In thousandths of all.
    const auto part = [this](const Has& has) {
      return std::max(has.cgroups * 1000 / cgroups_.size(), has.bytes * 1000 / cgroup_bytes_);
    };
    const auto largest = std::max_element(tops.begin(), tops.end(), [&](const auto& one, const auto& other) {
      return part(one.second) < part(other.second);
    });
    if (largest == tops.end() || part(largest->second) <= 1000 / kOwnerShares) break;
    owner = largest->first;
  }
  return owner;
}

KernelTable::Cgroups::iterator KernelTable::after_the_oldest() {
  const std::size_t kept = std::min<std::size_t>(kOldestCgroupsKept, cgroups_.size() / 2);
  return std::next(cgroups_.begin(), static_cast<std::ptrdiff_t>(kept));
}

KernelTable::Cgroups::iterator KernelTable::forget(Cgroups::iterator cgroup) {
  cgroup_bytes_ -= kTreeNodeBytes + cgroup->second.size();
  sampled_.erase(cgroup->first);
  ++forgotten_cgroups_;
  return cgroups_.erase(cgroup);
}

// In the order of forget_a_cgroup().
void KernelTable::forget_cgroups_of(std::string_view owner, std::uint64_t added) {
  std::size_t left = 0;
  for (const auto& [id, path] : cgroups_) left += is_below(path, owner) ? 1 : 0;
  left = std::max<std::size_t>(left / kForgottenAtOnce, 1);
  for (const bool sampled : {false, true}) {
    const auto forget_between = [&](Cgroups::iterator from, std::uint64_t to_id) {
      while (from != cgroups_.end() && from->first < to_id && left > 0) {
        const bool goes =
            from->first != added && is_below(from->second, owner) && (sampled || !sampled_.contains(from->first));
        if (goes) --left;
        from = goes ? forget(from) : std::next(from);
      }
    };
    const auto middle = after_the_oldest();
    const std::uint64_t middle_id = middle == cgroups_.end() ? ~std::uint64_t{0} : middle->first;
    forget_between(middle, ~std::uint64_t{0});
    forget_between(cgroups_.begin(), middle_id);
  }
}

// The oldest are the system's slices, and the newest is `added`: one in the middle goes. One that a snapshot has
// samples of goes only if there is no other.
void KernelTable::forget_a_cgroup(std::uint64_t added) {
  const auto middle = after_the_oldest();
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
  forget(gone);
}

void KernelTable::mark_sampled(const std::unordered_set<std::uint64_t>& cgroups) {
  if (sampled_.size() + cgroups.size() > cgroups_.size() / 2) sampled_.clear();
  for (const std::uint64_t id : cgroups)
    if (cgroups_.contains(id)) sampled_.insert(id);
}

void KernelTable::remove(Symbols::iterator symbol) {
  symbol_bytes_ -= symbol_cost(symbol->second.name);
  by_age_.erase(symbol->second.number);
  ksymbols_.erase(symbol);
}

void KernelTable::drop_first_ended() {
  symbol_bytes_ -= symbol_cost(ended_.front().symbol.name);
  ended_.pop_front();
}

void KernelTable::end(Symbols::iterator symbol, EventTime time_ns) {
  if (time_ns < horizon_ns_ || time_ns <= symbol->second.since_ns) return remove(symbol);
  by_age_.erase(symbol->second.number);
  ended_.push_back({.address = symbol->first, .until_ns = time_ns, .symbol = std::move(symbol->second)});
  ksymbols_.erase(symbol);
}

void KernelTable::forget(EventTime horizon_ns) {
  horizon_ns_ = std::max(horizon_ns_, horizon_ns);
  while (!ended_.empty() && ended_.front().until_ns < horizon_ns_) drop_first_ended();
  forgotten_ended_.forget(horizon_ns_);
}

// If there are too many, the oldest is removed: what was loaded last is most likely what runs and what is new to the
// reader.
void KernelTable::add_ksymbol(const KsymbolRecord& symbol, EventTime time_ns) {
  if (const auto old = ksymbols_.find(symbol.address); old != ksymbols_.end()) {
    if (time_ns < old->second.since_ns) return;  // late: it is about what was there before
    end(old, time_ns);
  }
  forgotten_symbols_.erase(symbol.address);
  if ((symbol.flags & kUnregistered) != 0) return;
  symbol_bytes_ += symbol_cost(symbol.name);
  by_age_.emplace(next_number_, symbol.address);
  ksymbols_.emplace(symbol.address, Ksymbol{.bytes = symbol.bytes,
                                            .kind = symbol.kind,
                                            .flags = symbol.flags,
                                            .number = next_number_++,
                                            .since_ns = time_ns,
                                            .name = std::string(symbol.name)});
  // A quarter is for the addresses of those that are forgotten.
  while (ksymbols_.size() + ended_.size() > kMaxKsymbols || symbol_bytes_ > most_bytes_ / 4 * 3) forget_a_symbol();
}

// Those that have ended go first: they name nothing any more.
void KernelTable::forget_a_symbol() {
  if (!ended_.empty()) {
    forgotten_ended_.add(ended_.front().until_ns, 1);
    return drop_first_ended();
  }
  const std::uint64_t oldest = by_age_.begin()->second;
  if (forgotten_symbols_.size() < std::min(kMaxKsymbols, most_bytes_ / 4 / kHashNodeBytes))
    forgotten_symbols_.insert(oldest);
  remove(ksymbols_.find(oldest));
}

void KernelTable::append_cgroups(RecordBuffer& out) const {
  for (const auto& [id, path] : cgroups_) append_cgroup(out, {id, path}, {});
}

KsymbolRecord KernelTable::record_of(std::uint64_t address, const Ksymbol& symbol) {
  return {address, symbol.bytes, symbol.kind, symbol.flags, symbol.name};
}

KsymbolRecord KernelTable::end_of(const Ended& one) {
  return {one.address, 0, one.symbol.kind, kUnregistered, one.symbol.name};
}

}  // namespace flight
