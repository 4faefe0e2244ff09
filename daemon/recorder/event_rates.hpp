// SPDX-License-Identifier: Apache-2.0
// What a channel's events write each second. Events with a period are counted exactly; samples of events with a
// frequency are not, so their number is estimated from the bytes that went into each ring, up to the frequency. All
// records of a channel are taken to have the same size.
#pragma once

#include <span>

namespace flight::daemon {

// One CPU's ring: the bytes that went into it, and the records of events that are counted.
struct RingFlow {
  double bytes_per_second = 0, counted_per_second = 0;
};
struct ChannelFlow {
  double sampled_per_second = 0;  // samples, estimated
  double sampled_bytes = 0, counted_bytes = 0;
};
// `record_bytes`: of a record. `most_sampled`: the sum of the frequencies of the channel's sampling events; 0: it has
// none. Where the counted records alone seem to fill a ring, and are more than `most_sampled`, their size is not known
// well enough for the rest: then the CPU is busy, and `most_sampled` is the estimate.
[[nodiscard]] ChannelFlow split_flow(std::span<const RingFlow> rings, double record_bytes, double most_sampled);

}  // namespace flight::daemon
