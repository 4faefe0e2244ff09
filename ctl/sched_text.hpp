// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl sched`: the threads that waited longest for a CPU, who ran instead, those in state D, and how
// many were in it over time, beside the pressure.
#pragma once

#include <string>
#include <vector>

#include "ctl/screen.hpp"
#include "libcore/profile/sched.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// `notes`: what is not known.
[[nodiscard]] std::string sched_text(const Sidecar& sidecar, const SchedProfile& profile,
                                     const std::vector<std::string>& notes, const Screen& screen);

// What the events of the file, its holes and the limits leave unknown.
[[nodiscard]] std::vector<std::string> sched_notes(const Sidecar& sidecar, const SchedProfile& profile,
                                                   bool all_covered);

// "345 us", "12.3 ms", "4.81 s"; "-": none.
[[nodiscard]] std::string ns_text(std::uint64_t ns);

}  // namespace flight::ctl
