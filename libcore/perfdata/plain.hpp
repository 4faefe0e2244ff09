// SPDX-License-Identifier: Apache-2.0
// Rewrites a perf.data file without compression, for readers that do not know COMPRESSED records.
#pragma once

#include "libcore/base/result.hpp"
#include "libcore/perfdata/reader.hpp"

namespace flight {

// `fd`: as for FileWriter::create. The records stay in their order; every feature but COMPRESSED is copied.
[[nodiscard]] Result<void> write_plain(const FileReader& from, const FileReader::Expand& expand, int fd);

}  // namespace flight
