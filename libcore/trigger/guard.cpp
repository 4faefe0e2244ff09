// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/guard.hpp"

#include <algorithm>
#include <cmath>

namespace flight {
namespace {

constexpr double kWhole = 1 - 1e-9;  // tolerance for the rounding error of many small refills

}  // namespace

double StormGuard::tokens(SignedTime now_ns) const {
  if (!begun_) return tokens_;
  const auto passed_ns = static_cast<double>(std::max<SignedTime>(now_ns - at_ns_, 0));
  return std::min<double>(config_.burst, tokens_ + passed_ns / static_cast<double>(kHourNs) * config_.per_hour);
}

Verdict StormGuard::ask(SignedTime now_ns) const {
  const double have = tokens(now_ns);
  if (have >= kWhole) return {};
  const double wait_ns = (1 - have) * static_cast<double>(kHourNs) / config_.per_hour;
  return {SuppressedBy::storm_guard, now_ns + static_cast<SignedTime>(std::ceil(wait_ns))};
}

void StormGuard::take(SignedTime now_ns) {
  tokens_ = std::max(0.0, tokens(now_ns) - 1);
  at_ns_ = begun_ ? std::max(at_ns_, now_ns) : now_ns;
  begun_ = true;
}

void StormGuard::restore(double tokens, SignedTime at_ns) {
  tokens_ = std::clamp<double>(tokens, 0, config_.burst);
  at_ns_ = at_ns;
  begun_ = true;
}

void StormGuard::change(const StormGuardConfig& config, SignedTime now_ns) {
  if (config == config_) return;
  const bool full = tokens(now_ns) >= config_.burst;
  const double have = tokens(now_ns);
  config_ = config;
  restore(full ? config.burst : have, now_ns);
}

}  // namespace flight
