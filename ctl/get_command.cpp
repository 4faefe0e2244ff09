// SPDX-License-Identifier: Apache-2.0
// flightctl get ID [-o FILE|-] [--force] [--with-symbols | --plain]: copies a snapshot to a file of the caller, packs
// it in a tar for another machine, or writes it without compression.
#include "ctl/bundle.hpp"
#include "ctl/fetch.hpp"
#include "ctl/output.hpp"
#include "ctl/plain.hpp"

namespace flight::ctl {

int run_get(const Common& common, const std::string& id, const OutputFile& target, GetForm form) {
  if (const std::string why = check_target(target); !why.empty()) return complain(common, kUsageError, why, kUsage);
  const auto where = form == GetForm::bundle  ? fetch_bundle(common, id, target)
                     : form == GetForm::plain ? fetch_plain(common, id, target)
                                              : fetch(common, id, target);
  if (!where) return complain(common, where.error());
  if (target.path == "-") return kDone;
  return print(stdout, common.json ? indented(to_json(std::vector{*where})) : fmt::format("{}\n", printable(*where)));
}

}  // namespace flight::ctl
