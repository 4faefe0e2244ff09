// SPDX-License-Identifier: Apache-2.0
// flightctl info [ID|latest]: all that is known about one snapshot.
#include "ctl/daemon_call.hpp"
#include "ctl/info_text.hpp"
#include "ctl/output.hpp"

namespace flight::ctl {

int run_info(const Common& common, const std::string& id) {
  const auto text = ask(common, "DescribeSnapshot", id_parameters(id), "snapshot");
  if (!text) return complain(common, text.error());
  if (common.json) return print(stdout, indented(*text));
  const auto sidecar = parse_sidecar(*text);
  if (!sidecar) return complain(common, kBadReply, sidecar.error().what, kRefused);
  return print(stdout, info_text(*sidecar));
}

}  // namespace flight::ctl
