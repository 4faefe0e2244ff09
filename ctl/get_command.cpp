// SPDX-License-Identifier: Apache-2.0
// flightctl get ID [-o FILE|-]: a snapshot's file, as the caller's own.
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"

namespace flight::ctl {

int run_get(const Common& common, const std::string& id, const std::string& target) {
  if (const std::string why = check_target(target); !why.empty()) return complain(common, kUsageError, why, kUsage);
  const auto where = fetch(common, id, target);
  if (!where) return complain(common, where.error());
  if (target == "-") return kDone;
  return print(stdout, common.json ? indented(to_json(std::vector{*where})) : fmt::format("{}\n", printable(*where)));
}

}  // namespace flight::ctl
