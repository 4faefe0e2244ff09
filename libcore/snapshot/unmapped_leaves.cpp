// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/unmapped_leaves.hpp"

#include <cstddef>
#include <unordered_set>
#include <vector>

#include "libcore/snapshot/code_cache.hpp"

namespace flight {
namespace {

// By their numbers in `code`.
std::unordered_set<std::size_t> doubted_in(const RingSelection& ring, const MappedCode& code) {
  std::unordered_set<std::size_t> out;
  CodeCache cache(code);
  for (const RingSelection::Leaf& leaf : ring.leaves) {
    const std::size_t memory = cache.memory_of(leaf.pid, ring.walk.records[leaf.record].time_ns);
    if (memory != MappedCode::kUnknown && !cache.stretch_of(memory, leaf.ip).code) out.insert(memory);
  }
  return out;
}

}  // namespace

void doubt_unmapped_leaves(MappedCode& code, const Selection& selection, WorkerPool& workers) {
  if (code.empty()) return;
  std::vector<int> cpus;
  for (const RingSelection& ring : selection.rings) cpus.push_back(ring.cpu);
  std::vector<std::unordered_set<std::size_t>> doubted(selection.rings.size());
  workers.for_each_ring(cpus, [&](std::size_t i) { doubted[i] = doubted_in(selection.rings[i], code); });
  for (const auto& of_ring : doubted)
    for (const std::size_t memory : of_ring) code.doubt(memory);
}

}  // namespace flight
