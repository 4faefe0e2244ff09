// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/read_records.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "libcore/base/text.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

constexpr std::size_t kMostEventIds = 1U << 18U;     // 64 events on 4,096 CPUs
constexpr std::uint64_t kRecordsBetweenLooks = 256;  // at the clock: at most 16 MiB of records

bool is_ours(const perf_event_attr& attr) {
  return attr.sample_id_all != 0 && (attr.sample_type & kSidebandSampleType) == kSidebandSampleType &&
         (attr.sample_type & PERF_SAMPLE_READ) == 0 &&
         RecordLayout::of(attr.sample_type).trailer_bytes == static_cast<int>(sizeof(Trailer));
}

}  // namespace

// A frame of 30 bytes can expand to 128 MiB, over and over. All of them are records. These are counted, so that the
// limits hold for files without compression, too.
Result<void> read_records(const FileReader& file, const ReadLimits& limits, const FileReader::Visit& visit) {
  std::uint64_t bytes = 0, records = 0;
  const auto visit_within = [&](std::span<const std::byte> record) -> Result<void> {
    bytes += record.size();
    if (bytes > limits.most_expanded_bytes)
      return fail(std::errc::file_too_large, "its records have more than {} bytes without compression",
                  limits.most_expanded_bytes);
    if (records++ % kRecordsBetweenLooks == 0 && limits.is_over())
      return fail(std::errc::timed_out, "reading its records took too long");
    return visit(record);
  };
  return file.for_each_record(visit_within, expand);
}

Result<EventTable> event_table_of(const std::vector<FileEvent>& events) {
  EventTable out;
  std::vector<std::pair<std::uint64_t, std::size_t>> ids;
  for (const FileEvent& event : events) {
    if (!is_ours(event.attr))
      return fail(std::errc::not_supported,
                  "the event {} (sample_type {:#x}) is not as flightd records them: use perf for this file",
                  printable(event.name), std::uint64_t{event.attr.sample_type});
    if (event.ids.size() > kMostEventIds - ids.size())
      return fail(std::errc::not_supported, "the events have more than {} ids", kMostEventIds);
    const std::size_t number = out.add_event(event.attr.sample_type, event.attr.sample_regs_user);
    for (const std::uint64_t id : event.ids) ids.emplace_back(id, number);
  }
  std::sort(ids.begin(), ids.end());  // ascending, the table adds each behind the others
  for (const auto& [id, event] : ids) out.add_id(id, event);
  return out;
}

}  // namespace flight
