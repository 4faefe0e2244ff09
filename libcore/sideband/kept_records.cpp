// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/kept_records.hpp"

#include <linux/perf_event.h>

#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {

bool is_whole(std::uint32_t type, std::span<const std::byte> record) {
  switch (type) {
    case PERF_RECORD_COMM:
      return parse_comm(record).has_value();
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
      return parse_task(record).has_value();
    case PERF_RECORD_MMAP2:
      return parse_mmap2(record).has_value();
    case PERF_RECORD_KSYMBOL:
      return parse_ksymbol(record).has_value();
    case PERF_RECORD_CGROUP:
      return parse_cgroup(record).has_value();
    case PERF_RECORD_BPF_EVENT:
      return record.size() >= 24 + sizeof(Trailer);
    default:
      return false;
  }
}

bool has_no_number(std::uint32_t type, std::span<const std::byte> record) {
  if (type != PERF_RECORD_COMM && type != PERF_RECORD_FORK && type != PERF_RECORD_EXIT && type != PERF_RECORD_MMAP2)
    return false;
  const auto pid = load<std::uint32_t>(record.data() + sizeof(perf_event_header));
  return pid == 0 || pid == UINT32_MAX;
}

}  // namespace flight
