// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/tally.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "libcore/snapshot/user_copies.hpp"

namespace flight {
namespace {

// In the kernel the program's registers may still be those before an exec.
bool is_in_program(std::span<const std::byte> record) {
  return (load<perf_event_header>(record.data()).misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
}

RingSelection::Tally& tally_of(RingSelection& ring, const RingSelection::Source& source) {
  const auto [entry, added] = ring.tallies.try_emplace(source);
  if (added) {
    entry->second.source = static_cast<std::uint32_t>(ring.sources.size());
    ring.sources.push_back(source);
  }
  return entry->second;
}

}  // namespace

void RingSelection::Tally::add(const SidecarCompared& compared, EventTime time_ns, bool sampled) {
  const auto count = [sampled](Count& out) {
    ++out.samples;
    if (sampled) ++out.sampled;
  };
  newest_ns = std::max(newest_ns, time_ns);
  count(window);
  if (time_ns >= compared.now_begin_ns)
    count(now);
  else if (time_ns >= compared.before_begin_ns)
    count(before);
}

void tally_records(RingSelection& ring, const EventTable& events, const std::vector<bool>& samples_cpu,
                   const SidecarCompared& compared, bool keeps_leaves) {
  RecordScratch scratch;
  ring.tasks.resize(ring.last - ring.first);
  if (keeps_leaves) ring.leaves.reserve(std::min<std::size_t>(ring.walk.samples, ring.last - ring.first));
  RingSelection::Tally* current = nullptr;
  RingSelection::Source current_source;
  std::uint32_t current_tid = 0;
  for (std::size_t i = ring.first; i < ring.last; ++i) {
    const RecordRef& ref = ring.walk.records[i];
    ring.record_bytes += ref.size;
    if (ref.type == PERF_RECORD_LOST) ring.lost.push_back(static_cast<std::uint32_t>(i));
    if (ref.type != PERF_RECORD_SAMPLE) continue;
    const auto record = record_bytes(ring.image, ref, scratch.bytes());
    ++ring.samples;
    const auto key = record_key(record, events);
    if (!key) continue;
    // A task that is sampled while its ids are released has pid or tid -1 (kExitingName); the kernel does not report
    // which task it was.
    const RecordLayout& layout = events.layout(key->event);
    ring.copied_bytes += user_copy_bytes(record, layout);
    const auto fields = sample_fields(record, layout);
    if (!fields) continue;
    const RingSelection::Source source{.pid = fields->pid, .cgroup = fields->cgroup};
    if (current == nullptr || source != current_source) {
      current_source = source;
      current = &tally_of(ring, source);
    }
    if (fields->tid != current_tid) {
      current_tid = fields->tid;
      ring.tids.insert(current_tid);
    }
    const bool in_program = is_in_program(record), sampled = samples_cpu[key->event];
    ring.tasks[i - ring.first] = {fields->tid, current->source, in_program, sampled};
    if (keeps_leaves && in_program)
      ring.leaves.push_back({.ip = fields->ip, .pid = fields->pid, .record = static_cast<std::uint32_t>(i)});
    current->add(compared, ref.time_ns, sampled);
  }
}

}  // namespace flight
