// SPDX-License-Identifier: Apache-2.0
// The broker's descriptors of one ring, of one channel and of one trigger. Whoever holds these keeps the events
// recording; dropping them stops and closes them.
#pragma once

#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/recorder/plan.hpp"

namespace flight {

// One event on one CPU.
struct OpenEvent {
  UniqueFd fd;
  std::uint64_t id = 0;
  std::uint64_t read_format = 0;

  // read(2): value and lost since it was opened.
  [[nodiscard]] Result<EventCount> count() const;
  // How long it has been running: stands still when it is disabled, or has died with its CPU.
  [[nodiscard]] std::uint64_t running_ns() const;
};

// Ids of dead events that are remembered for each event of a ring; records of older ones are dropped as unknown.
inline constexpr std::size_t kMaxOldIds = 64;

// One CPU's ring: its owner, the first mapping, and what writes into it, in the plan's order. The sideband's first
// event owns its ring itself. When the CPU goes offline all its events die for good (perf_event_exit_cpu), the owner
// too; but the ring and what is in it stay, and events that are opened later can be redirected to the dead owner. A
// dead event is never enabled again: a dummy would then write beside its successor.
struct OpenRing {
  ManifestRing info;  // live_ids: by describe() only
  UniqueFd owner;     // none for the sideband while its first event lives
  Mapping mapping;
  std::vector<OpenEvent> events;                    // none while info.online is false
  std::vector<std::vector<std::uint64_t>> old_ids;  // of dead events, by the events' index, oldest first

  [[nodiscard]] int owner_fd() const { return owner ? owner.get() : events.front().fd.get(); }
  [[nodiscard]] Result<void> enable();  // sets info.enabled_ns the first time
  [[nodiscard]] Result<void> disable() const;
  // Its CPU's events are dead: closes all but the owner.
  void retire();
  // Takes these for the retired ones; they write into this ring already.
  void revive(std::vector<OpenEvent> successors);
  // SET_OUTPUT: all events but one that owns the ring write into it. Once is enough for as long as anybody maps it.
  [[nodiscard]] Result<void> redirect() const;
};

// All of the following: ENODEV: the CPU is offline. Nothing is enabled yet.
[[nodiscard]] Result<OpenRing> open_sideband_ring(const KernelFeatures& features, int cpu);
[[nodiscard]] Result<OpenRing> open_channel_ring(const ChannelPlan& plan, const KernelFeatures& features, int cpu);
[[nodiscard]] Result<OpenRing> open_trigger_ring(const TriggerPlan& plan, const KernelFeatures& features, int cpu);
// New events for a ring that was retired.
[[nodiscard]] Result<void> reopen_sideband(OpenRing& ring, const KernelFeatures& features);
[[nodiscard]] Result<void> reopen_channel(OpenRing& ring, const ChannelPlan& plan);
[[nodiscard]] Result<void> reopen_trigger(OpenRing& ring, const TriggerPlan& plan);

struct OpenChannel {
  ChannelPlan plan;
  std::vector<OpenRing> rings;  // one for each CPU that was ever online

  // Opens, filters, maps and redirects; CPUs that went offline meanwhile are left out.
  [[nodiscard]] static Result<OpenChannel> open(const ChannelPlan& plan, const KernelFeatures& features,
                                                const std::vector<int>& cpus);
};

// A ring for itself on each CPU, not one for all triggers: a hot tracepoint fills its own and takes no room from a rare
// one. It costs 24 KiB and two descriptors for each trigger and CPU.
struct OpenTrigger {
  TriggerPlan plan;
  std::vector<OpenRing> rings;  // none where plan.off says why

  [[nodiscard]] static Result<OpenTrigger> open(const TriggerPlan& plan, const KernelFeatures& features,
                                                const std::vector<int>& cpus);
};

}  // namespace flight
