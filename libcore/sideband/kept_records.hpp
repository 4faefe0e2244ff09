// SPDX-License-Identifier: Apache-2.0
// Which records of the sideband rings the process tracker keeps; private to sideband.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flight {

// Whether this type of record is kept, and its content is complete: everything in the log can be parsed.
[[nodiscard]] bool is_whole(std::uint32_t type, std::span<const std::byte> record);

// Whether it is about a task outside of the PID namespace in which the event was opened: its number is 0, or -1 after
// its exit (perf_event_pid() in kernel/events/core.c). All these tasks would share one name.
[[nodiscard]] bool has_no_number(std::uint32_t type, std::span<const std::byte> record);

}  // namespace flight
