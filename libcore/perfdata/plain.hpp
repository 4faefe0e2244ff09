// SPDX-License-Identifier: Apache-2.0
// Rewrites a perf.data file: without compression, for readers that do not know COMPRESSED records, or a data directory
// as one file, for those that do not know directories.
#pragma once

#include "libcore/base/result.hpp"
#include "libcore/perfdata/reader.hpp"

namespace flight {

// `fd`: as for FileWriter::create. The records stay in their order; every feature but COMPRESSED and DIR_FORMAT is
// copied.
[[nodiscard]] Result<void> write_plain(const FileReader& from, const FileReader::Expand& expand, int fd);
// The same with compressed records as they are, and their feature.
[[nodiscard]] Result<void> write_joined(const FileReader& from, int fd);

}  // namespace flight
