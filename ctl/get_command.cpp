// SPDX-License-Identifier: Apache-2.0
// flightctl get ID [-o FILE|-] [--force] [--with-symbols]: copies a snapshot to a file of the caller, or packs it in a
// tar for another machine.
#include "ctl/bundle.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"

namespace flight::ctl {

int run_get(const Common& common, const std::string& id, const OutputFile& target, bool with_symbols) {
  if (const std::string why = check_target(target); !why.empty()) return complain(common, kUsageError, why, kUsage);
  const auto where = with_symbols ? fetch_bundle(common, id, target) : fetch(common, id, target);
  if (!where) return complain(common, where.error());
  if (target.path == "-") return kDone;
  return print(stdout, common.json ? indented(to_json(std::vector{*where})) : fmt::format("{}\n", printable(*where)));
}

}  // namespace flight::ctl
