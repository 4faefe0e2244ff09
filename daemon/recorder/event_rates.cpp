// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/event_rates.hpp"

#include <algorithm>

namespace flight::daemon {
namespace {

double sampled_into(const RingFlow& ring, double record_bytes, double most_sampled) {
  if (most_sampled <= 0) return 0;
  const double rest = ring.bytes_per_second / record_bytes - ring.counted_per_second;
  if (rest <= 0 && ring.counted_per_second > most_sampled) return most_sampled;
  return std::clamp(rest, 0.0, most_sampled);
}

}  // namespace

ChannelFlow split_flow(std::span<const RingFlow> rings, double record_bytes, double most_sampled) {
  ChannelFlow out;
  for (const RingFlow& ring : rings) {
    const double sampled = sampled_into(ring, record_bytes, most_sampled);
    const double all = sampled + ring.counted_per_second;
    if (all <= 0) continue;
    out.sampled_per_second += sampled;
    out.sampled_bytes += ring.bytes_per_second * sampled / all;
    out.counted_bytes += ring.bytes_per_second * ring.counted_per_second / all;
  }
  return out;
}

}  // namespace flight::daemon
