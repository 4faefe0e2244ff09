// SPDX-License-Identifier: Apache-2.0
// What is to be opened, worked out from the configuration before anything is: each event's attr and its tracepoint's
// format, each channel's ring size after the memory budget. A plan holds no descriptor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/event_spec.hpp"
#include "libcore/perf/kernel_features.hpp"

namespace flight {

inline constexpr std::uint64_t kLeastRingBytes = 64U << 10U;  // no ring is halved below it

struct EventPlan {
  std::string name;  // with modifiers: what reports show
  perf_event_attr attr{};
  std::string filter;
  std::string tracepoint;  // "SYSTEM:EVENT", and its format's text; else empty
  std::string format;
  std::string place;  // "FILE:LINE: ", where it was written; empty: by no file
};

struct ChannelPlan {
  ChannelConfig config;          // as it was written
  std::uint64_t ring_bytes = 0;  // after the budget
  std::vector<EventPlan> events;
  std::vector<std::string> warnings;  // of its events

  // Rings and history can be kept where this is true. Not by the whole config: what a ring had before it was halved,
  // and the history that is wished for, change nothing of what is open.
  [[nodiscard]] bool same_as(const ChannelPlan& other) const {
    return config.name == other.config.name && config.events == other.config.events && ring_bytes == other.ring_bytes;
  }
};

struct TriggerPlan {
  std::string name;
  EventPlan event;
  std::string off;  // why it cannot be watched; empty: it can

  [[nodiscard]] bool same_as(const TriggerPlan& other) const {
    return name == other.name && event.name == other.event.name && event.filter == other.event.filter &&
           off.empty() == other.off.empty();
  }
};

struct RecordingPlan {
  std::vector<ChannelPlan> channels;
  std::vector<TriggerPlan> triggers;  // those that are enabled and wait for a kernel event
  std::map<std::string, std::string> tracepoint_formats;
  std::string header_page, header_event;  // with any tracepoint
  std::vector<std::string> warnings;      // of the budget, and of triggers that are off

  [[nodiscard]] std::size_t watched_triggers() const;
};

// `cpu`: one that is online; events are tried there, so that one without a PMU falls back to cpu-clock.
[[nodiscard]] Result<RecordingPlan> plan_recording(const Config& config, const EventSources& sources,
                                                   const KernelFeatures& features, std::size_t cpu_count, int cpu);

// The ring sizes of `channels`, each for every CPU, halved largest first until they and as much staging fit
// `max_bytes` beside the sideband's and the triggers' rings; never below kLeastRingBytes.
[[nodiscard]] std::vector<std::uint64_t> fit_rings(const std::vector<ChannelConfig>& channels, std::size_t cpu_count,
                                                   std::uint64_t max_bytes, std::size_t triggers = 0);

// The names of the fields in a tracepoint's format text that a filter may use, the common ones last.
[[nodiscard]] std::vector<std::string> format_fields(std::string_view format);

}  // namespace flight
