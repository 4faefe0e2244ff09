// SPDX-License-Identifier: Apache-2.0
// In a file where some events have callchains, samples of the other events get an empty one.
//
// perf 6.1 keeps the last callchain that it resolved. `perf report --children` (its default) attributes a sample of an
// event without callchains to that chain, so it shows the callers of another sample. The chain also refers to the
// mappings of a process. If the number of that process was reused meanwhile, they are freed, and perf crashes. A chain
// of length zero, which the kernel writes too (perf_event_open(2), exclude_callchain_*), makes perf forget the last
// one. It is added here and not in the ring, where it would shorten the history.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/perfdata/writer.hpp"

namespace flight {

class EmptyChains {
 public:
  explicit EmptyChains(const Manifest& manifest);

  // Whether any sample is changed.
  [[nodiscard]] bool any() const { return any_; }
  // Sets PERF_SAMPLE_CALLCHAIN in the attributes of the events whose samples get a chain. In the manifest's order.
  void mark(std::vector<FileEvent>& events) const;
  // The record for the file; valid until the next call. `key`: record_key(), needed of a SAMPLE. One thread.
  [[nodiscard]] std::span<const std::byte> fill(std::span<const std::byte> record, const std::optional<RecordKey>& key);

 private:
  std::vector<std::size_t> chain_at_;  // by event: the chain's offset in a SAMPLE; 0: the samples are not changed
  bool any_ = false;
  std::array<std::byte, kMaxRecordBytes> filled_{};
};

}  // namespace flight
