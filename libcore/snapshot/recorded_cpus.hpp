// SPDX-License-Identifier: Apache-2.0
// Channels that do not record all CPUs: which they record, and whose samples the rows of `top` count. A CPU that is not
// recorded has no samples, which must not look as if it had been idle.
#pragma once

#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// By event: whether its samples count as shares of CPU time. It has a frequency, and no event that measures CPU time
// (counts_while_busy()) records its CPUs and others, too: with the samples of both, CPUs that two channels record would
// weigh more than the others. A CPU that an event leaves out is not one of its CPUs.
[[nodiscard]] std::vector<bool> events_that_sample(const Manifest& manifest);

// Sets channel_cpus and top_cpus.
void describe_cpus(const Manifest& manifest, Sidecar& sidecar);

}  // namespace flight
