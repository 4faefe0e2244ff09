// SPDX-License-Identifier: Apache-2.0
// A snapshot in one sentence: what fired, and who had the CPUs then and before. It is what the journal, the log and
// Monitor say, so that reading it is often enough:
//
//   cpu-spike: cpu.busy 97 % (above 90 % for 2.1 s, before: 12 %); burn[1234] in burn.service: 94 % of a CPU, on CPU 1
//   (before: 0 %), then kworker/0:1[77]: 3 %
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcore/store/sidecar.hpp"

namespace flight {

inline constexpr std::size_t kMaxHeadlineColumns = 400;

// Printable, on one line, at most kMaxHeadlineColumns wide.
[[nodiscard]] std::string headline(const Sidecar& sidecar);
// Its first part: "cpu.busy 97 % (above 90 % for 2.1 s, before: 12 %)". Without `fired` the reason, or who asked.
[[nodiscard]] std::string why_text(const Sidecar& sidecar);
// Its second part; empty where nobody was sampled.
[[nodiscard]] std::string who_text(const Sidecar& sidecar);

// A value of a metric, with its unit: "97 %", "12".
[[nodiscard]] std::string metric_text(std::string_view metric, double value);
// When the condition was found to hold: its snapshot was asked for then; 0: not known.
[[nodiscard]] EventTime fired_at(const Sidecar& sidecar);
// 0 to 1 as "94 %", "3.2 %".
[[nodiscard]] std::string share_text(double share);
// What one had of the stretch, in CPUs where that is known, else of the samples; nothing: nothing is known.
[[nodiscard]] std::optional<double> part_before(const SidecarTop& row);
[[nodiscard]] std::optional<double> part_now(const SidecarTop& row);
// Whether the parts are of a CPU, so that one may have more than all of one.
[[nodiscard]] bool parts_are_cpus(const Sidecar& sidecar);

}  // namespace flight
