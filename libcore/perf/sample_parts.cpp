// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/sample_parts.hpp"

namespace flight {

std::optional<SampleParts> sample_parts(std::span<const std::byte> record, const RecordLayout& layout) {
  return find_sample_parts(layout, record.size(),
                           [record](std::size_t offset) { return load<std::uint64_t>(record.data() + offset); });
}

}  // namespace flight
