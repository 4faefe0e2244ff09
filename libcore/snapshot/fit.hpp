// SPDX-License-Identifier: Apache-2.0
// Computes the begin of the window for a snapshot that must fit its size limit; it is cut at the oldest end. The
// compression ratio is known only after writing, so this is a cautious estimate, and the snapshot is written again up
// to kMaxFits times.
#pragma once

#include <cstdint>
#include <optional>

#include "libcore/snapshot/selection.hpp"

namespace flight {

inline constexpr int kMaxFits = 10;  // windows to try; each has at most 0.7 of the records of the previous one

// Size of all selected records.
[[nodiscard]] std::uint64_t record_bytes(const Selection& selection);
// `fitted_bytes` of `all_bytes` (uncompressed) were written before the file was full. nullopt: nothing can be left
// out.
[[nodiscard]] std::optional<EventTime> begin_that_fits(const Selection& selection, std::uint64_t fitted_bytes,
                                                       std::uint64_t all_bytes);

}  // namespace flight
