// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/scan_time.hpp"

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

constexpr std::size_t kScanEndBytes = kRecordHeaderBytes + sizeof(LostRecord) + sizeof(Trailer);

}  // namespace

EventTime scan_time(std::span<const std::byte> records) {
  if (records.size() < kScanEndBytes) return 0;
  const auto end = records.last(kScanEndBytes);
  const auto trailer = parse_trailer(end);
  if (next_record(end).size() != end.size() || !lost_fields(end) || !trailer || trailer->reserved != kScanAllListed)
    return 0;
  return trailer->time_ns;
}

}  // namespace flight
