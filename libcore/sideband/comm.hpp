// SPDX-License-Identifier: Apache-2.0
// The name of a task, as the process tracker keeps it.
#pragma once

#include <array>
#include <string_view>

#include "libcore/perf/record_build.hpp"

namespace flight {

// As in the kernel, NUL-terminated; empty: unknown. The last byte is no part of a name: it distinguishes kLostName from
// a process that calls itself so.
using Comm = std::array<char, 16>;
[[nodiscard]] Comm to_comm(std::string_view name);
[[nodiscard]] Comm to_comm(const CommRecord& record);
[[nodiscard]] Comm lost_comm();  // kLostName
[[nodiscard]] inline std::string_view name_of(const Comm& comm) { return comm.data(); }
[[nodiscard]] inline bool is_lost_comm(const Comm& comm) { return comm.back() != 0; }

}  // namespace flight
