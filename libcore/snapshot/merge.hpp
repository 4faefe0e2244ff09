// SPDX-License-Identifier: Apache-2.0
// All rings and the ledger's log as one stream of records, ascending in time. Each source is sorted already, so the
// merge is exact and hands out runs: as long as one source is the oldest, its records are copied without looking at
// others.
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
// merge. At equal times the log comes first, so that a name is known before it is needed. One thread.
[[nodiscard]] Result<void> merge_records(const Selection& selection, std::span<const std::byte> ledger_log,
                                         const std::function<Result<void>(std::span<const std::byte> record)>& emit);

}  // namespace flight
