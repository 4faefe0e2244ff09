// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/unmapped_leaves.hpp"

#include <linux/perf_event.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "libcore/perf/ring_walk.hpp"

namespace flight {
namespace {

// By their numbers in `code`.
std::unordered_set<std::size_t> doubted_in(const RingSelection& ring, const EventTable& events,
                                           const MappedCode& code) {
  std::unordered_set<std::size_t> out;
  RecordScratch scratch;
  for (std::size_t i = ring.first; i < ring.last; ++i) {
    const RecordRef& ref = ring.walk.records[i];
    if (ref.type != PERF_RECORD_SAMPLE) continue;
    const auto record = record_bytes(ring.image, ref, scratch.bytes());
    const auto key = record_key(record, events);
    if (!key) continue;
    // In the kernel the program's registers may still be those before an exec.
    const auto header = load<perf_event_header>(record.data());
    if ((header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_USER) continue;
    const auto fields = sample_fields(record, events.layout(key->event));
    const std::size_t memory = fields ? code.memory_of(fields->pid, key->time_ns) : MappedCode::kUnknown;
    if (memory != MappedCode::kUnknown && !code.is_code(memory, fields->ip)) out.insert(memory);
  }
  return out;
}

}  // namespace

void doubt_unmapped_leaves(MappedCode& code, const Selection& selection, const EventTable& events,
                           WorkerPool& workers) {
  if (code.empty()) return;
  std::vector<int> cpus;
  for (const RingSelection& ring : selection.rings) cpus.push_back(ring.cpu);
  std::vector<std::unordered_set<std::size_t>> doubted(selection.rings.size());
  workers.for_each_ring(cpus, [&](std::size_t i) { doubted[i] = doubted_in(selection.rings[i], events, code); });
  for (const auto& of_ring : doubted)
    for (const std::size_t memory : of_ring) code.doubt(memory);
}

}  // namespace flight
