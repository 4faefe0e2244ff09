// SPDX-License-Identifier: Apache-2.0
// The process tracker's memory includes records of earlier brokers, whose ids are in no header, and its own, which have
// none: they get the current sideband's id. It has no others (libcore/sideband/strangers.hpp).
#pragma once

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

// `events`: of `manifest`.
void relabel(RecordBuffer& log, const Manifest& manifest, const EventTable& events);

}  // namespace flight
