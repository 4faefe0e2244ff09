// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/trigger_rings.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <optional>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

// The record of a trigger's tracepoint: | header 8 | id 8 | pid, tid 8 | time 8 | cpu, res 8 | raw: u32 size, bytes |
const RecordLayout& sample_layout() {
  static const RecordLayout layout = RecordLayout::of(kTriggerSampleType);
  return layout;
}

// The tracepoint's own bytes; nullopt: the record is not such a sample.
std::optional<std::span<const std::byte>> raw_of(std::span<const std::byte> record) {
  const auto at = static_cast<std::size_t>(sample_layout().cpu) + 8;
  if (load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE || record.size() < at + sizeof(std::uint32_t))
    return std::nullopt;
  const auto size = load<std::uint32_t>(record.data() + at);
  const std::span<const std::byte> rest = record.subspan(at + sizeof size);
  if (size > rest.size()) return std::nullopt;
  return rest.first(size);
}

}  // namespace

void TriggerRings::follow(const std::vector<SharedForwardRing>& rings, const std::vector<ManifestTrigger>& triggers) {
  for (const SharedForwardRing& old : rings_)
    if (std::find(rings.begin(), rings.end(), old) == rings.end()) drain_ring(*old, left_);
  rings_ = rings;
  sources_.clear();
  for (const ManifestTrigger& trigger : triggers)
    sources_[trigger.name] = {.event = trigger.event, .format = TracepointFormat::parse(trigger.format)};
}

std::vector<int> TriggerRings::fds() const {
  std::vector<int> fds;
  fds.reserve(rings_.size());
  for (const SharedForwardRing& ring : rings_) fds.push_back(ring->fd());
  return fds;
}

std::vector<TriggerEvent> TriggerRings::drain() {
  std::vector<TriggerEvent> out = std::exchange(left_, {});
  for (const SharedForwardRing& ring : rings_) drain_ring(*ring, out);
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  return out;
}

void TriggerRings::drain_ring(ForwardRing& ring, std::vector<TriggerEvent>& out) {
  buffer_.clear();
  if (!ring.drain(buffer_)) ++bad_records_;
  const std::size_t first = out.size();
  std::uint64_t lost = 0;
  const auto source = sources_.find(ring.info().channel);
  std::span<const std::byte> rest(buffer_);
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    rest = rest.subspan(record.size());
    if (const auto missing = lost_fields(record)) {
      lost += missing->lost;
      continue;
    }
    const auto fields = sample_fields(record, sample_layout());
    const auto raw = raw_of(record);
    if (!fields || !raw) {
      ++bad_records_;
      continue;
    }
    if (out.size() - first == kMaxReportedEvents) {
      ++out.back().further;
      continue;
    }
    TriggerEvent& event = out.emplace_back();
    event.trigger = ring.info().channel;
    event.cpu = ring.info().cpu;
    event.time_ns = load<EventTime>(record.data() + sample_layout().time);
    event.pid = fields->pid;
    event.tid = fields->tid;
    if (source == sources_.end()) continue;
    const std::string text = tracepoint_text(source->second.format, *raw);
    event.detail = text.empty() ? source->second.event : fmt::format("{}: {}", source->second.event, text);
  }
  if (lost == 0) return;
  if (out.size() == first) {
    out.push_back({.trigger = ring.info().channel, .cpu = ring.info().cpu, .time_ns = monotonic_now()});
    out.back().detail = source != sources_.end() ? source->second.event : std::string();
    --lost;  // this event stands for one of them
  }
  out[first].lost = lost;
}

}  // namespace flight
