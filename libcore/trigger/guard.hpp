// SPDX-License-Identifier: Apache-2.0
// The storm guard for all automatic triggers: a token bucket. All triggers together take at most `burst` snapshots at
// once and `per_hour` an hour, whatever their number and their own limits.
#pragma once

#include "libcore/config/config.hpp"
#include "libcore/trigger/policy.hpp"

namespace flight {

class StormGuard {
 public:
  // The bucket is full at first.
  explicit StormGuard(const StormGuardConfig& config) : config_(config), tokens_(config.burst) {}

  [[nodiscard]] Verdict ask(SignedTime now_ns) const;
  void take(SignedTime now_ns);
  [[nodiscard]] double tokens(SignedTime now_ns) const;

  void restore(double tokens, SignedTime at_ns);
  void change(const StormGuardConfig& config, SignedTime now_ns);  // keeps the tokens that fit

 private:
  StormGuardConfig config_;
  double tokens_;
  SignedTime at_ns_ = 0;
  bool begun_ = false;  // at_ns_ is valid
};

}  // namespace flight
