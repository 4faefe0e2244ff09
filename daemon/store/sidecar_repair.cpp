// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/sidecar_repair.hpp"

#include "daemon/log/log.hpp"
#include "libcore/snapshot/repair.hpp"

namespace flight::daemon {

void give_sidecars(Catalogue& catalogue, const std::optional<std::string>& which) {
  const auto orphans = catalogue.orphans();
  if (!orphans) return;
  std::size_t read = 0;
  for (const SnapshotName& name : *orphans) {
    if (which && *which != fmt::format("{}", name.seq) && *which != "latest") continue;
    if (++read > kMaxRepairs) return;
    auto sidecar = sidecar_from_file(catalogue.folder(), name);
    auto given = sidecar ? catalogue.give_sidecar(name, to_json(*sidecar)) : propagate(sidecar.error());
    if (given)
      log::warn("the sidecar of snapshot {} was missing: a new one was made from the data file", name.seq);
    else
      log::warn("the sidecar of snapshot {} is missing, and no new one could be made: {}", name.seq,
                given.error().what);
  }
}

}  // namespace flight::daemon
