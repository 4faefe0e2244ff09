// SPDX-License-Identifier: Apache-2.0
// The filter before the file of a recording: gives the samples of events without callchains an empty one, as in
// snapshots (libcore/snapshot/empty_chains.hpp). The worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "libcore/snapshot/empty_chains.hpp"
#include "libcore/stream/sink.hpp"

namespace flight::daemon {

class ChainFilter : public StreamSink {
 public:
  ChainFilter(std::shared_ptr<const Attached> attached, StreamSink& next);

  void records(std::size_t ring, const RecordRun& run) override;
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override { next_.end_of_round(); }

 private:
  void pass_on(std::size_t ring, const RecordRun& run);

  std::shared_ptr<const Attached> attached_;
  EmptyChains chains_;
  StreamSink& next_;
  std::vector<std::byte> filled_;
  std::uint64_t events_ = 0;  // in filled_
};

}  // namespace flight::daemon
