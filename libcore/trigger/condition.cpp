// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/condition.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <string_view>
#include <utility>

#include "libcore/base/units.hpp"
#include "libcore/trigger/pass_interval.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kDipShare = 5;  // the condition may be false for one fifth of the time
// The length of a quick pass as a share of the longest pass.
constexpr double kQuickShare = 1.0 * PassInterval::kShortest / PassInterval::kCalm;

std::uint64_t ns_of(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
}

// "2 s", not "2.0 s": the configured value is exact.
std::string configured_duration(std::uint64_t ns) {
  constexpr std::string_view kZeroTenths = ".0";
  std::string out = format_duration(std::chrono::nanoseconds(ns));
  if (const std::size_t at = out.find(kZeroTenths); at != std::string::npos) out.erase(at, kZeroTenths.size());
  return out;
}

// The stolen time in the value of a metric that counts it as busy.
std::optional<double> stolen_in(Metric metric, const MetricPass& pass) {
  if (metric == Metric::cpu_busy) return pass.of(Metric::cpu_steal);
  if ((metric != Metric::cpu_hottest && metric != Metric::cpu_lopsided) || pass.cpus.empty()) return std::nullopt;
  const auto less_busy = [](const CpuShares& a, const CpuShares& b) { return a.busy < b.busy; };
  return std::max_element(pass.cpus.begin(), pass.cpus.end(), less_busy)->steal;
}

}  // namespace

Condition::Condition(const TriggerConfig& config)
    : above_(config.above), below_(config.below), delta_(config.delta), rearm_(config.rearm) {
  const MetricInfo* info = find_metric(config.metric);
  assert(info != nullptr);  // the configuration was checked
  metric_ = info->metric;
  for_ns_ = ns_of(config.for_time);
  warmup_ns_ =
      ns_of(config.warmup.value_or(delta_ ? std::chrono::nanoseconds(kDefaultWarmup) : std::chrono::nanoseconds(0)));
  if (warmup_ns_ == 0) state_ = State::armed;
}

bool Condition::Held::add(bool holds, std::uint64_t pass_ns) {
  (holds ? yes_ns : no_ns) += pass_ns;
  return no_ns * kDipShare <= span_ns();
}

std::uint64_t Condition::to_warm_up_ns() const {
  return state_ == State::warming_up ? warmup_ns_ - std::min(warmup_ns_, seen_ns_) : 0;
}

void Condition::begin_armed() {
  state_ = State::armed;
  held_ = calm_ = {};
  weighted_sum_ = weight_ = stolen_sum_ = stolen_weight_ = 0;
  baseline_.reset();
}

void Condition::rearm() {
  if (state_ != State::warming_up) begin_armed();
}

// Whether this pass belongs to a crossing. The baseline is taken when the crossing begins, and kept until it ends.
bool Condition::crossed(double value, const MetricPass& pass, const MetricHistory& history) {
  if (above_ && value <= *above_) return false;
  if (below_ && value >= *below_) return false;
  if (!delta_) return true;
  if (state_ != State::pending)
    baseline_ = history.baseline(metric_, pass.time_ns - std::min(pass.span_ns, pass.time_ns));
  if (!baseline_) return false;
  return (below_ ? *baseline_ - value : value - *baseline_) >= *delta_;
}

double Condition::threshold() const {
  if (above_ || below_) return above_ ? *above_ : *below_;
  return baseline_.value_or(0) + delta_.value_or(0);
}

// Whether the value is back beyond the rearm threshold.
bool Condition::over(double value) const {
  if (above_) return value <= rearm_.value_or(*above_);
  if (below_) return value >= rearm_.value_or(*below_);
  return value < threshold();
}

// Whether a crossing may have lasted for a quick pass within a slow one whose mean is `value`: metrics are never below
// 0, shares never above 100. A number of tasks is not a mean but a level at the end of the pass, so any distance
// counts.
bool Condition::near(double value) const {
  if (!below_) return value >= kQuickShare * (above_ ? *above_ : *delta_);
  if (!info_of(metric_).share) return value <= *below_ / kQuickShare;
  constexpr double kMost = 100;
  return value <= kMost - kQuickShare * (kMost - *below_);
}

std::chrono::nanoseconds Condition::longest_look() const {
  const bool quiet = state_ == State::warming_up || state_ == State::armed;
  if (!quiet || !last_ || near(*last_)) return std::chrono::nanoseconds(0);
  return std::chrono::nanoseconds(for_ns_ / kDipShare);
}

std::optional<Crossing> Condition::on_pass(const MetricPass& pass, const MetricHistory& history) {
  const std::optional<double> value = pass.of(metric_);
  last_ = value;
  if (pass.span_ns == 0 && for_ns_ > 0) return std::nullopt;  // a level without a span has no duration
  if (pass.span_ns > kMaxPassSpanNs) {
    if (state_ == State::pending) begin_armed();
    calm_ = {};
    return std::nullopt;
  }
  if (state_ == State::warming_up) {
    seen_ns_ += value ? pass.span_ns : 0;
    if (seen_ns_ < warmup_ns_) return std::nullopt;
    begin_armed();
    return std::nullopt;  // this pass ended it
  }
  if (state_ == State::fired) {
    // A short dip does not count: otherwise a thread that migrates would end its own crossing.
    if (!calm_.add(value && over(*value), pass.span_ns)) calm_ = {};
    if (calm_.span_ns() >= for_ns_ && value && over(*value)) begin_armed();
    return std::nullopt;
  }
  const bool crosses = value && crossed(*value, pass, history);
  std::uint64_t span_ns = pass.span_ns;
  if (state_ == State::armed) {
    if (!crosses) return std::nullopt;
    if (pass.sure_ns > 0) span_ns = std::min(span_ns, pass.sure_ns);
    state_ = State::pending;
    since_ns_ = pass.time_ns - std::min(span_ns, pass.time_ns);
    if (!delta_) baseline_ = history.baseline(metric_, since_ns_);
  }
  if (!held_.add(crosses, span_ns)) {
    begin_armed();
    return std::nullopt;
  }
  if (value) {
    const double span = static_cast<double>(std::max<std::uint64_t>(span_ns, 1));
    weighted_sum_ += *value * span;
    weight_ += span;
    if (const auto stolen = stolen_in(metric_, pass)) {
      stolen_sum_ += std::min(*stolen, *value) * span;
      stolen_weight_ += span;
    }
  }
  if (!crosses || held_.span_ns() < for_ns_) return std::nullopt;
  state_ = State::fired;
  calm_ = {};
  Crossing out{weighted_sum_ / weight_, threshold(), baseline_, since_ns_, held_.span_ns()};
  if (stolen_weight_ > 0) out.stolen = stolen_sum_ / stolen_weight_;
  return out;
}

std::string Condition::words() const {
  const MetricInfo& info = info_of(metric_);
  const auto number = [&](double value) {
    return info.share ? fmt::format("{:g} %", value) : fmt::format("{:g}", value);
  };
  std::string out(info.name);
  if (above_) out += " above " + number(*above_);
  if (below_) out += " below " + number(*below_);
  if (delta_)
    out += fmt::format("{} {:g}{} {} the median of the 5 minutes before", above_ || below_ ? ", and" : "", *delta_,
                       info.share ? " points" : "", below_ ? "below" : "above");
  if (for_ns_ > 0) out += fmt::format("{} for {}", delta_ ? "," : "", configured_duration(for_ns_));
  return out;
}

}  // namespace flight
