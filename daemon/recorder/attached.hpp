// SPDX-License-Identifier: Apache-2.0
// The recording from one attach to the next: the manifest and the mapped rings. The next attach makes another object.
// It shares the rings that are in both, so users of the old set can finish with it.
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

namespace flight::daemon {

struct Attached {
  Manifest manifest;
  Rings rings;                                          // of the channels
  std::vector<std::size_t> channel_rings;               // for each of `rings`, its index in manifest.rings
  std::vector<std::shared_ptr<SidebandRing>> sideband;  // drained only by the recorder thread
  std::vector<SharedForwardRing> triggers;              // drained only by one thread, with TriggerRings
  EventTable events;
  // Used by the snapshot worker, and during the freeze by the freeze thread. Shares memory with the previous set's.
  Staging staging;

  // Maps every ring that `before` does not have (each ring is mapped once per process), and allocates the staging
  // memory.
  [[nodiscard]] static Result<std::shared_ptr<Attached>> open(Attachment attachment, const Attached* before = nullptr);

  // Without rings: before the first attach.
  [[nodiscard]] static Result<std::shared_ptr<Attached>> none(std::string boot_id);

  [[nodiscard]] std::uint64_t ring_bytes() const;  // channels, sideband and triggers
  [[nodiscard]] std::size_t online_cpus() const;   // those that any channel records

 private:
  explicit Attached(Staging memory) : staging(std::move(memory)) {}
};

}  // namespace flight::daemon
