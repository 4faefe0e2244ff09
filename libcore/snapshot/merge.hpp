// SPDX-License-Identifier: Apache-2.0
// Merges all rings and the process tracker's log into one stream of records, ascending in time. Each source is sorted,
// so the merge is exact, and while one source is the oldest its records are copied without looking at others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight {

// `emit` gets whole records in the file's order; the span is valid only during the call. The first error ends the
// merge. For equal times the log comes first, so that a name is known before it is needed. One thread.
[[nodiscard]] Result<void> merge_records(const Selection& selection, std::span<const std::byte> tracker_log,
                                         const std::function<Result<void>(std::span<const std::byte> record)>& emit);

}  // namespace flight
