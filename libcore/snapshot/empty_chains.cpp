// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/empty_chains.hpp"

#include <linux/perf_event.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace flight {
namespace {

constexpr std::size_t kChainBytes = 8;  // u64 nr = 0

// The fields before the chain in a SAMPLE (perf_event_open(2)), 8 bytes each. PERF_SAMPLE_READ is before it, too, has
// no fixed size, and is not recorded.
constexpr std::uint64_t kBeforeChain = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
                                       PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
                                       PERF_SAMPLE_PERIOD;

bool has_chain(const ManifestEvent& event) { return (event.attr.sample_type & PERF_SAMPLE_CALLCHAIN) != 0; }

}  // namespace

EmptyChains::EmptyChains(const Manifest& manifest) : chain_at_(manifest.events.size(), 0) {
  if (std::none_of(manifest.events.begin(), manifest.events.end(), has_chain)) return;
  for (std::size_t i = 1; i < manifest.events.size(); ++i) {  // event 0 is the sideband's dummy and has no samples
    const std::uint64_t type = manifest.events[i].attr.sample_type;
    if (has_chain(manifest.events[i]) || (type & PERF_SAMPLE_READ) != 0) continue;
    chain_at_[i] = sizeof(perf_event_header) + 8 * static_cast<std::size_t>(std::popcount(type & kBeforeChain));
    any_ = true;
  }
}

void EmptyChains::mark(std::vector<FileEvent>& events) const {
  for (std::size_t i = 0; i < std::min(events.size(), chain_at_.size()); ++i)
    if (chain_at_[i] != 0) events[i].attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
}

std::span<const std::byte> EmptyChains::fill(std::span<const std::byte> record, const std::optional<RecordKey>& key) {
  if (!any_ || !key) return record;
  auto header = load<perf_event_header>(record.data());
  if (header.type != PERF_RECORD_SAMPLE) return record;
  const std::size_t at = key->event < chain_at_.size() ? chain_at_[key->event] : 0;
  const std::size_t size = record.size() + kChainBytes;
  // The kernel's largest sample of a tracepoint is far smaller (PERF_MAX_TRACE_SIZE, 8 KiB).
  if (at == 0 || at > record.size() || size > UINT16_MAX) return record;
  header.size = static_cast<__u16>(size);
  std::memcpy(filled_.data(), record.data(), at);
  std::memcpy(filled_.data(), &header, sizeof header);
  std::memset(filled_.data() + at, 0, kChainBytes);
  std::memcpy(filled_.data() + at + kChainBytes, record.data() + at, record.size() - at);
  return std::span(filled_).first(size);
}

}  // namespace flight
