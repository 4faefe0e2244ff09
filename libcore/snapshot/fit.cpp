// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/fit.hpp"

#include <algorithm>

namespace flight {
namespace {

constexpr double kCareful = 0.85;  // older records may have compressed better than newer ones
constexpr double kMostKept = 0.7;

// The number of selected records that are not older than `time_ns`.
std::uint64_t newer_than(const Selection& selection, EventTime time_ns) {
  std::uint64_t count = 0;
  for (const RingSelection& ring : selection.rings) {
    const auto begin = ring.walk.records.begin() + static_cast<std::ptrdiff_t>(ring.first);
    const auto end = ring.walk.records.begin() + static_cast<std::ptrdiff_t>(ring.last);
    count += static_cast<std::uint64_t>(
        end -
        std::lower_bound(begin, end, time_ns, [](const RecordRef& ref, EventTime time) { return ref.time_ns < time; }));
  }
  return count;
}

}  // namespace

std::uint64_t record_bytes(const Selection& selection) {
  std::uint64_t bytes = 0;
  for (const RingSelection& ring : selection.rings) bytes += ring.record_bytes - ring.copied_bytes;
  return bytes;
}

std::optional<EventTime> begin_that_fits(const Selection& selection, std::uint64_t fitted_bytes,
                                         std::uint64_t all_bytes) {
  const double fitted = static_cast<double>(fitted_bytes) / static_cast<double>(std::max<std::uint64_t>(all_bytes, 1));
  const double share = std::min(fitted * kCareful, kMostKept);
  const std::uint64_t all = newer_than(selection, 0);
  const auto wanted = static_cast<std::uint64_t>(static_cast<double>(all) * share);
  if (wanted == 0) return std::nullopt;
  EventTime low = selection.begin_ns;  // too many are newer
  EventTime high = selection.end_ns;
  while (high - low > 1) {
    const EventTime middle = low + (high - low) / 2;
    (newer_than(selection, middle) > wanted ? low : high) = middle;
  }
  return high;
}

}  // namespace flight
