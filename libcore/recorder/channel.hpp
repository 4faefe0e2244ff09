// SPDX-License-Identifier: Apache-2.0
// The broker's descriptors of one ring and of one channel. Whoever holds these keeps the events recording; dropping
// them stops and closes them.
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
};

// One CPU's ring: its owner, the first mapping, and what writes into it, in the plan's order. The sideband's only event
// owns its ring itself.
struct OpenRing {
  ManifestRing info;
  UniqueFd owner;  // none for the sideband
  Mapping mapping;
  std::vector<OpenEvent> events;

  [[nodiscard]] int owner_fd() const { return owner ? owner.get() : events.front().fd.get(); }
  [[nodiscard]] Result<void> enable();  // sets info.enabled_ns the first time
  [[nodiscard]] Result<void> disable() const;
};

// ENODEV: the CPU went offline.
[[nodiscard]] Result<OpenRing> open_sideband_ring(const KernelFeatures& features, int cpu);

struct OpenChannel {
  ChannelPlan plan;
  std::vector<OpenRing> rings;        // one for each CPU
  std::vector<std::string> warnings;  // CPUs that went offline meanwhile

  // Opens, filters, maps and redirects; nothing is enabled yet.
  [[nodiscard]] static Result<OpenChannel> open(const ChannelPlan& plan, const KernelFeatures& features,
                                                const std::vector<int>& cpus);
};

}  // namespace flight
