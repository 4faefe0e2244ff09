// SPDX-License-Identifier: Apache-2.0
// flightctl status: shows on one screen what flightd is doing now.
#include "ctl/daemon_call.hpp"
#include "ctl/output.hpp"
#include "ctl/status_text.hpp"

namespace flight::ctl {

int run_status(const Common& common) {
  const auto text = ask(common, "GetStatus", "{}", "status");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto status = parse_status(*text);
  if (!status) return complain(common, kBadReply, status.error().what, kRefused);
  return print(stdout, status_text(*status, wall_now(), Screen::here()));
}

}  // namespace flight::ctl
