// SPDX-License-Identifier: Apache-2.0
// Kernel events as triggers, flightd's side: decodes what the broker's tracepoints wrote into the triggers' rings.
// Each event trigger has its own small forward ring on each CPU, so that a busy tracepoint takes no space from a rare
// one (the OOM kill): a full ring stops, and the loss is counted. These rings are not staged and are in no snapshot.
//
// One thread uses it and is the only poller of its descriptors. It drains first and polls then. A busy tracepoint
// wakes it for each event, so it should not drain more often than every kTriggerDrainEvery.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/tracepoint_text.hpp"
#include "libcore/recorder/forward_ring.hpp"

namespace flight {

inline constexpr std::chrono::milliseconds kTriggerDrainEvery{10};
// The limit of events that are reported individually, for one ring and one drain; the last one's `further` counts the
// others.
inline constexpr std::size_t kMaxReportedEvents = 16;

// A hit of a trigger's tracepoint.
struct TriggerEvent {
  std::string trigger;  // as in the configuration
  int cpu = 0;
  EventTime time_ns = 0;
  std::uint32_t pid = 0, tid = 0;  // the task that ran there
  std::string detail;              // "oom:mark_victim: pid=1234, comm=stress"; bounded, for display
  std::uint64_t further = 0;       // this many more came with it and are not reported individually
  std::uint64_t lost = 0;          // this many did not fit into the ring
};

using SharedForwardRing = std::shared_ptr<ForwardRing>;

class TriggerRings {
 public:
  // Replaces the previous set of rings by the one of the last attach; rings in both continue. The next drain includes
  // the rest of the others.
  void follow(const std::vector<SharedForwardRing>& rings, const std::vector<ManifestTrigger>& triggers);
  // Poll them for POLLIN.
  [[nodiscard]] std::vector<int> fds() const;
  // All available events, by time.
  [[nodiscard]] std::vector<TriggerEvent> drain();
  // Number of records that could not be decoded.
  [[nodiscard]] std::uint64_t bad_records() const { return bad_records_; }

 private:
  struct Source {
    std::string event;  // "oom:mark_victim"
    TracepointFormat format;
  };
  void drain_ring(ForwardRing& ring, std::vector<TriggerEvent>& out);

  std::vector<SharedForwardRing> rings_;
  std::map<std::string, Source> sources_;  // by the trigger's name
  std::vector<TriggerEvent> left_;         // of rings that were removed
  std::vector<std::byte> buffer_;
  std::uint64_t bad_records_ = 0;
};

}  // namespace flight
