// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/call_rates.hpp"

#include <algorithm>

namespace flight::daemon {
namespace {

constexpr EventTime kSecond = 1'000'000'000;
constexpr EventTime kSeenFor = 60 * kSecond;

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

bool CallRates::wants_groups(uid_t uid) {
  const EventTime now_ns = clock_.now();
  if (const auto found = accounts_.find(uid); found != accounts_.end() && found->second.is_member) return false;
  if (now_ns >= forget_seen_ns_) {
    seen_.clear();
    forget_seen_ns_ = now_ns + kSeenFor;
  }
  if (seen_.size() >= kMaxPages && !seen_.contains(uid / kPageUids)) seen_.clear();
  auto bit = seen_[uid / kPageUids][uid % kPageUids];
  if (bit) return false;
  bit = true;
  return true;
}

void CallRates::note_member(uid_t uid) {
  Account* own = &account_of(uid, clock_.now());
  if (own == &strangers_) {
    // A stranger without an account of his own is one of many: nothing is lost for him.
    const auto other =
        std::find_if(accounts_.begin(), accounts_.end(), [](const auto& one) { return !one.second.is_member; });
    if (other == accounts_.end()) return;
    accounts_.erase(other);
    own = &accounts_[uid];
  }
  own->is_member = true;
}

Admission CallRates::admit(uid_t uid) {
  const EventTime now_ns = clock_.now();
  Account& own = account_of(uid, now_ns);
  const bool is_stranger = !own.is_member, has_own = &own != &strangers_;
  if (has_own && !has_left(own, own_, now_ns)) return Admission::own_is_empty;
  if (is_stranger && !has_left(strangers_, common_, now_ns)) return Admission::common_is_empty;
  if (has_own) charge(own, own_, now_ns);
  if (is_stranger) charge(strangers_, common_, now_ns);
  return Admission::admitted;
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
