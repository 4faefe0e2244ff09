// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/history.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace flight {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr float kUnknownFloat = std::numeric_limits<float>::quiet_NaN();
constexpr double kMaxListed = 99999;  // a number of tasks has no limit, but the sidecar has one

double rounded(double value) {
  return std::isfinite(value) ? std::round(std::min(value, kMaxListed) * 10) / 10 : kUnknown;
}

// In the long series a burst on one CPU would not be visible in the mean.
bool tells_most(std::size_t metric) {
  return metric == index_of(Metric::cpu_hottest) || metric == index_of(Metric::cpu_lopsided);
}

bool all_unknown(const std::vector<double>& values) {
  return std::none_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

}  // namespace

void MetricHistory::add(const MetricPass& pass) {
  if (!passes_.empty() && pass.time_ns <= passes_.back().time_ns) return;
  Pass kept{.time_ns = pass.time_ns, .span_ns = pass.span_ns > kMaxPassSpanNs ? 0 : pass.span_ns};
  for (std::size_t i = 0; i < kMetricCount; ++i)
    kept.values.at(i) = pass.values.at(i) ? static_cast<float>(*pass.values.at(i)) : kUnknownFloat;
  CpuPass& cpus = cpu_passes_.emplace_back(CpuPass{.time_ns = kept.time_ns, .span_ns = kept.span_ns});
  cpus.cpus.reserve(pass.cpus.size());
  for (const CpuShares& cpu : pass.cpus)
    cpus.cpus.push_back({static_cast<std::uint16_t>(cpu.cpu), static_cast<std::uint16_t>(std::lround(cpu.busy * 10))});
  passes_.push_back(kept);
  add_seconds(pass);
  forget();
}

// Each second that the pass covers gets its share of it.
void MetricHistory::add_seconds(const MetricPass& pass) {
  if (pass.span_ns == 0 || pass.span_ns > kMaxPassSpanNs) return;
  const EventTime begin = pass.time_ns - std::min(pass.span_ns, pass.time_ns);
  for (std::uint64_t number = begin / kSecondNs; number * kSecondNs < pass.time_ns; ++number) {
    if (seconds_.empty() || seconds_.back().number < number) seconds_.push_back({.number = number});
    Second& second = seconds_.back();
    if (second.number != number) continue;
    const EventTime from = std::max(begin, number * kSecondNs), to = std::min(pass.time_ns, (number + 1) * kSecondNs);
    const float weight = static_cast<float>(to - from) / 1e6F;
    for (std::size_t i = 0; i < kMetricCount; ++i) {
      if (!pass.values.at(i)) continue;
      const auto value = static_cast<float>(*pass.values.at(i));
      second.most.at(i) = second.weight.at(i) > 0 ? std::max(second.most.at(i), value) : value;
      second.sum.at(i) += value * weight;
      second.weight.at(i) += weight;
    }
  }
}

void MetricHistory::forget() {
  const EventTime now = passes_.back().time_ns;
  const auto older = [&](EventTime time, std::uint64_t age) { return time + age < now; };
  // At most twice the number of steps, even if passes come too often.
  const auto trim = [&](auto& passes, std::size_t steps) {
    while (passes.size() > 2 * steps || older(passes.front().time_ns, steps * kStepNs)) passes.pop_front();
  };
  trim(passes_, kRecentSteps);
  trim(cpu_passes_, kCpuSteps);
  while (!seconds_.empty() && older(seconds_.front().number * kSecondNs, (kSeconds + 1) * kSecondNs))
    seconds_.pop_front();
}

