// SPDX-License-Identifier: Apache-2.0
// When a metric trigger fires: once per crossing, and again only after that crossing is over.
//
//            ┌──────── since ────── for ──────▶ fires            rearm, for as long ──▶ armed again
//   above ───┼────────╱▔▔╲╱▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔╲
//   rearm ───┼───────╱─────────────────────────────╲───────────────
//   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁╱  ◀─ 5 min before: baseline    ╲▁▁▁▁▁▁▁▁▁▁▁▁▁
//
// A condition holds if it was true for four fifths of `for`, and is over if it was false for as long. Reason: a thread
// that migrates in the middle of a pass makes both CPUs look half idle in that pass. A pass longer than kMaxPassSpanNs
// (a suspend) ends a pending crossing. Durations are the sum of the passes, so their interval does not matter.
#pragma once

#include <chrono>
#include <optional>

#include "libcore/config/config.hpp"
#include "libcore/trigger/history.hpp"
#include "libcore/trigger/metric_pass.hpp"

namespace flight {

struct Crossing {
  double value = 0;      // the mean since it began
  double threshold = 0;  // for a jump alone: baseline plus delta
  std::optional<double> baseline;
  EventTime since_ns = 0;
  std::uint64_t held_ns = 0;
  std::optional<double> stolen = {};  // of a metric that counts stolen time as busy: this much of `value`
};

class Condition {
 public:
  enum class State { warming_up, armed, pending, fired };
  static constexpr std::chrono::seconds kDefaultWarmup{
      60};  // for a condition with `delta`: otherwise there is no baseline

  explicit Condition(const TriggerConfig& config);  // for a trigger with a metric

  // `history` already contains the pass.
  [[nodiscard]] std::optional<Crossing> on_pass(const MetricPass& pass, const MetricHistory& history);
  // The longest allowed next pass. 0 (a quick one) if a crossing is pending, may have begun in the last pass, or
  // nothing is known. Otherwise a fifth of "for", the part of it in which the condition may be false.
  [[nodiscard]] std::chrono::nanoseconds longest_look() const;
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] Metric metric() const { return metric_; }
  [[nodiscard]] std::optional<double> last_value() const { return last_; }
  [[nodiscard]] EventTime since_ns() const { return since_ns_; }  // for the states pending and fired
  [[nodiscard]] std::uint64_t to_warm_up_ns() const;              // the remaining warm-up
  // "cpu.busy above 90 %, and 30 points above the median of the 5 minutes before, for 2 s"
  [[nodiscard]] std::string words() const;
  // Resets pending and fired, but not the warm-up: for a trigger that was disabled.
  void rearm();

 private:
  // How long a condition holds; it may be false for a fifth of that time.
  struct Held {
    std::uint64_t yes_ns = 0, no_ns = 0;
    // Whether it still holds after a pass of `span_ns`.
    bool add(bool holds, std::uint64_t span_ns);
    [[nodiscard]] std::uint64_t span_ns() const { return yes_ns + no_ns; }
  };
  [[nodiscard]] bool crossed(double value, const MetricPass& pass, const MetricHistory& history);
  [[nodiscard]] bool over(double value) const;
  [[nodiscard]] bool near(double value) const;
  [[nodiscard]] double threshold() const;
  void begin_armed();

  Metric metric_{};
  std::optional<double> above_, below_, delta_, rearm_;
  std::uint64_t for_ns_ = 0, warmup_ns_ = 0;

  State state_ = State::warming_up;
  std::uint64_t seen_ns_ = 0;
  std::optional<double> last_, baseline_;
  EventTime since_ns_ = 0;
  Held held_, calm_;
  double weighted_sum_ = 0;  // value times span, while pending
  double weight_ = 0;
  double stolen_sum_ = 0, stolen_weight_ = 0;  // likewise
};

}  // namespace flight
