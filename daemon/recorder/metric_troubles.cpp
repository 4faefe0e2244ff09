// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/metric_troubles.hpp"

#include <utility>

#include "daemon/log/log.hpp"

namespace flight::daemon {
namespace {

void list(std::string& names, std::string_view name) {
  names += names.empty() ? "" : ", ";
  names += name;
}

std::size_t source_of(Metric metric) { return static_cast<std::size_t>(info_of(metric).source); }

}  // namespace

void MetricTroubles::note(const std::vector<TriggerConfig>& triggers, const std::vector<MissingMetric>& missing) {
  std::array<Trouble, kMetricSources> now;
  std::array<std::string, kMetricSources> off;
  for (const MissingMetric& metric : missing) {
    if (!metric.passing) continue;
    Trouble& trouble = now.at(source_of(metric.metric));
    trouble.text = metric.why;
    list(trouble.metrics, info_of(metric.metric).name);
  }
  for (const TriggerWithoutSource& trigger : triggers_without_source(triggers, missing))
    if (trigger.passing) list(off.at(source_of(trigger.metric)), trigger.name);
  for (std::size_t i = 0; i < kMetricSources; ++i) {
    Trouble& trouble = now.at(i);
    if (!trouble.text.empty()) {
      trouble.text += "; until then there is no value of " + trouble.metrics;
      if (!off.at(i).empty()) trouble.text += ", and these triggers are off: " + off.at(i);
    }
    if (troubles_.at(i).text.empty() && !trouble.text.empty()) log::warn("{}", trouble.text);
    if (!troubles_.at(i).text.empty() && trouble.text.empty())
      log::info("there are values of {} again", troubles_.at(i).metrics);
  }
  const std::lock_guard lock(mutex_);
  troubles_ = std::move(now);
}

std::vector<std::string> MetricTroubles::texts() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const Trouble& trouble : troubles_)
    if (!trouble.text.empty()) out.push_back(trouble.text);
  return out;
}

}  // namespace flight::daemon
