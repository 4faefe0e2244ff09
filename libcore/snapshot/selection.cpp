// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/selection.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <utility>

#include "libcore/snapshot/recorded_cpus.hpp"
#include "libcore/snapshot/tally.hpp"

namespace flight {
namespace {

// The minimum length of "now": a shorter time has too few samples to name a process.
constexpr EventTime kLeastNowNs = 1'000'000'000;
// A shorter "before" has too few samples.
constexpr EventTime kLeastBeforeNs = 100'000'000;
// Without a trigger condition "now" is the newest third of the window, at most this long.
constexpr EventTime kMostNowNs = 10'000'000'000;

// Selects the records in [begin, end]; they are sorted by time.
void cut_window(RingSelection& ring, EventTime begin_ns, EventTime end_ns) {
  const auto& records = ring.walk.records;
  const auto first = std::lower_bound(records.begin(), records.end(), begin_ns,
                                      [](const RecordRef& ref, EventTime time) { return ref.time_ns < time; });
  const auto last = std::upper_bound(first, records.end(), end_ns,
                                     [](EventTime time, const RecordRef& ref) { return time < ref.time_ns; });
  ring.first = static_cast<std::size_t>(first - records.begin());
  ring.last = static_cast<std::size_t>(last - records.begin());
}

bool has_callchains(const EventTable& events) {
  for (std::size_t i = 0; i < events.size(); ++i)
    if ((events.layout(i).sample_type & PERF_SAMPLE_CALLCHAIN) != 0) return true;
  return false;
}

// A blackout shows in the ring as the LOST record that the first writer after the resume writes after its own record
// (__perf_output_begin in kernel/events/ring_buffer.c; in a backward ring the order is record, LOST). So the holes of
// a file are its LOST records, each with the blackouts between that first record and the previous one. A blackout
// without loss leaves no LOST record, perf does not warn, and it is no hole.
void find_holes(const RingSelection& ring, const ManifestRing& info, const std::vector<Blackout>& blackouts,
                std::vector<SidecarHole>& out) {
  if (ring.lost.empty()) return;
  RecordScratch scratch;
  for (const std::size_t i : ring.lost) {
    const RecordRef& ref = ring.walk.records[i];
    const auto lost = lost_fields(record_bytes(ring.image, ref, scratch.bytes()));
    if (!lost) continue;
    SidecarHole hole{
        .channel = info.channel, .cpu = info.cpu, .begin_ns = 0, .end_ns = ref.time_ns, .lost = lost->lost};
    const EventTime first_ns = i > 0 ? ring.walk.records[i - 1].time_ns : ref.time_ns;
    const EventTime before_ns = i > 1 ? ring.walk.records[i - 2].time_ns : 0;
    for (const Blackout& blackout : blackouts) {
      if (blackout.begin_ns > ref.time_ns) break;
      if (hole.begin_ns == 0 || hole.begin_ns < before_ns) hole.begin_ns = blackout.begin_ns;
      hole.end_ns = std::min(blackout.end_ns, ref.time_ns);
    }
    // The blackout was made by an earlier flightd and is unknown: the hole extends from the previous record to this
    // one.
    if (hole.begin_ns == 0) {
      hole.begin_ns = before_ns != 0 ? before_ns : first_ns;
      hole.end_ns = first_ns;
    }
    out.push_back(std::move(hole));
  }
}

// Whether samples that count can be in this ring.
bool has_counted_samples(const Manifest& manifest, const ManifestRing& ring, const SamplingEvents& sampling) {
  const std::vector<bool>& counted = sampling.on(ring.cpu);
  for (std::size_t i = 0; i < manifest.events.size(); ++i)
    if (counted[i] && manifest.events[i].channel == ring.channel) return true;
  return false;
}

// "Before" begins at the time to which all rings with counted samples reach back. Otherwise it would contain mostly
// idle CPUs, whose rings reach back further.
SidecarCompared compare(const Selection& chosen, const Manifest& manifest,
                        const std::vector<std::size_t>& channel_rings, const SamplingEvents& sampling,
                        const ChangeRequest& change) {
  EventTime all_from_ns = chosen.begin_ns;
  for (std::size_t i = 0; i < chosen.rings.size(); ++i)
    if (has_counted_samples(manifest, manifest.rings[channel_rings[i]], sampling))
      all_from_ns = std::max(all_from_ns, chosen.rings[i].covers_from_ns);
  const EventTime end_ns = std::clamp(change.recorded_until_ns, chosen.begin_ns, chosen.end_ns);
  const EventTime span_ns = end_ns - chosen.begin_ns;
  const bool inside = change.since_ns != 0 && change.since_ns < end_ns;
  const EventTime wanted_ns = inside ? end_ns - change.since_ns : std::min(kMostNowNs, span_ns / 3);
  const EventTime now_begin_ns = end_ns - std::min(std::max(wanted_ns, kLeastNowNs), span_ns);
  const bool too_short = all_from_ns + kLeastBeforeNs > now_begin_ns;
  return {
      .before_begin_ns = too_short ? now_begin_ns : all_from_ns, .now_begin_ns = now_begin_ns, .now_end_ns = end_ns};
}

}  // namespace

EventTable event_table(const Manifest& manifest) {
  EventTable table;
  for (const ManifestEvent& event : manifest.events) {
    const std::size_t index = table.add_event(event.attr.sample_type, event.attr.sample_regs_user);
    for (const ManifestId& id : event.ids) table.add_id(id.id, index);
  }
  return table;
}

std::vector<WalkedRing> walk_rings(const std::vector<RingImage>& images, const Manifest& manifest,
                                   const std::vector<std::size_t>& channel_rings, const EventTable& events,
                                   EventTime frozen_ns, WorkerPool& workers) {
  std::vector<WalkedRing> out(channel_rings.size());
  std::vector<int> cpus;
  for (const std::size_t index : channel_rings) cpus.push_back(manifest.rings[index].cpu);
  workers.for_each_ring(cpus, [&](std::size_t i) {
    WalkedRing& ring = out[i];
    ring.cpu = cpus[i];
    ring.image = images[i];
    ring.walk = walk_ring(ring.image, events);
    const auto& records = ring.walk.records;
    // A ring that was overwritten faster than it was copied has no records and covers nothing.
    const EventTime oldest_ns = records.empty() ? frozen_ns : records.front().time_ns;
    ring.covers_from_ns = ring.walk.wrapped ? oldest_ns : manifest.rings[channel_rings[i]].enabled_ns;
  });
  return out;
}

std::vector<WalkedRing> take_walked(Selection& selection) {
  std::vector<WalkedRing> out;
  out.reserve(selection.rings.size());
  for (WalkedRing& ring : selection.rings) out.push_back(std::move(ring));
  return out;
}

Selection select(const std::vector<RingImage>& images, const Manifest& manifest,
                 const std::vector<std::size_t>& channel_rings, const EventTable& events, const WindowRequest& request,
                 EventTime frozen_ns, const BlackoutLog& blackouts, WorkerPool& workers, const ChangeRequest& change) {
  return select_from(walk_rings(images, manifest, channel_rings, events, frozen_ns, workers), manifest, channel_rings,
                     events, request, frozen_ns, blackouts, workers, change);
}

Selection select_from(std::vector<WalkedRing> walked, const Manifest& manifest,
                      const std::vector<std::size_t>& channel_rings, const EventTable& events,
                      const WindowRequest& request, EventTime frozen_ns, const BlackoutLog& blackouts,
                      WorkerPool& workers, const ChangeRequest& change) {
  Selection out;
  out.rings.resize(walked.size());
  std::vector<int> cpus;
  for (std::size_t i = 0; i < walked.size(); ++i) {
    static_cast<WalkedRing&>(out.rings[i]) = std::move(walked[i]);
    cpus.push_back(out.rings[i].cpu);
  }

  out.end_ns = std::min(request.end_ns, frozen_ns);
  out.begin_ns = out.end_ns;
  for (std::size_t i = 0; i < out.rings.size(); ++i) {
    const RingSelection& ring = out.rings[i];
    if (is_recorded(manifest, manifest.rings[channel_rings[i]]))
      out.begin_ns = std::min(out.begin_ns, ring.covers_from_ns);
    out.common_begin_ns = std::max(out.common_begin_ns, ring.covers_from_ns);
  }
  out.begin_ns = std::max(out.begin_ns, std::min(request.begin_ns, out.end_ns));
  out.common_begin_ns = std::clamp(out.common_begin_ns, out.begin_ns, out.end_ns);

  const SamplingEvents sampling(manifest);
  out.compared = compare(out, manifest, channel_rings, sampling, change);
  const bool keeps_leaves = has_callchains(events);
  workers.for_each_ring(cpus, [&](std::size_t i) {
    cut_window(out.rings[i], out.begin_ns, out.end_ns);
    tally_records(out.rings[i], events, sampling.on(cpus[i]), out.compared, keeps_leaves);
  });

  for (std::size_t i = 0; i < out.rings.size(); ++i) {
    const RingSelection& ring = out.rings[i];
    find_holes(ring, manifest.rings[channel_rings[i]], blackouts[i], out.holes);
    out.samples += ring.samples;
    for (const auto& [source, tally] : ring.tallies) {
      out.pids.insert(source.pid);
      if (source.cgroup != 0) out.cgroups.insert(source.cgroup);
    }
    out.tids.insert(ring.tids.begin(), ring.tids.end());
    const auto& records = ring.walk.records;
    const auto is_sample = [](const RecordRef& ref) { return ref.type == PERF_RECORD_SAMPLE; };
    const auto begin = records.begin() + static_cast<std::ptrdiff_t>(ring.first);
    const auto end = records.begin() + static_cast<std::ptrdiff_t>(ring.last);
    if (const auto first = std::find_if(begin, end, is_sample); first != end) {
      const auto last = std::find_if(std::make_reverse_iterator(end), std::make_reverse_iterator(begin), is_sample);
      out.first_sample_ns = out.first_sample_ns == 0 ? first->time_ns : std::min(out.first_sample_ns, first->time_ns);
      out.last_sample_ns = std::max(out.last_sample_ns, last->time_ns);
    }
  }
  return out;
}

}  // namespace flight
