// SPDX-License-Identifier: Apache-2.0
#include "libcore/trigger/policy.hpp"

#include <algorithm>
#include <array>

namespace flight {
namespace {

constexpr SignedTime kDayNs = 24 * kHourNs;

}  // namespace

std::string_view to_string(SuppressedBy by) {
  constexpr std::array<std::string_view, kSuppressedByCount> kWords{
      "", "disabled", "cooldown", "max_per_hour", "max_per_day", "storm guard", "a pause of the recording"};
  return kWords.at(static_cast<std::size_t>(by));
}

RatePolicy::RatePolicy(const TriggerConfig& config)
    : cooldown_ns_(config.cooldown.count()), max_per_hour_(config.max_per_hour), max_per_day_(config.max_per_day) {}

Verdict RatePolicy::ask(SignedTime now_ns) const {
  Verdict verdict;
  const auto limit = [&](SuppressedBy by, SignedTime until_ns) {
    if (until_ns > now_ns && (verdict.passes() || until_ns > verdict.until_ns)) verdict = {by, until_ns};
  };
  // The firing that must be older than the window before another one is allowed.
  const auto window = [&](SuppressedBy by, std::size_t most, SignedTime span_ns) {
    if (most > 0 && firings_.size() >= most) limit(by, firings_[firings_.size() - most] + span_ns);
  };
  if (!firings_.empty()) limit(SuppressedBy::cooldown, firings_.back() + cooldown_ns_);
  if (vain_) limit(SuppressedBy::cooldown, vain_ns_ + cooldown_ns_);
  window(SuppressedBy::max_per_hour, max_per_hour_, kHourNs);
  window(SuppressedBy::max_per_day, max_per_day_, kDayNs);
  return verdict;
}

void RatePolicy::note(SignedTime now_ns) {
  firings_.push_back(firings_.empty() ? now_ns : std::max(now_ns, firings_.back()));
  const std::size_t needed = std::max({std::size_t{1}, max_per_hour_, max_per_day_});
  while (firings_.size() > needed) firings_.pop_front();
}

std::optional<SignedTime> RatePolicy::day_used_until(SignedTime now_ns) const {
  if (max_per_day_ == 0 || firings_.size() < max_per_day_) return std::nullopt;
  const SignedTime until_ns = firings_[firings_.size() - max_per_day_] + kDayNs;
  return until_ns > now_ns ? std::optional(until_ns) : std::nullopt;
}

void RatePolicy::take_back() {
  if (firings_.empty()) return;
  vain_ = true;
  vain_ns_ = firings_.back();
  firings_.pop_back();
}

void RatePolicy::restore(const std::vector<SignedTime>& firings, SignedTime now_ns) {
  firings_.clear();
  // The longest limit is a cooldown of 30 days; a jump of the clock may be longer.
  for (const SignedTime time : firings) note(std::clamp(time, now_ns - 366 * kDayNs, now_ns));
}

}  // namespace flight
