// SPDX-License-Identifier: Apache-2.0
// The time since when a new CPU, or one that came back, may have run programs without records. Its events are opened
// some time after it is online: until then an exec, a fork or a mapping on it causes no record.
#pragma once

#include "libcore/base/clock.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight::daemon {

// The earliest such time of the CPUs that `now` records and `before` did not. UINT64_MAX: there is no such CPU, or
// `now` is another recording, which begins with a scan.
[[nodiscard]] EventTime unwatched_since(const Manifest& before, const Manifest& now);

// Since when no CPU of this recording ran programs without records. UINT64_MAX: not yet on all of them.
[[nodiscard]] EventTime watched_since(const Manifest& manifest);

}  // namespace flight::daemon
