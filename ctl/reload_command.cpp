// SPDX-License-Identifier: Apache-2.0
// flightctl reload: flightd and its broker read their configuration again.
#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "libcore/control/config_report.hpp"

namespace flight::ctl {

int run_reload(const Common& common) {
  const auto text = ask_whole(common, "Reload", "{}");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto report = parse_reload_report(*text);
  if (!report) return complain(common, kBadReply, report.error().what, kRefused);
  std::string out =
      fmt::format("configuration {} is in force; {}\n", printable(report->digest),
                  report->changed ? "channels that did not change kept their history" : "all rings kept their history");
  for (const std::string& warning : report->warnings) out += fmt::format("warning: {}\n", printable(warning));
  return print(stdout, out);
}

}  // namespace flight::ctl
