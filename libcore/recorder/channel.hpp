// SPDX-License-Identifier: Apache-2.0
// The broker's descriptors of a ring, a channel and a trigger. The events record while these are open; closing them
// ends the events.
#pragma once

#include <optional>
#include <string>
#include <string_view>
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
  OpenedBelow below;  // the plan's attr

  // read(2): value and lost records since it was opened.
  [[nodiscard]] Result<EventCount> count() const;
  // Since it was opened; running: it had a counter. Both are constant while it is disabled, or after it died with its
  // CPU.
  struct Times {
    EventTime enabled_ns = 0, running_ns = 0;
  };
  [[nodiscard]] std::optional<Times> times() const;
  [[nodiscard]] EventTime running_ns() const { return times().value_or(Times{}).running_ns; }
};

// open_event(). Above a limit that was lowered after the plan was made, it opens the event with that limit, and sets
// `attr` to what is open.
[[nodiscard]] Result<UniqueFd> open_within_limits(perf_event_attr& attr, int cpu, std::string_view name);

// The number of remembered ids of dead events, for each event of a ring; records of older ones are dropped as unknown.
// Only for events of channels. A CPU's new sideband event gets a new id, too, but the process tracker keeps records
// longer than any such list may grow: drained records get the id of their ring's owner.
inline constexpr std::size_t kMaxOldIds = 64;

// An event that no longer records.
struct OldId {
  std::uint64_t id = 0;
  OpenedBelow below;
};

// One CPU's ring: its owner, the first mapping, and the events that write into it, in the plan's order. The sideband's
// first event owns its ring itself. When the CPU goes offline, all its events die for good (perf_event_exit_cpu), also
// the owner. The ring and its content stay, and events that are opened later can be redirected to the dead owner. A
// dead event must not be enabled again: a dummy would then write in addition to its successor.
struct OpenRing {
  ManifestRing info;  // live_ids: set only by describe()
  UniqueFd owner;     // none for the sideband while its first event is alive
  Mapping mapping;
  std::vector<OpenEvent> events;            // empty while info.online is false
  std::vector<std::vector<OldId>> old_ids;  // of dead events, by the events' index, oldest first
  std::uint64_t looked_head = 0;            // the head when a sample was last looked for

  [[nodiscard]] int owner_fd() const { return owner ? owner.get() : events.front().fd.get(); }
  [[nodiscard]] Result<void> enable();  // sets info.enabled_ns the first time
  [[nodiscard]] Result<void> disable() const;
  // Its CPU's events are dead: closes all except the owner.
  void retire();
  // Replaces the retired events by these; they already write into this ring.
  void revive(std::vector<OpenEvent> successors);
  // SET_OUTPUT: redirects all events into the ring, except one that owns it. The redirection lasts while the ring is
  // mapped.
  [[nodiscard]] Result<void> redirect() const;
};

// For all of the following: ENODEV: the CPU is offline. Nothing is enabled yet.
[[nodiscard]] Result<OpenRing> open_sideband_ring(const KernelFeatures& features, int cpu, std::uint64_t ring_bytes);
[[nodiscard]] Result<OpenRing> open_channel_ring(const ChannelPlan& plan, const KernelFeatures& features, int cpu);
[[nodiscard]] Result<OpenRing> open_trigger_ring(const TriggerPlan& plan, const KernelFeatures& features, int cpu);
// Opens new events for a retired ring.
[[nodiscard]] Result<void> reopen_sideband(OpenRing& ring, const KernelFeatures& features);
[[nodiscard]] Result<void> reopen_channel(OpenRing& ring, const ChannelPlan& plan);
[[nodiscard]] Result<void> reopen_trigger(OpenRing& ring, const TriggerPlan& plan);
// Opens one more event that writes into `ring`. `on`: it is enabled.
[[nodiscard]] Result<OpenEvent> open_successor(const EventPlan& plan, const OpenRing& ring, bool on);

// An event in whose place another one records; the rings may still hold its records.
struct FormerEvent {
  struct Id {
    std::uint64_t id = 0;
    int cpu = 0;
    OpenedBelow below;
  };
  EventPlan plan;
  std::vector<Id> ids;
};

struct OpenChannel {
  ChannelPlan plan;                   // its events as they were opened
  std::vector<OpenRing> rings;        // one for each CPU that it records and that was ever online
  std::vector<FormerEvent> former{};  // oldest first, at most kMaxOldIds
  std::vector<bool> seen{};  // by the events' index: a sample of it was seen, if it cannot be judged (delivery.hpp)

  // Opens, filters, maps and redirects; omits CPUs that it does not record, and those that went offline meanwhile.
  [[nodiscard]] static Result<OpenChannel> open(const ChannelPlan& plan, const KernelFeatures& features,
                                                const std::vector<int>& cpus);
};

// Each trigger has its own ring on each CPU: a busy tracepoint takes no space from a rare one. The cost is 24 KiB and
// two descriptors per trigger and CPU.
struct OpenTrigger {
  TriggerPlan plan;
  std::vector<OpenRing> rings;  // none if plan.off has a reason

  [[nodiscard]] static Result<OpenTrigger> open(const TriggerPlan& plan, const KernelFeatures& features,
                                                const std::vector<int>& cpus);
};

}  // namespace flight
