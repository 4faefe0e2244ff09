// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/forgotten.hpp"

#include <algorithm>

namespace flight {

void Forgotten::add(EventTime until_ns, std::uint64_t count) {
  if (count == 0) return;
  const auto next = std::upper_bound(slices_.begin(), slices_.end(), until_ns,
                                     [](EventTime time, const Slice& slice) { return time < slice.until_ns; });
  if (next != slices_.begin() && until_ns - (next - 1)->begin_ns < kSliceNs) {
    (next - 1)->until_ns = until_ns;
    (next - 1)->count += count;
    return;
  }
  slices_.insert(next, {.begin_ns = until_ns, .until_ns = until_ns, .count = count});
  if (slices_.size() <= kMostSlices) return;
  slices_[1].count += slices_[0].count;
  slices_.erase(slices_.begin());
}

void Forgotten::found_living(EventTime scanned_ns) {
  if (until_ns() != kLiving) return;
  const std::uint64_t count = slices_.back().count;
  slices_.pop_back();
  add(scanned_ns, count);
}

void Forgotten::forget(EventTime before_ns) {
  std::erase_if(slices_, [before_ns](const Slice& slice) { return slice.until_ns < before_ns; });
}

std::uint64_t Forgotten::since(EventTime begin_ns) const {
  std::uint64_t sum = 0;
  for (auto slice = slices_.rbegin(); slice != slices_.rend() && slice->until_ns >= begin_ns; ++slice)
    sum += slice->count;
  return sum;
}

std::uint64_t Forgotten::between(EventTime begin_ns, EventTime end_ns) const {
  std::uint64_t sum = 0;
  for (const Slice& slice : slices_)
    if (slice.until_ns >= begin_ns && slice.begin_ns <= end_ns) sum += slice.count;
  return sum;
}

}  // namespace flight
