// SPDX-License-Identifier: Apache-2.0
// A snapshot that would be larger than it may be is cut at its oldest end: where the window must begin then. How well
// its records compress is known only by trying, so it is a guess on the careful side, and tried a few times.
#pragma once

#include <cstdint>
#include <optional>

#include "libcore/snapshot/selection.hpp"

namespace flight {

inline constexpr int kMaxFits = 10;  // windows that are tried; each has at most 0.7 of the records of the one before

// Of all selected records.
[[nodiscard]] std::uint64_t record_bytes(const Selection& selection);
// `fitted_bytes` of `all_bytes` (unpacked) went into the file before it was full. nullopt: there is nothing to leave
// out.
[[nodiscard]] std::optional<EventTime> begin_that_fits(const Selection& selection, std::uint64_t fitted_bytes,
                                                       std::uint64_t all_bytes);

}  // namespace flight
