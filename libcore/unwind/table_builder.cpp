// SPDX-License-Identifier: Apache-2.0
#include "libcore/unwind/table_builder.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "libcore/unwind/cfa_machine.hpp"
#include "libcore/unwind/code_ranges.hpp"
#include "libcore/unwind/rule_pool.hpp"
#include "libcore/unwind/signal_trampoline.hpp"
#include "libcore/unwind/unwind_table.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kMaxTableSpan = 0xfffffffe;  // pcs are 32 bits

// The executable segments, except those too far from the first one.
std::vector<ElfSegment> code_segments(const ElfImage& image) {
  std::vector<ElfSegment> code;
  for (const ElfSegment& segment : image.segments()) {
    const bool is_code = segment.type == PT_LOAD && (segment.flags & PF_X) != 0 && segment.memory_bytes != 0;
    if (is_code && segment.memory_bytes <= kMaxTableSpan && segment.address + segment.memory_bytes > segment.address)
      code.push_back(segment);
  }
  std::sort(code.begin(), code.end(), [](const ElfSegment& a, const ElfSegment& b) { return a.address < b.address; });
  if (code.size() > kMaxTableSegments) code.resize(kMaxTableSegments);
  std::erase_if(code, [base = code.empty() ? 0 : code.front().address](const ElfSegment& segment) {
    return segment.address - base + segment.memory_bytes > kMaxTableSpan;
  });
  return code;
}

class TableRows {
 public:
  TableRows(Machine machine, std::uint64_t base, TableCounts& counts)
      : machine_(machine), base_(base), counts_(counts), pool_(machine) {}

  void add_range(const CodeRange& range) {
    CfaMachine run(machine_, range.cie->cie, range.cie->initial, range.program, range.begin);
    while (true) {
      const CfaMachine::Stop stop = run.run();
      if (run.location() >= range.end) break;
      if (stop == CfaMachine::Stop::refused) {
        ++counts_.refused_rules;
        add_row(run.location(), kNoRule);
        break;
      }
      add_row(run.location(), run.state(), range.cie->cie.is_signal_frame);
      if (stop == CfaMachine::Stop::ended) break;
    }
    add_row(range.end, kNoRule);
  }
  void add_row(std::uint64_t pc, const FrameState& state, bool is_signal_frame) {
    const auto rule = pool_.add(state, is_signal_frame);
    if (!rule) ++counts_.refused_rules;
    add_row(pc, rule.value_or(kNoRule));
  }
  void add_row(std::uint64_t pc, std::uint32_t rule) {
    const auto offset = static_cast<std::uint32_t>(pc - base_);
    // The end of the previous range, if this one begins there.
    if (!pcs_.empty() && pcs_.back() == offset) {
      pcs_.pop_back();
      rules_.pop_back();
    }
    if (rule == (rules_.empty() ? kNoRule : rules_.back())) return;
    if (pcs_.size() >= kMaxTableRows) {
      counts_.is_cut = true;
      rule = kNoRule;  // the last one: no CFI follows
      if (pcs_.size() > kMaxTableRows) return;
    }
    pcs_.push_back(offset);
    rules_.push_back(rule);
  }

  [[nodiscard]] std::vector<std::byte> serialize(std::span<const ElfSegment> segments) {
    counts_.rows = pcs_.size();
    counts_.rule_words = pool_.words().size();
    std::vector<std::byte> out;
    append(out, std::span(kTableMagic));
    append_value(out, kTableVersion);
    append_value(out, static_cast<std::uint32_t>(machine_));
    append_value(out, base_);
    for (const std::size_t count : {segments.size(), pcs_.size(), pool_.words().size(), pool_.expressions().size()})
      append_value(out, static_cast<std::uint32_t>(count));
    for (const ElfSegment& segment : segments)
      append_value(out, TableSegment{segment.offset, segment.address, segment.file_bytes});
    append(out, std::span<const std::uint32_t>(pcs_));
    append(out, std::span<const std::uint32_t>(rules_));
    append(out, pool_.words());
    append(out, pool_.expressions());
    return out;
  }

 private:
  template <typename T, std::size_t N>
  static void append(std::vector<std::byte>& out, std::span<const T, N> values) {
    const auto bytes = std::as_bytes(values);
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  static void append_value(std::vector<std::byte>& out, const T& value) {
    append(out, std::span<const T>(&value, 1));
  }

  Machine machine_;
  std::uint64_t base_;
  TableCounts& counts_;
  RulePool pool_;
  std::vector<std::uint32_t> pcs_, rules_;
};

// Ranges and trampolines, both sorted; a trampoline inside a range has CFI.
void add_all(TableRows& rows, std::span<const CodeRange> ranges, std::span<const SignalTrampoline> trampolines,
             TableCounts& counts) {
  std::size_t next = 0;
  std::uint64_t end = 0;  // of the previous range
  const auto add_trampolines = [&](std::uint64_t below) {
    for (; next < trampolines.size() && trampolines[next].begin < below; ++next) {
      const SignalTrampoline& trampoline = trampolines[next];
      if (trampoline.begin < end || trampoline.end > below) continue;
      rows.add_row(trampoline.begin, trampoline.state(), true);
      rows.add_row(trampoline.end, kNoRule);
      ++counts.trampolines;
    }
  };
  for (const CodeRange& range : ranges) {
    add_trampolines(range.begin);
    rows.add_range(range);
    end = range.end;
  }
  add_trampolines(~std::uint64_t{0});
}

}  // namespace

Result<BuiltTable> build_unwind_table(const ElfImage& image) {
  auto eh_frame = image.eh_frame();
  if (!eh_frame) return wrap(std::move(eh_frame.error()), "unwind table");
  // An unreadable .debug_frame is left out: few files have one, and debuggers need it more.
  const auto debug_frame = image.debug_frame().value_or(ElfPart{});

  BuiltTable built;
  const std::vector<ElfSegment> segments = code_segments(image);
  CodeRanges ranges(segments, built.counts);
  const Machine machine = image.machine();
  ranges.add_section({eh_frame->bytes, eh_frame->address, CfiFormat::eh_frame, machine}, eh_frame->has_end);
  ranges.add_section({debug_frame.bytes, debug_frame.address, CfiFormat::debug_frame, machine}, true);
  TableRows rows(machine, segments.empty() ? 0 : segments.front().address, built.counts);
  add_all(rows, ranges.take(), find_signal_trampolines(image, segments), built.counts);
  built.bytes = rows.serialize(segments);
  return built;
}

}  // namespace flight
