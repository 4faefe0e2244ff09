// SPDX-License-Identifier: Apache-2.0
// The part of an event that only sysfs explains: "cpu/event=0x3c,umask=1/". A PMU's format directory lists the bits of
// config, config1 and config2 that a term sets; its events directory has ready-made lists of terms. Source:
// Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events}.
#pragma once

#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/perf/event_spec.hpp"

namespace flight {

// Sets type, config, config1, config2 and needs of `spec` from PMU/TERMS/; or needs and missing_pmu, if this machine
// does not have the PMU and others do. ENOENT: no such PMU, term or event (the text names the nearest ones). EINVAL: a
// value is not a number, or too wide for its bits.
[[nodiscard]] Result<void> parse_pmu(std::string_view pmu, std::string_view terms, const std::string& sysfs,
                                     EventSpec& spec);

}  // namespace flight
