// SPDX-License-Identifier: Apache-2.0
// The rings that a recording reads, from one attach to the next: those of its channels. A plain value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/stream/stream_workers.hpp"

namespace flight::daemon {

// A position in each ring, by the id of the ring's owner.
using RingPositions = std::map<std::uint64_t, std::uint64_t>;

struct RecordedRings {
  std::shared_ptr<Attached> attached;
  Rings rings;                    // in the order of StreamRing
  std::vector<FileEvent> events;  // of these channels and the sideband, as the files have them
  bool changes_samples = false;   // libcore/snapshot/file_samples.hpp

  // `channels`: empty: all. EINVAL: there is no such channel. ENODATA: no CPU records any of them.
  [[nodiscard]] static Result<RecordedRings> of(std::shared_ptr<Attached> attached,
                                                const std::vector<std::string>& channels);
  // A ring that is in `read_to` is read from that position on, any other one from its oldest record.
  [[nodiscard]] std::vector<StreamRing> to_read(const RingPositions& read_to) const;
  // The head of each ring now, which is the position of its newest record.
  [[nodiscard]] RingPositions heads() const;
  [[nodiscard]] RingPositions positions(const std::vector<std::uint64_t>& read_to) const;
  [[nodiscard]] std::vector<MakeFilter> filters() const;
  // The same rings, and the same events write into them.
  [[nodiscard]] bool same_as(const RecordedRings& other) const;
  // Each of its rings is one of the others, too.
  [[nodiscard]] bool are_in(const RecordedRings& others) const;
  [[nodiscard]] const std::string& channel_of(std::size_t ring) const { return rings[ring]->info().channel; }
  [[nodiscard]] std::uint64_t bytes() const;
};

}  // namespace flight::daemon
