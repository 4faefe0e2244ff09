// SPDX-License-Identifier: Apache-2.0
// How many processes were forked in the window, and by which parents. In a storm of short-lived processes each has few
// samples; the process to stop is their parent.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "libcore/snapshot/inherited_units.hpp"
#include "libcore/snapshot/lives.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/snapshot/unit_times.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

struct RankedForks {
  struct OfUnit {
    double per_second = 0;
    std::string program;  // the one that forked most
  };
  SidecarForks sidecar;
  std::unordered_map<std::uint32_t, OfUnit> units;  // by the number in Lives; now, else in the window
};

// `units`: of the processes that fork and have samples; `inherited`: of those without.
[[nodiscard]] RankedForks rank_forks(const Selection& selection, const TrackerExport& sideband, const UnitTimes& units,
                                     Lives& lives, const InheritedUnits& inherited = {});

}  // namespace flight
