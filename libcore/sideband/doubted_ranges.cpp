// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/doubted_ranges.hpp"

#include <algorithm>
#include <utility>

namespace flight {
namespace {

DoubtedRange hull_of(const DoubtedRange& a, const DoubtedRange& b) {
  return {.address = std::min(a.address, b.address),
          .end = std::max(a.end, b.end),
          .first_ns = std::min(a.first_ns, b.first_ns),
          .last_ns = std::max(a.last_ns, b.last_ns),
          .partly = a.partly || b.partly};
}

}  // namespace

void DoubtedRanges::add(std::uint64_t address, std::uint64_t end, EventTime time_ns, bool partly) {
  for (DoubtedRange& one : recorded_)
    if (one.address <= address && end <= one.end && one.first_ns <= time_ns) {
      one.last_ns = std::max(one.last_ns, time_ns);
      return;
    }
  insert({.address = address, .end = end, .first_ns = time_ns, .last_ns = time_ns, .partly = partly});
}

void DoubtedRanges::insert(DoubtedRange range) {
  const auto first =
      std::find_if(fresh_.begin(), fresh_.end(), [&](const auto& one) { return range.address <= one.end; });
  const auto rest = std::find_if(first, fresh_.end(), [&](const auto& one) { return range.end < one.address; });
  for (auto one = first; one != rest; ++one) range = hull_of(range, *one);
  fresh_.insert(fresh_.erase(first, rest), range);
  if (fresh_.size() <= kMost) return;
  auto nearest = fresh_.begin() + 1;
  const auto distance = [](auto one) { return one->address - (one - 1)->end; };
  for (auto one = nearest; one != fresh_.end(); ++one)
    if (distance(one) < distance(nearest)) nearest = one;
  *(nearest - 1) = hull_of(*(nearest - 1), *nearest);
  fresh_.erase(nearest);
}

std::vector<DoubtedRange> DoubtedRanges::take_new() {
  std::vector<DoubtedRange> out = std::exchange(fresh_, {});
  for (const DoubtedRange& range : out) {
    std::erase_if(recorded_,
                  [&](const DoubtedRange& one) { return range.address <= one.address && one.end <= range.end; });
    if (!range.partly) recorded_.push_back(range);
  }
  if (recorded_.size() > kMost)
    recorded_.erase(recorded_.begin(), recorded_.end() - static_cast<std::ptrdiff_t>(kMost));
  return out;
}

std::vector<DoubtedRange> DoubtedRanges::end(std::uint64_t address, std::uint64_t end, EventTime time_ns) {
  std::vector<DoubtedRange> out, later;
  const auto take = [&](const DoubtedRange& one) {
    if (one.address >= end || address >= one.end || one.first_ns > time_ns) return false;
    if (one.last_ns > time_ns) {
      DoubtedRange rest = one;
      rest.address = std::max(address, one.address);
      rest.end = std::min(end, one.end);
      rest.first_ns = time_ns + 1;
      later.push_back(rest);
    }
    return true;
  };
  std::erase_if(recorded_, take);
  std::erase_if(fresh_, [&](const DoubtedRange& one) {
    if (!take(one)) return false;
    out.push_back(one);
    return true;
  });
  for (const DoubtedRange& one : later) insert(one);
  return out;
}

bool DoubtedRanges::doubts(std::uint64_t address, std::uint64_t end, EventTime time_ns) const {
  const auto later = [&](const DoubtedRange& one) {
    return one.address < end && address < one.end && one.last_ns > time_ns;
  };
  return std::any_of(recorded_.begin(), recorded_.end(), later) || std::any_of(fresh_.begin(), fresh_.end(), later);
}

}  // namespace flight
