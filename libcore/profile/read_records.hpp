// SPDX-License-Identifier: Apache-2.0
// Reading the records of a file of flightd's: what SnapshotProfile and SchedProfile have in common.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perfdata/reader.hpp"

namespace flight {

inline constexpr std::uint64_t kMostExpandedBytes = std::uint64_t{16} << 30U;

struct ReadLimits {
  std::uint64_t most_expanded_bytes = kMostExpandedBytes;  // of the records, without compression
  std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;

  [[nodiscard]] bool is_over() const { return deadline && std::chrono::steady_clock::now() > *deadline; }
};

// EFBIG, ETIMEDOUT: beyond a limit, whether the records are compressed or not. The deadline is looked at before the
// first record, and then every 256.
[[nodiscard]] Result<void> read_records(const FileReader& file, const ReadLimits& limits,
                                        const FileReader::Visit& visit);

// The numbers in it are those of `events`. EOPNOTSUPP: one of them is not as flightd records events, so that its
// records have other trailers, or its samples other places.
[[nodiscard]] Result<EventTable> event_table_of(const std::vector<FileEvent>& events);

}  // namespace flight
