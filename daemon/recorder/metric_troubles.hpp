// SPDX-License-Identifier: Apache-2.0
// The files in /proc that cannot be read for now, and the metric triggers that are off until then: one log line when
// that begins and one when it ends, and a warning of the status in between. What this machine lacks for good is not
// reported here (TriggerThread::check).
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "libcore/config/config.hpp"
#include "libcore/trigger/rules.hpp"

namespace flight::daemon {

class MetricTroubles {
 public:
  // Trigger thread: after each change of either.
  void note(const std::vector<TriggerConfig>& triggers, const std::vector<MissingMetric>& missing);
  // Any thread: sentences for the status.
  [[nodiscard]] std::vector<std::string> texts() const;

 private:
  struct Trouble {
    std::string text, metrics;  // empty: none
  };
  mutable std::mutex mutex_;
  std::array<Trouble, kMetricSources> troubles_;  // by MetricSource; the mutex is for the texts
};

}  // namespace flight::daemon
