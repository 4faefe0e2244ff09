// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/code_ranges.hpp"

#include <algorithm>

#include "libcore/unwind/cfa_machine.hpp"

namespace flight {

void CodeRanges::add_section(const CfiSection& section, bool has_end) {
  cie_of_offset_.clear();
  ByteCursor cursor(section.bytes);
  while (!cursor.at_end()) {
    const auto entry = take_cfi_entry(section, cursor);
    if (!entry && cursor.ok() && has_end) continue;  // a terminator; linkers leave some between entries
    if (!entry) break;
    if (entry->is_cie) continue;  // parsed when an FDE needs it
    if (ranges_.size() == kMaxTableFdes) {
      counts_.is_cut = true;
      break;
    }
    add(section, *entry);
  }
}

void CodeRanges::add(const CfiSection& section, const CfiEntry& entry) {
  const RunCie* cie = cie_at(section, entry.cie_offset);
  const Fde fde = cie != nullptr ? parse_fde(section, entry, cie->cie).value_or(Fde{}) : Fde{};
  const auto segment = std::find_if(segments_.begin(), segments_.end(), [&](const ElfSegment& one) {
    return fde.begin >= one.address && fde.begin - one.address < one.memory_bytes;
  });
  if (fde.begin == fde.end || segment == segments_.end()) {
    ++counts_.refused_fdes;
    return;
  }
  ranges_.push_back({fde.begin, std::min(fde.end, segment->address + segment->memory_bytes), cie, fde.program});
  ++counts_.fdes;
}

const RunCie* CodeRanges::cie_at(const CfiSection& section, std::uint64_t offset) {
  const auto found = cie_of_offset_.find(offset);
  if (found != cie_of_offset_.end()) return found->second;
  if (cie_of_offset_.size() == kMaxTableCies) {
    counts_.is_cut = true;
    return nullptr;
  }
  const RunCie*& result = cie_of_offset_[offset];
  ByteCursor cursor(section.bytes);
  cursor.seek(offset);
  const auto entry = take_cfi_entry(section, cursor);
  if (!entry || !entry->is_cie) return nullptr;
  const auto cie = parse_cie(section, *entry);
  if (!cie) return nullptr;
  const FrameState nothing;
  CfaMachine machine(section.machine, *cie, nothing, cie->program, 0);
  if (machine.run() != CfaMachine::Stop::ended) return nullptr;
  result = &cies_.emplace_back(RunCie{*cie, machine.state()});
  ++counts_.cies;
  return result;
}

std::vector<CodeRange> CodeRanges::take() {
  std::stable_sort(ranges_.begin(), ranges_.end(),
                   [](const CodeRange& a, const CodeRange& b) { return a.begin < b.begin; });
  const auto same_begin = [](const CodeRange& a, const CodeRange& b) { return a.begin == b.begin; };
  ranges_.erase(std::unique(ranges_.begin(), ranges_.end(), same_begin), ranges_.end());
  for (std::size_t i = 1; i < ranges_.size(); ++i) ranges_[i - 1].end = std::min(ranges_[i - 1].end, ranges_[i].begin);
  return std::move(ranges_);
}

}  // namespace flight
