// SPDX-License-Identifier: Apache-2.0
// Writes the data of one window: a file, or, if the output has files for it, a data directory
// (libcore/base/data_folder.hpp):
//
//   data              state, sideband, features
//   data.0, data.1 …  the records of the rings: a chunk to each file in turn
//
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight {

struct DataToWrite {
  const Selection& selection;
  const TrackerExport& sideband;
  const std::vector<KernelMap>& kernel_maps;
  const RecordingFacts& recording;
  const CaptureFacts& capture;
};

struct WrittenData {
  EventTime write_begin_ns = 0;  // all records were written
  std::uint64_t raw_bytes = 0, plain_chunks = 0, file_bytes = 0;
  bool synced = false;       // false: the file system cannot do it
  bool compressed = false;   // with zstd
  std::string zstd_refused;  // why not, or not all of it, although it was wanted
  SidecarStacks stacks;
};

// Once more if the disk or a quota is full and `order` makes room. After an error, too, `out` has the raw bytes that
// were written. EFBIG: it would exceed order.max_bytes.
[[nodiscard]] Result<void> write_data(WrittenData& out, const DataToWrite& what, const SnapshotOrder& order,
                                      const SnapshotOutput& output, WorkerPool& workers, StreamMemory& memory,
                                      const OnProgress& progress);
// Empties all files of it, to write another window.
[[nodiscard]] Result<void> empty_data(const SnapshotOutput& output);

}  // namespace flight
