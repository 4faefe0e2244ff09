// SPDX-License-Identifier: Apache-2.0
// The recording as flightd holds it from one attach to the next: what the broker said of it, and the rings, mapped. The
// next attach makes another; rings that both have are the same objects, so whoever still works with the old set
// finishes with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/capture/capture.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/recorder/rings.hpp"
#include "libcore/recorder/trigger_rings.hpp"

namespace flight {

struct Attached {
  Manifest manifest;
  Rings rings;                                          // the channels'
  std::vector<std::size_t> channel_rings;               // manifest.rings index of each
  std::vector<std::shared_ptr<SidebandRing>> sideband;  // drained by the recorder thread alone
  std::vector<SharedForwardRing> triggers;              // drained by one thread alone, with TriggerRings
  EventTable events;
  std::shared_ptr<const std::vector<std::byte>> kallsyms_frame;  // zstd; empty where the broker could not read kallsyms
  // The snapshot worker's, and during the freeze the freeze thread's. Shares memory with that of the set before.
  Staging staging;

  // Maps every ring that `before` does not have (each once in this process's life), and makes the staging.
  [[nodiscard]] static Result<std::shared_ptr<Attached>> open(Attachment attachment, const Attached* before = nullptr);

  [[nodiscard]] std::uint64_t ring_bytes() const;  // channels, sideband and triggers
  [[nodiscard]] std::size_t online_cpus() const;

 private:
  explicit Attached(Staging memory) : staging(std::move(memory)) {}
};

}  // namespace flight
