// SPDX-License-Identifier: Apache-2.0
// The state of a Recording. Private to this module.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "libcore/recorder/channel.hpp"
#include "libcore/recorder/delivery.hpp"
#include "libcore/recorder/plan.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight {

struct Recording::State {
  KernelFeatures features;
  std::string boot_id;
  RecordingPlan plan;  // of the configuration that is recorded
  std::string config_digest;
  bool on = true;
  std::vector<OpenRing> sideband;  // one for each CPU that was ever online
  std::vector<OpenChannel> channels;
  std::vector<OpenTrigger> triggers;
  std::vector<ManifestGap> gaps;
  std::vector<std::string> cpu_errors;  // of the last follow_cpus
  std::vector<std::string> notes;       // warn()
  struct Watched {
    EventDelivery delivery;
    std::uint64_t head = 0;  // of its ring, at the last look
  };
  std::map<std::uint64_t, Watched> deliveries;  // of sampling events, by id
  Delivery delivery = Delivery::unproven;
  std::vector<std::string> unseen;             // Counts::unseen
  std::vector<std::string> delivery_warnings;  // of the last watch_delivery
  Manifest manifest;                           // describes all of the above

  [[nodiscard]] Result<void> open_sideband(const std::vector<int>& cpus, std::uint64_t ring_bytes);
  // The CPUs that are recorded now.
  [[nodiscard]] std::vector<int> cpus() const;
  // In the manifest's order; `visit` gets each OpenRing.
  template <typename Visit>
  void for_each_ring(const Visit& visit) {
    for (OpenRing& ring : sideband) visit(ring);
    for (OpenChannel& channel : channels)
      for (OpenRing& ring : channel.rings) visit(ring);
    for (OpenTrigger& trigger : triggers)
      for (OpenRing& ring : trigger.rings) visit(ring);
  }
  [[nodiscard]] std::vector<int> dead_cpus();
  void retire(const std::vector<int>& cpus, EventTime good_ns);
  [[nodiscard]] bool revive(const std::vector<int>& online);
  [[nodiscard]] bool open_missing(const std::vector<int>& online);
  // adopt(): the rings that are in both `kept` and `next`, mapped.
  [[nodiscard]] Result<void> take_rings(const Manifest& kept, const RecordingPlan& next, KeptEvents& events);
  // Closes and opens rings that differ; makes the manifest. True if the rings changed; an error changes nothing. With
  // `configured`, a configured event that was replaced takes its place again, if it can be opened.
  [[nodiscard]] Result<bool> follow_plan(RecordingPlan next, const std::string& digest, bool configured);
  void look_at(const OpenRing& ring, const OpenEvent& event, const perf_event_attr& attr, const CpuBusy& busy,
               EventTime now_ns);
  // Sets `seen` of the events that cannot be judged and of which a sample was written since the last look.
  static void look_for_unjudged(OpenChannel& channel);
  // Counts::unseen of one channel.
  [[nodiscard]] static std::vector<std::string> unseen_of(const OpenChannel& channel);
  // The following are true if cpu-clock now records in the place of an event, on all CPUs that it does not leave out.
  [[nodiscard]] bool replace_silent(OpenChannel& channel, std::size_t index, const std::vector<int>& cpus);
  // For the events that this CPU refuses; another one may be omitted.
  [[nodiscard]] bool replace_refused(OpenChannel& channel, int cpu);
  // Opens `next` on each CPU, in the same rings, and closes the channel's event `index`. An error changes nothing.
  [[nodiscard]] Result<void> replace_event(OpenChannel& channel, std::size_t index, EventPlan next);
  void describe(std::uint64_t generation);
};

}  // namespace flight
