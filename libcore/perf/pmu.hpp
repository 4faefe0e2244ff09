// SPDX-License-Identifier: Apache-2.0
// The part of an event that only sysfs can explain: "cpu/event=0x3c,umask=1/". A PMU's format folder says which
// bits of config, config1 and config2 a term fills; its events folder has ready-made lists of terms.
// Source: Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events}.
#pragma once

#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/perf/event_spec.hpp"

namespace flight {

// type, config, config1 and config2 of `spec` from PMU/TERMS/. ENOENT: no such PMU, term or event (the nearest are
// named). EINVAL: a value that is no number or too wide for its bits.
[[nodiscard]] Result<void> parse_pmu(std::string_view pmu, std::string_view terms, const std::string& sysfs,
                                     EventSpec& spec);

}  // namespace flight
