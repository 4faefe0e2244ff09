// SPDX-License-Identifier: Apache-2.0
// The filter before the file of a recording: gives the samples the form that they have in files, as in snapshots
// (libcore/snapshot/file_samples.hpp). The worker's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/recorder/attached.hpp"
#include "libcore/snapshot/file_samples.hpp"
#include "libcore/stream/sink.hpp"

namespace flight::daemon {

class SampleFilter : public StreamSink {
 public:
  SampleFilter(std::shared_ptr<const Attached> attached, StreamSink& next);

  void records(std::size_t ring, const RecordRun& run) override;
  void hole(std::size_t ring, const Hole& hole) override { next_.hole(ring, hole); }
  void end_of_round() override { next_.end_of_round(); }

 private:
  void pass_on(std::size_t ring, const RecordRun& run);

  std::shared_ptr<const Attached> attached_;
  FileSamples samples_;
  StreamSink& next_;
  std::vector<std::byte> kept_;
  std::uint64_t events_ = 0;  // in kept_
};

}  // namespace flight::daemon
