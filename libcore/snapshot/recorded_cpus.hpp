// SPDX-License-Identifier: Apache-2.0
// Channels that do not record all CPUs: which they record, and whose samples the rows of `top` count. A CPU that is not
// recorded has no samples, which must not look as if it had been idle.
#pragma once

#include <map>
#include <vector>

#include "libcore/broker/protocol.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// The events whose samples count as shares of CPU time. Such an event has a frequency. Where an event that measures CPU
// time (counts_while_busy()) records the same CPU and more CPUs in all, only the samples of that one count on this CPU:
// with those of both it would weigh more than other CPUs. Events with the same list of CPUs all count; an event without
// a list records more CPUs than one with a list. A CPU that an event leaves out is not one of its CPUs.
class SamplingEvents {
 public:
  explicit SamplingEvents(const Manifest& manifest);

  // By event: whether its samples on this CPU count.
  [[nodiscard]] const std::vector<bool>& on(int cpu) const;
  // By event: whether its samples count on any CPU.
  [[nodiscard]] const std::vector<bool>& anywhere() const { return anywhere_; }

 private:
  std::map<int, std::vector<bool>> by_cpu_;
  std::vector<bool> anywhere_;
};
[[nodiscard]] inline std::vector<bool> events_that_sample(const Manifest& manifest) {
  return SamplingEvents(manifest).anywhere();
}

// Sets channel_cpus and top_cpus.
void describe_cpus(const Manifest& manifest, Sidecar& sidecar);

}  // namespace flight