std::optional<double> MetricHistory::baseline(Metric metric, EventTime before_ns) const {
  const std::size_t index = index_of(metric);
  std::vector<float> values;
  for (const Second& second : seconds_) {
    const EventTime begin = second.number * kSecondNs, end = begin + kSecondNs;
    if (end > before_ns || begin + kBaselineNs < before_ns || second.weight.at(index) <= 0) continue;
    values.push_back(second.sum.at(index) / second.weight.at(index));
  }
  if (values.empty()) return std::nullopt;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

std::optional<SidecarMetrics> MetricHistory::exported() const {
  if (passes_.empty()) return std::nullopt;
  return SidecarMetrics{.recent = recent_series(), .minutes = minutes_series(), .cpus = cpus_series()};
}

namespace {

// The steps of a series that ends with the newest pass. A step has the value of the pass that covers its middle.
struct Steps {
  EventTime begin_ns = 0;
  std::size_t count = 0;

  template <typename Passes>
  Steps(const Passes& passes, std::size_t most, std::uint64_t step_ns) {
    const EventTime end = passes.back().time_ns;
    const EventTime first =
        passes.front().time_ns - std::min<EventTime>(passes.front().span_ns, passes.front().time_ns);
    count = static_cast<std::size_t>(std::clamp<std::uint64_t>((end - first + step_ns / 2) / step_ns, 0, most));
    begin_ns = end - std::min<EventTime>(end, count * step_ns);
  }
};

// Calls `use`(step, pass) for each step that a pass covers.
template <typename Passes, typename Use>
void for_each_step(const Passes& passes, const Steps& steps, std::uint64_t step_ns, const Use& use) {
  auto pass = passes.begin();
  for (std::size_t step = 0; step < steps.count; ++step) {
    const EventTime middle = steps.begin_ns + step * step_ns + step_ns / 2;
    while (pass != passes.end() && pass->time_ns < middle) ++pass;
    if (pass != passes.end() && pass->time_ns - std::min<EventTime>(pass->span_ns, pass->time_ns) < middle)
      use(step, *pass);
  }
}

}  // namespace

SidecarSeries MetricHistory::recent_series() const {
  const Steps steps(passes_, kRecentSteps, kStepNs);
  std::array<std::vector<double>, kMetricCount> values;
  for (std::vector<double>& list : values) list.assign(steps.count, kUnknown);
  for_each_step(passes_, steps, kStepNs, [&](std::size_t step, const Pass& pass) {
    for (std::size_t i = 0; i < kMetricCount; ++i) values.at(i)[step] = rounded(static_cast<double>(pass.values.at(i)));
  });
  SidecarSeries series{.begin_ns = steps.begin_ns, .step_ns = kStepNs};
  for (std::size_t i = 0; i < kMetricCount; ++i)
    if (!all_unknown(values.at(i))) series.values.emplace_back(kMetrics.at(i).name, std::move(values.at(i)));
  return series;
}

SidecarSeries MetricHistory::minutes_series() const {
  SidecarSeries series{.begin_ns = passes_.back().time_ns, .step_ns = kSecondNs};
  if (seconds_.empty()) return series;
  const std::uint64_t last = seconds_.back().number;
  const std::uint64_t first = std::max(seconds_.front().number, last - std::min<std::uint64_t>(last, kSeconds - 1));
  series.begin_ns = first * kSecondNs;
  for (std::size_t i = 0; i < kMetricCount; ++i) {
    std::vector<double> values(last - first + 1, kUnknown);
    for (const Second& second : seconds_) {
      if (second.number < first || second.weight.at(i) <= 0) continue;
      const float mean = second.sum.at(i) / second.weight.at(i);
      values[second.number - first] = rounded(static_cast<double>(tells_most(i) ? second.most.at(i) : mean));
    }
    if (!all_unknown(values)) series.values.emplace_back(kMetrics.at(i).name, std::move(values));
  }
  return series;
}

SidecarSeries MetricHistory::cpus_series() const {
  const Steps steps(cpu_passes_, kCpuSteps, kStepNs);
  struct Line {
    std::uint64_t sum = 0;
    std::vector<double> values;
  };
  std::vector<Line> lines;
  for_each_step(cpu_passes_, steps, kStepNs, [&](std::size_t step, const CpuPass& pass) {
    for (const CpuBusy& cpu : pass.cpus) {
      if (cpu.cpu >= lines.size()) lines.resize(cpu.cpu + std::size_t{1});
      Line& line = lines[cpu.cpu];
      if (line.values.empty()) line.values.assign(steps.count, kUnknown);
      line.values[step] = static_cast<double>(cpu.tenths) / 10;
      line.sum += cpu.tenths;
    }
  });
  std::vector<std::size_t> numbers;
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (!lines[i].values.empty()) numbers.push_back(i);
  if (numbers.size() > kMaxExportedCpus) {
    std::stable_sort(numbers.begin(), numbers.end(),
                     [&](std::size_t a, std::size_t b) { return lines[a].sum > lines[b].sum; });
    numbers.resize(kMaxExportedCpus);
    std::sort(numbers.begin(), numbers.end());
  }
  SidecarSeries series{.begin_ns = steps.begin_ns, .step_ns = kStepNs};
  for (const std::size_t number : numbers)
    series.values.emplace_back(std::to_string(number), std::move(lines[number].values));
  return series;
}

}  // namespace flight
