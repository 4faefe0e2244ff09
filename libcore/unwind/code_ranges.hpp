// SPDX-License-Identifier: Apache-2.0
// The functions of a file that have call frame information, sorted by address: the input of the table builder.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "libcore/unwind/cfi_entry.hpp"
#include "libcore/unwind/frame_state.hpp"
#include "libcore/unwind/table_builder.hpp"

namespace flight {

// A CIE whose program was run.
struct RunCie {
  Cie cie;
  FrameState initial;
};

struct CodeRange {
  std::uint64_t begin = 0, end = 0;
  const RunCie* cie = nullptr;
  CfiProgram program;
};

class CodeRanges {
 public:
  // `segments` are executable; a range that lies in none of them is refused.
  CodeRanges(std::vector<ElfSegment> segments, TableCounts& counts) : segments_(std::move(segments)), counts_(counts) {}

  // The bytes are borrowed for the life of this object. If two ranges have the same begin, the one added first is kept.
  void add_section(const CfiSection& section, bool has_end);
  // Sorted; a range ends where the next one begins.
  [[nodiscard]] std::vector<CodeRange> take();

 private:
  const RunCie* cie_at(const CfiSection& section, std::uint64_t offset);
  void add(const CfiSection& section, const CfiEntry& entry);

  std::vector<ElfSegment> segments_;
  TableCounts& counts_;
  std::deque<RunCie> cies_;
  std::map<std::uint64_t, const RunCie*> cie_of_offset_;  // of the section that is being added; nullptr: refused
  std::vector<CodeRange> ranges_;
};

}  // namespace flight
