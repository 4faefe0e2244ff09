// SPDX-License-Identifier: Apache-2.0
// The plan of a recording, computed from the configuration before any event is opened: each event's attr and
// tracepoint format, each channel's ring size within the memory budget. A plan holds no descriptor.
#pragma once

#include <algorithm>
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

inline constexpr std::uint64_t kLeastRingBytes = 64U << 10U;  // the minimum size after halving
// Size of the sideband's ring on each CPU, without memory.sideband. One thread that toggles mprotect(PROT_EXEC) writes
// 17 MB a second, so that the largest ring is full in a quarter of a second, the smallest in 30 ms: flightd's thread
// may wait that long for a CPU.
inline constexpr std::uint64_t kMostSidebandRingBytes = 4U << 20U;
// The largest size that takes at most an eighth of `max_bytes` on all CPUs.
[[nodiscard]] std::uint64_t sideband_ring_bytes(std::uint64_t max_bytes, std::size_t cpu_count);

// Why an event is not the configured one.
struct Replaced {
  std::string why;        // a part of a sentence; empty: it is the configured one
  bool expected = false;  // the machine does not have it, which nobody can correct
};

struct EventPlan {
  std::string name;  // with modifiers, as in reports
  perf_event_attr attr{};
  std::string filter;
  std::string tracepoint;  // "SYSTEM:EVENT", and its format's text; otherwise empty
  std::string format;
  std::string place;  // "FILE:LINE: " of its definition; empty: not from a file
  // As configured; attr has what the machine allows.
  std::uint64_t frequency = 0;
  std::uint16_t max_stack = 0;
  std::string configured;        // the event's name in the configuration
  Needs needs = Needs::nothing;  // the configured event
  Replaced replaced;
  // CPUs on which a dummy is opened instead, which records nothing (leave_out() in stand_in.hpp).
  std::vector<int> left_out;

  [[nodiscard]] bool records_on(int cpu) const {
    return std::find(left_out.begin(), left_out.end(), cpu) == left_out.end();
  }
};

struct ChannelPlan {
  ChannelConfig config;            // as in the configuration
  std::uint64_t ring_bytes = 0;    // within the budget
  std::vector<EventPlan> events;   // one for each of config.events, in the same order
  std::vector<std::string> notes;  // facts about this machine and its events; no action needed
  std::vector<int> cpus{};         // as in ChannelCpus::here

  // Whether rings and history can be kept. It does not compare the whole config: a ring's size before it was halved,
  // and min_history, do not affect the open ring.
  [[nodiscard]] bool same_as(const ChannelPlan& other) const {
    return config.name == other.config.name && config.events == other.config.events &&
           config.cpus == other.config.cpus && ring_bytes == other.ring_bytes;
  }
};

struct TriggerPlan {
  std::string name;
  EventPlan event;
  std::string off;  // why it cannot be opened; empty: it can

  [[nodiscard]] bool same_as(const TriggerPlan& other) const {
    return name == other.name && event.name == other.event.name && event.filter == other.event.filter &&
           off.empty() == other.off.empty();
  }
};

struct RecordingPlan {
  std::vector<ChannelPlan> channels;
  std::uint64_t sideband_ring_bytes = kLeastSidebandRingBytes;
  std::vector<TriggerPlan> triggers;  // those that are enabled and have a kernel event
  std::map<std::string, std::string> tracepoint_formats;
  std::string header_page, header_event;  // if there is any tracepoint
  std::vector<std::string> warnings;      // about the budget, and CPUs that this machine does not have
  std::vector<std::string> notes;         // about shipped triggers that this machine does not support
  std::vector<int> nohz_full;             // CPUs that run without a timer tick

  [[nodiscard]] std::size_t watched_triggers() const;
};

[[nodiscard]] SamplingOptions sampling_options(const EventConfig& config);
// `spec` for the event `config`, as if this machine had it.
[[nodiscard]] EventPlan plan_event(const EventSpec& spec, const EventConfig& config, const SamplingOptions& options,
                                   const KernelFeatures& features);
// Whether an event counts whenever a process runs on its CPU, so that a busy CPU without samples of it is an error.
// (page-faults or cache-misses need not.)
[[nodiscard]] bool counts_while_busy(const perf_event_attr& attr);
// Adds the sentence about a replaced event to `warnings` or, if nobody can correct it, to `notes`.
void add_replaced_text(const ChannelPlan& channel, const EventPlan& event, std::vector<std::string>& warnings,
                       std::vector<std::string>& notes);

// Which CPUs an event of the channel leaves out, and why. Empty: none, or another event samples them.
[[nodiscard]] std::string left_out_note(const ChannelPlan& channel);

// `cpus`: online CPUs, on which events are opened as a test: if one refuses, another event is recorded (stand_in.hpp).
// An error: the configuration is wrong, or the machine refuses all events of all channels.
[[nodiscard]] Result<RecordingPlan> plan_recording(const Config& config, const EventSources& sources,
                                                   const KernelFeatures& features, std::size_t cpu_count,
                                                   const std::vector<int>& cpus);

// The ring sizes of `channels`, each for every CPU that it records. They are halved, largest first, until they and as
// much staging fit `max_bytes`, together with the sideband's and the triggers' rings and the memory of both programs
// (memory_share.hpp); never below kLeastRingBytes. `cpus` of `channels` are as in ChannelCpus::here.
[[nodiscard]] std::vector<std::uint64_t> fit_rings(const std::vector<ChannelConfig>& channels, std::size_t cpu_count,
                                                   std::uint64_t max_bytes, std::uint64_t sideband_bytes,
                                                   std::size_t triggers = 0);

// The names of the fields in a tracepoint's format text that a filter may use, common fields last.
[[nodiscard]] std::vector<std::string> format_fields(std::string_view format);

}  // namespace flight
