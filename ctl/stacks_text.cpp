// SPDX-License-Identifier: Apache-2.0
#include "ctl/stacks_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ctl/output.hpp"
#include "libcore/base/text.hpp"
#include "libcore/base/units.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kNumberColumns = 8;
constexpr std::size_t kIndentColumns = 2;

std::string value_text(double value, bool in_cpus, bool with_sign) {
  if (!with_sign) return in_cpus ? fmt::format("{:.2f}", value) : fmt::format("{:.1f}%", value * 100);
  std::string out = in_cpus ? fmt::format("{:+.2f}", value) : fmt::format("{:+.1f}%", value * 100);
  if (out == "-0.00" || out == "-0.0%") out.front() = '+';
  return out;
}

std::string cell(std::string_view text) { return fmt::format("{:>{}}", text, kNumberColumns); }

std::string heads_of(const StacksColumns& columns) {
  std::string out = cell(columns.compared ? "now" : columns.in_cpus ? "CPUs" : "share");
  if (columns.compared) out += cell("before");
  if (columns.change) out += cell("change");
  return out + "\n";
}

std::string cells_of(const StackValues& values, const StacksColumns& columns) {
  const double now = columns.now(values);
  std::string out = cell(value_text(now, columns.in_cpus, false));
  if (!columns.compared) return out;
  const double before = columns.before(values);
  out += cell(value_text(before, columns.in_cpus, false));
  if (columns.change)
    out += cell((is_noise(values, columns.scales) ? "~" : "") + value_text(now - before, columns.in_cpus, true));
  return out;
}

}  // namespace

double StacksColumns::now(const StackValues& values) const {
  return static_cast<double>(compared ? values.now.weight : values.all.weight) * scales.now;
}

double StacksColumns::before(const StackValues& values) const {
  return static_cast<double>(values.before.weight) * scales.before;
}

std::string chain_text(const std::vector<std::string>& names, std::size_t most, const Screen& screen) {
  if (names.empty()) return "";
  const std::string arrow = screen.utf8() ? " → " : " > ";
  std::string first = printable(names.front()), whole = first, last;
  for (std::size_t i = 1; i < names.size(); ++i) whole += arrow + printable(names[i]);
  if (width(whole) <= most) return whole;
  // As many from the end as fit behind the first one and the number of those that do not.
  std::size_t begin = names.size();
  for (; begin > 1; --begin) {
    const std::string longer = arrow + printable(names[begin - 1]) + last;
    const std::string left_out = begin > 2 ? arrow + fmt::format("({} more)", begin - 2) : "";
    if (begin < names.size() && width(first + left_out + longer) > most) break;
    last = longer;
  }
  if (begin > 1) first += arrow + fmt::format("({} more)", begin - 1);
  return screen.cut(first + last, most);
}

std::string stacks_text(const SnapshotProfile& profile, const TreeView& view, const StacksColumns& columns,
                        const Screen& screen) {
  std::string out = heads_of(columns);
  for (const TreeRow& row : view.rows) {
    const std::string cells = cells_of(row.total, columns) + "  ";
    // A deep row is not indented beyond the middle of the screen.
    const std::size_t left = screen.width() > cells.size() ? screen.width() - cells.size() : 1;
    const std::string indent(std::min(kIndentColumns * row.depth, left / 2), ' ');
    std::vector<std::string> names;
    for (const std::uint32_t frame : row.frames) names.push_back(profile.text_of(frame));
    const std::string text = row.depth == 0 ? "all" : chain_text(names, left - indent.size(), screen);
    out += cells + indent + text + "\n";
  }
  if (columns.change && view.rows.size() == 1) out += screen.wrapped("no change is larger than noise", 0);
  if (view.left_out > 0)
    out +=
        screen.wrapped(fmt::format("{} not shown; -n selects how many are", counted(view.left_out, "smaller row")), 0);
  return out;
}

}  // namespace flight::ctl
