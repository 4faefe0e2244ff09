// SPDX-License-Identifier: Apache-2.0
// When a scan began, as its last record says (libcore/broker/protocol.hpp). A broker's first scan is from before its
// recording, and a client can request it long afterwards: what was recorded in between is newer.
#pragma once

#include <cstddef>
#include <span>

#include "libcore/base/clock.hpp"

namespace flight {

// Every process was read at that time or later. 0: it does not say.
[[nodiscard]] EventTime scan_time(std::span<const std::byte> records);

}  // namespace flight
