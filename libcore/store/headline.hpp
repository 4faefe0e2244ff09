// SPDX-License-Identifier: Apache-2.0
// The headline of a snapshot in one sentence: the trigger and its reason, and which processes used the CPUs then and
// before. The journal, the log and Monitor show it:
//
//   cpu-spike: cpu.busy 97 % (above 90 % for 2.1 s, before: 12 %); burn[1234] in burn.service: 94 % of a CPU, on CPU 1
//   (before: 0 %), then payroll.service: 12 %; 3,000 forks/s (before: 2) by healthcheck.service (sh[312])
//
// If only some CPUs are sampled, it says which. Units come first, then programs outside of all units; one process is
// named if it is the largest part.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcore/store/sidecar.hpp"

namespace flight {

inline constexpr std::size_t kMaxHeadlineColumns = 400;
inline constexpr std::size_t kCommColumns = 24;  // a comm has 15 bytes, but a sidecar can come from outside

// Printable, on one line, at most kMaxHeadlineColumns wide.
[[nodiscard]] std::string headline(const Sidecar& sidecar);
// Its first part: "cpu.busy 97 % (above 90 % for 2.1 s, before: 12 %)". Without `fired`: the reason, or the requester.
[[nodiscard]] std::string why_text(const Sidecar& sidecar);
// Its second part; empty if no process was sampled.
[[nodiscard]] std::string users_text(const Sidecar& sidecar);
// Its third part, "only CPUs 0-3,8 are sampled": the others may have been busy, too. Empty: all CPUs are.
[[nodiscard]] std::string sampled_cpus_text(const Sidecar& sidecar);
// The second and the third part; empty if no process was sampled.
[[nodiscard]] std::string who_text(const Sidecar& sidecar);
// Its last part, if processes are forked fast: "3,000 forks/s (before: 2) by healthcheck.service (sh[312])".
[[nodiscard]] std::string forks_text(const Sidecar& sidecar);

// The name of a task, in at most `most` columns and a frame: "[kworker/0:1]" if the kernel has given it. If a process
// has given it itself and it does not look like a command's, it is in quotation marks (own_name()).
[[nodiscard]] std::string shown_name(std::string_view comm, NamedBy by, std::size_t most = kCommColumns);

// Whether forks_text() is not empty.
[[nodiscard]] bool many_forks(const SidecarForks& forks);

// A value of a metric, with its unit: "97 %", "12".
[[nodiscard]] std::string metric_text(std::string_view metric, double value);
// ", of it 95 % stolen"; empty without a visible part.
[[nodiscard]] std::string stolen_text(const std::optional<double>& stolen);
// When the condition was found to hold, which is the time of the request; 0: unknown.
[[nodiscard]] EventTime fired_at(const Sidecar& sidecar);
// 0 to 1 as "94 %", "3.2 %".
[[nodiscard]] std::string share_text(double share);
// The share of the stretch, in CPUs if that is known, otherwise of the samples; nullopt: unknown.
[[nodiscard]] std::optional<double> part_before(const SidecarTop& row);
[[nodiscard]] std::optional<double> part_before(const SidecarGroup& row);
[[nodiscard]] std::optional<double> part_now(const SidecarTop& row);
[[nodiscard]] std::optional<double> part_now(const SidecarGroup& row);
// "3,000", "2.5".
[[nodiscard]] std::string rate_text(double per_second);
// Whether the shares are relative to one CPU, so that a row can have more than 100 %.
[[nodiscard]] bool parts_are_cpus(const Sidecar& sidecar);

}  // namespace flight
