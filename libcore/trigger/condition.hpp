// SPDX-License-Identifier: Apache-2.0
// When a metric trigger fires: once for each crossing, and not again before it was over.
//
//            ┌──────── since ────── for ──────▶ fires            rearm, for as long ──▶ armed again
//   above ───┼────────╱▔▔╲╱▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔╲
//   rearm ───┼───────╱─────────────────────────────╲───────────────
//   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁╱  ◀─ 5 min before: baseline    ╲▁▁▁▁▁▁▁▁▁▁▁▁▁
//
// It holds where it holds for four fifths of the time: a thread that moves to another CPU in the middle of a pass
// makes both of them look half idle for that pass. A pass over more than kMaxPassSpanNs (a suspend) ends what was
// pending. Time is what the passes covered, so the interval between them does not matter.
#pragma once

#include <chrono>
#include <optional>

#include "libcore/config/config.hpp"
#include "libcore/trigger/history.hpp"
#include "libcore/trigger/metric_pass.hpp"

namespace flight {

struct Crossing {
  double value = 0;      // the mean since it began
  double threshold = 0;  // of a jump alone: baseline plus delta
  std::optional<double> baseline;
  EventTime since_ns = 0;
  std::uint64_t held_ns = 0;
};

class Condition {
 public:
  enum class State { warming_up, armed, pending, fired };
  static constexpr std::chrono::seconds kDefaultWarmup{60};  // of one with `delta`: else there is no before

  explicit Condition(const TriggerConfig& config);  // one with a metric

  // `history` has the pass already.
  [[nodiscard]] std::optional<Crossing> on_pass(const MetricPass& pass, const MetricHistory& history);
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] Metric metric() const { return metric_; }
  [[nodiscard]] std::optional<double> last_value() const { return last_; }
  [[nodiscard]] EventTime since_ns() const { return since_ns_; }  // of pending and fired
  [[nodiscard]] std::uint64_t to_warm_up_ns() const;              // what is left of it
  // "cpu.busy above 90 % and 30 over the 5 minutes before, for 2.0 s"
  [[nodiscard]] std::string words() const;
  // Forgets that it is pending or fired, not what it has seen: for a trigger that was off.
  void rearm();

 private:
  // How long something holds, with dips of a fifth of that time.
  struct Held {
    std::uint64_t yes_ns = 0, no_ns = 0;
    // Whether it goes on after a pass of `span_ns`.
    bool add(bool holds, std::uint64_t span_ns);
    [[nodiscard]] std::uint64_t span_ns() const { return yes_ns + no_ns; }
  };
  [[nodiscard]] bool crossed(double value, const MetricPass& pass, const MetricHistory& history);
  [[nodiscard]] bool over(double value) const;
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
};

}  // namespace flight
