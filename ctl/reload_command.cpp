// SPDX-License-Identifier: Apache-2.0
// flightctl reload: flightd and its broker read their configuration again; prints what that changed.
#include <algorithm>

#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "ctl/screen.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/config_report.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kMostChanges = 16;  // on one screen

std::string change_text(const ReportedChange& change) {
  std::string out = "  " + printable(change.path);
  if (!change.now) return out + fmt::format(" is gone, it was {}\n", printable(change.before.value_or("")));
  out += fmt::format(" = {}, {}", printable(*change.now),
                     change.before ? "it was " + printable(*change.before) : std::string("it is new"));
  return out + fmt::format("  ({})\n", file_line(change.file, change.line));
}

std::string history_text(const ReloadReport& report) {
  if (!report.changed) return "all rings kept their history";
  if (!report.lost_history) return "channels that did not change kept their history";
  if (report.lost_history->empty()) return "all channels kept their history";
  std::string names;
  for (const std::string& channel : *report.lost_history)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", printable(channel));
  return report.lost_history->size() == 1 ? fmt::format("channel {} lost its history", names)
                                          : fmt::format("channels {} lost their history", names);
}

std::string reload_text(const ReloadReport& report) {
  std::string out = fmt::format("configuration {} is in force; ", printable(report.digest));
  const bool nothing = report.changes && report.changes->empty();
  if (nothing && !report.changed) return out + "nothing changed\n";
  const std::string history = history_text(report);
  if (!report.changes) return out + history + "\n";
  if (nothing) return out + "no value changed, but rings were opened or closed; " + history + "\n";
  out += fmt::format("{} changed, {}:\n", counted(report.changes->size(), "value"), history);
  const std::size_t shown = std::min(report.changes->size(), kMostChanges);
  for (std::size_t i = 0; i < shown; ++i) out += change_text((*report.changes)[i]);
  if (report.changes->size() > shown) out += fmt::format("  and {} more\n", report.changes->size() - shown);
  return out;
}

}  // namespace

int run_reload(const Common& common) {
  const auto text = ask_whole(common, "Reload", "{}");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto report = parse_reload_report(*text);
  if (!report) return complain(common, kBadReply, report.error().what, kRefused);
  std::string out = reload_text(*report);
  for (const std::string& warning : report->warnings) out += fmt::format("warning: {}\n", printable(warning));
  return print(stdout, page_text(out));
}

}  // namespace flight::ctl
