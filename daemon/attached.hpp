// SPDX-License-Identifier: Apache-2.0
// The recording as flightd holds it between two attaches: what the broker said of it, and the rings, mapped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/capture/capture.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/recorder/rings.hpp"

namespace flight {

struct Attached {
  Manifest manifest;
  std::vector<Ring> rings;                 // the channels'
  std::vector<std::size_t> channel_rings;  // manifest.rings index of each
  std::vector<SidebandRing> sideband;      // drained by the recorder thread alone
  EventTable events;
  std::vector<std::byte> kallsyms_frame;  // zstd; empty where the broker could not read kallsyms
  Staging staging;                        // the snapshot worker's, and during the freeze the freeze thread's

  // Maps every ring, once in this process's life, and makes the staging.
  [[nodiscard]] static Result<std::unique_ptr<Attached>> open(Attachment attachment);

  [[nodiscard]] std::uint64_t ring_bytes() const;  // channels and sideband

 private:
  explicit Attached(Staging memory) : staging(std::move(memory)) {}
};

}  // namespace flight
