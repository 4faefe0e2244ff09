// SPDX-License-Identifier: Apache-2.0
#include "ctl/doctor/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "libcore/base/text.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kIndent = 6;     // after the longest state
constexpr std::size_t kRestLines = 2;  // the names of what has no room

std::string finding_line(const Finding& finding, bool with_why) {
  std::string line = fmt::format("{}: {}", finding.check, finding.found);
  if (with_why) line += fmt::format(" ({})", finding.why);
  if (!finding.advice.empty()) line += ". To do: " + finding.advice;
  return line;
}

std::string counts_of(const Findings& findings, const Screen& screen) {
  const auto count = [&findings](FindingState state) {
    return std::count_if(findings.begin(), findings.end(), [state](const Finding& f) { return f.state == state; });
  };
  return screen.wrapped(fmt::format("{} ok, {} note, {} warn, {} fail", count(FindingState::ok),
                                    count(FindingState::note), count(FindingState::warn), count(FindingState::fail)),
                        0);
}

}  // namespace

std::string doctor_page(const Findings& findings, const Screen& screen, bool wrapped) {
  std::string out;
  for (const Finding& finding : findings) {
    const std::string state(to_string(finding.state));
    out += wrapped ? screen.wrapped(finding_line(finding, true), kIndent, state)
                   : fmt::format("{:{}}{}\n", state, kIndent, printable(finding_line(finding, true)));
  }
  return out + counts_of(findings, screen);
}

std::string doctor_brief(const Findings& findings, const Screen& screen, std::size_t most) {
  Findings worst_first;
  for (const Finding& finding : findings)
    if (finding.state != FindingState::ok) worst_first.push_back(finding);
  std::stable_sort(worst_first.begin(), worst_first.end(),
                   [](const Finding& a, const Finding& b) { return a.state > b.state; });
  const std::string end =
      counts_of(findings, screen) + screen.wrapped("Each of them, with its reason: `flightctl doctor --all`.", 0);
  const std::size_t room = most - std::min(most, count_lines(end) + kRestLines);
  std::string out, rest;
  std::string_view state_of_rest;
  for (const Finding& finding : worst_first) {
    const std::string_view state = to_string(finding.state);
    const std::string lines =
        screen.wrapped(finding_line(finding, finding.state != FindingState::note), kIndent, state);
    if (rest.empty() && count_lines(out) + count_lines(lines) <= room) {
      out += lines;
      continue;
    }
    if (rest.empty()) state_of_rest = state;
    rest += (rest.empty() ? "also: " : ", ") + finding.check;
  }
  if (!rest.empty()) out += first_lines(screen.wrapped(rest, kIndent, state_of_rest), kRestLines, screen.width());
  return out + end;
}

}  // namespace flight::ctl
