// SPDX-License-Identifier: Apache-2.0
// Kernel events as triggers, flightd's side: what the broker's tracepoints wrote into the triggers' rings, decoded.
// Each event trigger has a small forward ring of its own on each CPU, so that a hot one takes no room from a rare one
// (the OOM kill): a full ring stops, and what it lost is counted.
//
// One thread uses it, and is the only poller of its descriptors. It drains first and polls then; a hot tracepoint wakes
// for each event, so it should not drain more often than every kTriggerDrainEvery.
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
// Of one ring and one drain that are told one by one; the others are counted in the last one's `further`.
inline constexpr std::size_t kMaxToldEvents = 16;

// A tracepoint that is a trigger was hit.
struct TriggerEvent {
  std::string trigger;  // as it is configured
  int cpu = 0;
  EventTime time_ns = 0;
  std::uint32_t pid = 0, tid = 0;  // who ran there
  std::string detail;              // "oom:mark_victim: pid=1234, comm=stress"; bounded, for people
  std::uint64_t further = 0;       // as many more came with it, which are not told one by one
  std::uint64_t lost = 0;          // as many did not fit into the ring
};

using SharedForwardRing = std::shared_ptr<ForwardRing>;

class TriggerRings {
 public:
  // The set that the last attach brought, in place of the one before; rings that both have go on. What the others still
  // hold is in the next drain.
  void follow(const std::vector<SharedForwardRing>& rings, const std::vector<ManifestTrigger>& triggers);
  // To be polled for POLLIN.
  [[nodiscard]] std::vector<int> fds() const;
  // All that is there, by time.
  [[nodiscard]] std::vector<TriggerEvent> drain();
  // Records that could not be understood, since it began.
  [[nodiscard]] std::uint64_t bad_records() const { return bad_records_; }

 private:
  struct Source {
    std::string event;  // "oom:mark_victim"
    TracepointFormat format;
  };
  void drain_ring(ForwardRing& ring, std::vector<TriggerEvent>& out);

  std::vector<SharedForwardRing> rings_;
  std::map<std::string, Source> sources_;  // by the trigger's name
  std::vector<TriggerEvent> left_;         // of rings that are gone
  std::vector<std::byte> buffer_;
  std::uint64_t bad_records_ = 0;
};

}  // namespace flight
