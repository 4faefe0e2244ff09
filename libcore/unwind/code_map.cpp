// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/code_map.hpp"

#include <algorithm>
#include <map>

namespace flight {
namespace {

// Removes [begin, end) from the mappings.
void cut_out(std::map<std::uint64_t, CodeMapping>& by_begin, std::uint64_t begin, std::uint64_t end) {
  auto at = by_begin.lower_bound(begin);
  if (at != by_begin.begin() && std::prev(at)->second.end > begin) --at;
  while (at != by_begin.end() && at->second.begin < end) {
    const CodeMapping old = at->second;
    at = by_begin.erase(at);
    if (old.begin < begin) {
      CodeMapping left = old;
      left.end = begin;
      by_begin.emplace(left.begin, left);
    }
    if (old.end > end) {
      CodeMapping right = old;
      right.begin = end;
      by_begin.emplace(right.begin, right);
    }
  }
}

}  // namespace

CodeMap CodeMap::create(std::vector<CodeMapping> mappings) {
  if (mappings.size() > kMaxCodeMappings) mappings.resize(kMaxCodeMappings);
  std::map<std::uint64_t, CodeMapping> by_begin;
  for (const CodeMapping& mapping : mappings) {
    if (mapping.begin >= mapping.end) continue;
    cut_out(by_begin, mapping.begin, mapping.end);
    by_begin.emplace(mapping.begin, mapping);
  }
  CodeMap map;
  map.mappings_.reserve(by_begin.size());
  for (const auto& [begin, mapping] : by_begin) map.mappings_.push_back(mapping);
  return map;
}

const CodeMapping* CodeMap::find(std::uint64_t address) const {
  const auto above = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                                      [](std::uint64_t value, const CodeMapping& one) { return value < one.begin; });
  if (above == mappings_.begin()) return nullptr;
  const CodeMapping& mapping = *std::prev(above);
  return address < mapping.end ? &mapping : nullptr;
}

}  // namespace flight
