// SPDX-License-Identifier: Apache-2.0
// What a blackout lost. A ring in overwrite mode loses records only while it is paused, so the difference of two
// counts outside a freeze is the loss of the blackout between them.
#pragma once

#include <cstdint>
#include <vector>

#include "libcore/broker/protocol.hpp"

namespace flight::daemon {

// Records lost from `before` to `after`, by ring: element i is of ring channel_rings[i] of the manifest. An event that
// `before` does not have began at 0.
[[nodiscard]] std::vector<std::uint64_t> lost_between(const Counts& before, const Counts& after,
                                                      const Manifest& manifest,
                                                      const std::vector<std::size_t>& channel_rings);

}  // namespace flight::daemon
