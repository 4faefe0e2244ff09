// SPDX-License-Identifier: Apache-2.0
// Looks once at each record of a ring's part of the window, and notes what all later steps need to know of it. Reading
// the records again would cost as much again, as they are as large as the rings.
#pragma once

#include <vector>

#include "libcore/perf/record.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

// `ring`: walked and cut to the window; its other members are empty, and are filled here. `samples_cpu`: by event, as
// SamplingEvents::on(). `keeps_leaves`: whether RingSelection::leaves is needed. Any thread.
void tally_records(RingSelection& ring, const EventTable& events, const std::vector<bool>& samples_cpu,
                   const SidecarCompared& compared, bool keeps_leaves);

}  // namespace flight
