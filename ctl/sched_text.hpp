// SPDX-License-Identifier: Apache-2.0
// The page of `flightctl sched`: the threads that waited longest for a CPU, who ran instead, those in state D, how many
// were in it over time, beside the pressure, and who ran on each CPU at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ctl/screen.hpp"
#include "libcore/base/clock_history.hpp"
#include "libcore/profile/sched.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::ctl {

// `notes`: what is not known. `most_cpus` of them have a line.
[[nodiscard]] std::string sched_text(const Sidecar& sidecar, const SchedProfile& profile,
                                     const std::vector<std::string>& notes, const Screen& screen,
                                     std::size_t most_cpus = 16);

// A line for each CPU, with a letter for who ran; empty: there are no lanes.
[[nodiscard]] std::string cpu_lanes_text(const SchedProfile& profile, const ClockHistory& clock, const Screen& screen,
                                         std::size_t most_cpus);

// What the events of the file, its holes and the limits leave unknown.
[[nodiscard]] std::vector<std::string> sched_notes(const Sidecar& sidecar, const SchedProfile& profile,
                                                   bool all_covered);
// Of SchedLanes::left_out_off(), for people.
[[nodiscard]] std::string left_out_off_text(std::uint64_t left_out);

// "03:12:01.234" of the wall clock.
[[nodiscard]] std::string moment_text(const ClockHistory& clock, EventTime time_ns);
// "nginx[12]", of a thread that is not the first of its process "nginx[13/12]".
[[nodiscard]] std::string thread_text(const SchedProfile& profile, std::uint32_t number);
// "345 us", "12.3 ms", "4.81 s"; "-": none.
[[nodiscard]] std::string ns_text(std::uint64_t ns);

}  // namespace flight::ctl
