// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/call_rates.hpp"

#include <algorithm>

namespace flight::daemon {
namespace {

constexpr EventTime kSecond = 1'000'000'000;

}  // namespace

CallRates::CallRates(CallRateLimits limits, const WaitingClock& clock)
    : clock_(clock),
      own_{.step_ns = kSecond / limits.per_second, .most_ns = kSecond / limits.per_second * limits.at_once},
      common_{.step_ns = own_.step_ns / limits.strangers, .most_ns = own_.most_ns} {}

bool CallRates::has_left(const Account& account, const Rate& rate, EventTime now_ns) {
  return std::max(account.full_at_ns, now_ns) + rate.step_ns <= now_ns + rate.most_ns;
}

// Returns when its turn is.
EventTime CallRates::charge(Account& account, const Rate& rate, EventTime now_ns) {
  account.full_at_ns = std::max(account.full_at_ns, now_ns) + rate.step_ns;
  return account.full_at_ns > now_ns + rate.most_ns ? account.full_at_ns - rate.most_ns : now_ns;
}

CallRates::Account& CallRates::account_of(uid_t uid, EventTime now_ns) {
  if (const auto found = accounts_.find(uid); found != accounts_.end()) return found->second;
  if (accounts_.size() >= kMaxUsers)
    std::erase_if(accounts_,
                  [now_ns](const auto& one) { return !one.second.is_member && one.second.full_at_ns <= now_ns; });
  return accounts_.size() < kMaxUsers ? accounts_[uid] : strangers_;
}

bool CallRates::admit(uid_t uid) {
  const EventTime now_ns = clock_.now();
  Account& own = account_of(uid, now_ns);
  const bool is_stranger = !own.is_member;
  if (is_stranger && !has_left(strangers_, common_, now_ns)) return false;
  if (&own != &strangers_) {
    if (!has_left(own, own_, now_ns)) return false;
    charge(own, own_, now_ns);
  }
  if (is_stranger) charge(strangers_, common_, now_ns);
  return true;
}

void CallRates::note_member(uid_t uid) {
  Account& own = account_of(uid, clock_.now());
  if (&own != &strangers_) own.is_member = true;
}

EventTime CallRates::begin(uid_t uid) {
  const EventTime now_ns = clock_.now();
  Account& own = account_of(uid, now_ns);
  EventTime turn = now_ns;
  if (!own.is_member) turn = charge(strangers_, common_, now_ns);
  if (&own != &strangers_) turn = std::max(turn, charge(own, own_, now_ns));
  return turn;
}

std::chrono::nanoseconds CallRates::left(EventTime turn) const {
  const EventTime now_ns = clock_.now();
  return std::chrono::nanoseconds(turn > now_ns ? static_cast<std::int64_t>(turn - now_ns) : 0);
}

}  // namespace flight::daemon
