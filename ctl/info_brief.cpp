// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl info` on a terminal that has no room for all of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ctl/info_text.hpp"
#include "ctl/sidecar_text.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/headline.hpp"

namespace flight::ctl {
namespace {

// Lines of a text that can be long.
constexpr std::size_t kWhoLines = 3, kNamesLines = 2, kReasonLines = 2, kMessageLines = 4;
// Rows of the table, and how many of them matter more than the graph.
constexpr std::size_t kMostRows = 6, kRowsBesideGraph = 3;
// If there are several snapshots, each gets at least these lines, including the empty line between two snapshots.
constexpr std::size_t kLeastOfEach = 5;

std::string head_of(const Sidecar& sidecar, const Screen& screen) {
  std::string out;
  const auto add = [&](const std::string& text, std::size_t most) { out += first_lines(text, most, screen.width()); };
  if (const std::string who = who_text(sidecar); !who.empty()) add(screen.wrapped(who, 0), kWhoLines);
  out += title_text(sidecar, screen);
  if (sidecar.fired || !sidecar.reason.empty())
    add(screen.wrapped(sidecar.fired ? why_text(sidecar) : sidecar.reason, 2), kReasonLines);
  add(names_text(sidecar, screen), kNamesLines);
  return out;
}

std::string end_of(const Sidecar& sidecar, const Screen& screen) {
  return "\n" +
         screen.facts({{"window", window_text(sidecar.window)},
                       {"samples", fmt::format("{} in {}", sidecar.samples, format_bytes(sidecar.size_bytes))},
                       {"losses", losses_text(sidecar)}}) +
         first_lines(warnings_text(sidecar, screen), kMessageLines, screen.width()) + "\n" +
         whole_page_text(sidecar, screen);
}

// One of several: begins with its title.
std::string short_of(const Sidecar& sidecar, const Screen& screen, std::size_t most) {
  std::string out = title_text(sidecar, screen);
  const auto add = [&](const std::string& text, std::size_t lines) { out += first_lines(text, lines, screen.width()); };
  if (sidecar.fired || !sidecar.reason.empty())
    add(screen.wrapped(sidecar.fired ? why_text(sidecar) : sidecar.reason, 2), 1);
  if (const std::string who = who_text(sidecar); !who.empty()) add(screen.wrapped(who, 2), kWhoLines);
  out += screen.wrapped("window: " + window_text(sidecar.window), 2);
  out += warnings_text(sidecar, screen);
  return first_lines(out, most, screen.width());
}

}  // namespace

std::string info_briefs(const std::vector<Sidecar>& sidecars, const Screen& screen, std::size_t most) {
  const std::string end =
      "\n" + screen.wrapped("All of one: `flightctl info ID`; all of each: `flightctl info --all ID ID`.", 0);
  const std::size_t space = most - std::min(most, count_lines(end) + 1);  // and "and 2 more"
  const std::size_t each = std::max(space / std::max<std::size_t>(sidecars.size(), 1), kLeastOfEach);
  const std::size_t shown = std::min(sidecars.size(), std::max<std::size_t>(space / each, 1));
  std::string out;
  for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : "\n") + short_of(sidecars[i], screen, each - 1);
  if (shown < sidecars.size()) out += fmt::format("and {} more\n", sidecars.size() - shown);
  return out + end;
}

std::string info_brief(const Sidecar& sidecar, const Screen& screen, std::size_t most, const std::string& changed) {
  const std::string head = head_of(sidecar, screen), facts = end_of(sidecar, screen);
  // What changed matters more than the graph.
  for (const std::string& end : {changed + facts, facts}) {
    const std::size_t used = count_lines(head) + count_lines(end);
    for (const std::string& graph : {metric_part(sidecar, screen), std::string()})
      for (std::size_t rows = kMostRows; rows > (graph.empty() ? 0U : kRowsBesideGraph - 1); --rows) {
        const std::string middle = graph + busiest_part(sidecar, screen, rows);
        if (used + count_lines(middle) <= most) return head + middle + end;
      }
  }
  return head + facts;
}

}  // namespace flight::ctl
