// SPDX-License-Identifier: Apache-2.0
// How many processes were forked in the window, and by which parents. In a storm of short-lived processes each has few
// samples; the process to stop is their parent.
#pragma once

#include "libcore/snapshot/lives.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

[[nodiscard]] SidecarForks rank_forks(const Selection& selection, const TrackerExport& sideband, Lives& lives);

}  // namespace flight
