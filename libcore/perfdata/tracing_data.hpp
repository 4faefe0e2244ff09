// SPDX-License-Identifier: Apache-2.0
// Reads the section TRACING_DATA of a file: the formats of its tracepoints, as encode_features() writes them. The
// layout is that of trace.dat up to its data (trace-cmd.dat.v6(5)). Input from outside.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight {

struct TracepointSource {
  std::string system;  // "sched"
  std::string format;  // the text of events/SYSTEM/EVENT/format
};

// EBADMSG: it is cut, or no such section. ENOTSUP: of a machine with another byte order.
[[nodiscard]] Result<std::vector<TracepointSource>> read_tracing_data(std::span<const std::byte> contents);

}  // namespace flight
