// SPDX-License-Identifier: Apache-2.0
#include "ctl/sidecar_text.hpp"

#include <algorithm>

#include "ctl/output.hpp"
#include "ctl/stacks_page.hpp"
#include "libcore/base/units.hpp"
#include "libcore/store/headline.hpp"

namespace flight::ctl {
namespace {

constexpr std::string_view kOfNames = "names: ";  // the prefix of the process tracker's warnings
constexpr std::size_t kFactsIndent = 10, kMostIdColumns = 24;
// A shortened summary has at most this many lines of each part.
constexpr std::size_t kSummaryNames = 2, kSummaryTop = 3, kSummaryForks = 2;

std::string ratio_text(const Sidecar& sidecar) {
  if (sidecar.size_bytes == 0) return "-";
  return fmt::format("{:.1f} : 1", static_cast<double>(sidecar.raw_bytes) / static_cast<double>(sidecar.size_bytes));
}

// What to type after this page.
std::string next_command(const Sidecar& sidecar, const std::string& host) {
  const std::string program = host.empty() ? "flightctl" : "flightctl -H " + host;
  if (sidecar.samples == 0) return fmt::format("{} info {}", program, sidecar.id);
  return fmt::format("{} stacks {}{}", program, sidecar.id, is_comparable(sidecar) ? " --diff" : "");
}

// `top` comes behind the path.
std::string facts_text(const Sidecar& sidecar, const std::string& host, const std::string& top) {
  const std::string facts = key_values({{"id", sidecar.id},
                                        {"path", sidecar.path},
                                        {"next", next_command(sidecar, host)},
                                        {"window", window_text(sidecar.window)},
                                        {"samples", std::to_string(sidecar.samples)},
                                        {"size", format_bytes(sidecar.size_bytes)},
                                        {"ratio", ratio_text(sidecar)},
                                        {"blackout", micros_text(sidecar.blackout.max_us)},
                                        {"lost", lost_text(sidecar)}});
  const std::size_t behind_path = facts.find('\n', facts.find('\n') + 1) + 1;
  return facts.substr(0, behind_path) + top + facts.substr(behind_path);
}

std::string top_text(const Sidecar& sidecar, const Screen& screen) {
  const std::string who = who_text(sidecar);
  return who.empty() ? "" : screen.wrapped(who, kFactsIndent, "top:");
}

std::string forks_line(const Sidecar& sidecar, const Screen& screen) {
  const std::string forks = forks_text(sidecar);
  return forks.empty() ? "" : screen.wrapped(forks, kFactsIndent, "forks:");
}

}  // namespace

std::string window_text(const SidecarWindow& window) {
  return fmt::format("{} .. {} ({:.1f} s)", local_time(window.begin), local_time(window.end),
                     std::clamp(window.seconds, 0.0, 1e9));
}

std::string size_text(const Sidecar& sidecar) {
  return fmt::format("{}, {} before compression ({})", format_bytes(sidecar.size_bytes),
                     format_bytes(sidecar.raw_bytes), ratio_text(sidecar));
}

std::string micros_text(double us) {
  const double bounded = std::clamp(us, 0.0, 1e15);
  if (bounded < 1000) return fmt::format("{:.1f} us", bounded);
  return bounded < 1e7 ? fmt::format("{:.2f} ms", bounded / 1000) : fmt::format("{:.1f} s", bounded / 1e6);
}

std::string lost_text(const Sidecar& sidecar) {
  return fmt::format("{}{}", sidecar.blackout.lost_exact ? "" : "at least ", sidecar.blackout.lost);
}

std::string names_text(const Sidecar& sidecar, const Screen& screen) {
  std::string out;
  for (const std::string& warning : sidecar.warnings)
    if (warning.starts_with(kOfNames)) out += screen.wrapped(warning, 2, "!");
  return out;
}

std::string warnings_text(const Sidecar& sidecar, const Screen& screen) {
  std::vector<std::string> warnings;
  for (const std::string& warning : sidecar.warnings)
    if (!warning.starts_with(kOfNames)) warnings.push_back(warning);
  if (sidecar.tracker.stale) warnings.emplace_back("records about processes were lost: some names may be missing");
  std::string out;
  for (const auto& [title, texts] :
       {std::pair("errors", &sidecar.errors), {"warnings", &warnings}, {"notes", &sidecar.notes}}) {
    if (!texts->empty()) out += fmt::format("\n{}:\n", title);
    for (const std::string& text : *texts) out += screen.wrapped(text, 2);
  }
  return out;
}

std::string whole_page_text(const Sidecar& sidecar, const Screen& screen) {
  return screen.wrapped(fmt::format("All of it: `flightctl info --all {0}`; in perf: `flightctl report {0}`.",
                                    screen.cut(sidecar.id, kMostIdColumns)),
                        0);
}

std::string summary_text(const Sidecar& sidecar, const Screen& screen, const std::string& host) {
  return names_text(sidecar, screen) + facts_text(sidecar, host, top_text(sidecar, screen)) +
         forks_line(sidecar, screen) + warnings_text(sidecar, screen);
}

std::string summary_brief(const Sidecar& sidecar, const Screen& screen, const std::string& host, std::size_t most) {
  const std::string top = first_lines(top_text(sidecar, screen), kSummaryTop, screen.width());
  const std::string head = first_lines(names_text(sidecar, screen), kSummaryNames, screen.width()) +
                           facts_text(sidecar, host, top) +
                           first_lines(forks_line(sidecar, screen), kSummaryForks, screen.width());
  const std::string end = "\n" + whole_page_text(sidecar, screen);
  const std::size_t used = count_rows(head, screen.width()) + count_rows(end, screen.width());
  return head + first_lines(warnings_text(sidecar, screen), most - std::min(most, used), screen.width()) + end;
}

}  // namespace flight::ctl
