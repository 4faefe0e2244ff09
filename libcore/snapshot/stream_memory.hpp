// SPDX-License-Identifier: Apache-2.0
// The memory of a DataStream: zstd's contexts and the buffers of the chunks. It is taken when flightd starts and kept,
// because memory may be refused when a snapshot is needed. Between snapshots only the addresses are kept: the pages go
// back to the kernel, because a machine with 64 CPUs has 200 MB of them.
#pragma once

#include <cstddef>
#include <span>

#include "libcore/base/fixed_bytes.hpp"
#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/chunk_size.hpp"

namespace flight {

// One stream at a time; any thread of it.
class StreamMemory {
 public:
  // level: 1 to 19.
  [[nodiscard]] static Result<StreamMemory> create(std::size_t workers, int level);

  // Takes memory for contexts of another level. After an error there are none, until the next call.
  [[nodiscard]] Result<void> set_level(int level);
  // A new context in the memory of this worker.
  [[nodiscard]] Result<Compressor> compressor(std::size_t worker) const;
  [[nodiscard]] std::size_t chunks() const { return chunks_; }
  [[nodiscard]] std::span<std::byte> frame(std::size_t worker) const;  // the output of zstd
  [[nodiscard]] FixedBytes raw(std::size_t chunk) const;
  [[nodiscard]] FixedBytes packed(std::size_t chunk) const;
  // Nothing of it is in use.
  void rest() const;

 private:
  StreamMemory(std::size_t workers, Mapping buffers);

  std::size_t workers_, chunks_;
  Mapping buffers_;  // the frames, then the chunks
  int level_ = 0;
  std::size_t context_bytes_ = 0;
  Mapping contexts_;
};

}  // namespace flight
