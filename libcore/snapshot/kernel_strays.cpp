// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/kernel_strays.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace flight {
namespace {

struct Suspect {
  std::uint64_t first = 0, last = 0;  // addresses
  EventTime begin_ns = 0, end_ns = UINT64_MAX;
  std::size_t map = 0;
  bool stray = false;
};

// By address; no two maps of a KernelWindow overlap.
std::vector<Suspect> suspects_of(const KernelWindow& kernel, const Selection& selection) {
  std::vector<Suspect> out;
  for (std::size_t i = 0; i < kernel.maps.size(); ++i) {
    const KernelMap& map = kernel.maps[i];
    if (map.begin_ns <= selection.begin_ns && map.end_ns == 0) continue;
    out.push_back({.first = map.address,
                   .last = map.address + (map.bytes - 1),
                   .begin_ns = map.begin_ns,
                   .end_ns = map.end_ns == 0 ? UINT64_MAX : map.end_ns,
                   .map = i});
  }
  std::sort(out.begin(), out.end(), [](const Suspect& a, const Suspect& b) { return a.first < b.first; });
  return out;
}

void look_at(std::span<const std::byte> record, EventTime time_ns, std::vector<Suspect>& suspects) {
  for (std::size_t at = sizeof(perf_event_header); at + sizeof(std::uint64_t) <= record.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, record.data() + at, sizeof word);
    if (word < suspects.front().first || word > suspects.back().last) continue;
    const auto behind = std::upper_bound(suspects.begin(), suspects.end(), word,
                                         [](std::uint64_t value, const Suspect& one) { return value < one.first; });
    Suspect& one = *std::prev(behind);
    if (word <= one.last && (time_ns < one.begin_ns || time_ns > one.end_ns)) one.stray = true;
  }
}

}  // namespace

void drop_strays(KernelWindow& kernel, const Selection& selection) {
  std::vector<Suspect> suspects = suspects_of(kernel, selection);
  if (suspects.empty()) return;
  RecordScratch scratch;
  for (const RingSelection& ring : selection.rings)
    for (std::size_t i = ring.first; i < ring.last; ++i) {
      const RecordRef& record = ring.walk.records[i];
      if (record.type == PERF_RECORD_SAMPLE)
        look_at(record_bytes(ring.image, record, scratch.bytes()), record.time_ns, suspects);
    }
  std::set<std::string> named;
  std::vector<bool> stray(kernel.maps.size(), false);
  for (const Suspect& one : suspects)
    if (one.stray) {
      stray[one.map] = true;
      named.insert(module_name(kernel.maps[one.map]));
    }
  if (named.empty()) return;
  std::vector<KernelMap> left;
  for (std::size_t i = 0; i < kernel.maps.size(); ++i)
    if (!stray[i]) left.push_back(std::move(kernel.maps[i]));
  kernel.maps = std::move(left);
  kernel.warnings.push_back(fmt::format(
      "other code ran at the addresses of kernel modules before they were loaded or after they were unloaded: {}; "
      "these addresses have no names",
      listed(named)));
}

}  // namespace flight
