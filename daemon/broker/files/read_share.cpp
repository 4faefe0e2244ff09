// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/read_share.hpp"

#include <algorithm>
#include <vector>

#include "daemon/broker/files/process_owner.hpp"

namespace flight::broker {
namespace {

// Debts are paid back at most this often: shorter times are not divided among the users.
constexpr std::chrono::milliseconds kPayEvery{1};

}  // namespace

ReadShare::Account ReadShare::account_of(Account account) const {
  const bool has_space = owed_.size() < kMaxUsers || account >= kScans || owed_.contains(account);
  return has_space ? account : Account{kEndedOwner};
}

ReadShare::CpuTime ReadShare::owed(Account account) const {
  const auto found = owed_.find(account_of(account));
  return found != owed_.end() ? found->second.all() : CpuTime(0);
}

// The sum of the debts for reads, of each user only the part between kOwn and kOfUser. A debt beyond kOfUser makes only
// that user wait.
ReadShare::CpuTime ReadShare::common() const {
  CpuTime out{0};
  for (const auto& [account, debt] : owed_)
    if (account < kScans) out += std::clamp<CpuTime>(debt.read - kOwn, CpuTime(0), CpuTime(kOfUser) - kOwn);
  return out;
}

// Users who owe least come first: what they leave of their part is for the others. Time that no user owes is not saved
// up. Reads are paid back first, since they may have used the common part.
void ReadShare::pay_back(Time now) {
  if (!paid_until_) paid_until_ = now;
  if (now - *paid_until_ < kPayEvery) return;
  CpuTime left = (now - *paid_until_) / kPart;
  *paid_until_ += left * kPart;
  std::vector<Debt*> debts;
  for (auto& [account, debt] : owed_) debts.push_back(&debt);
  std::sort(debts.begin(), debts.end(), [](const Debt* a, const Debt* b) { return a->all() < b->all(); });
  auto others = static_cast<std::int64_t>(debts.size());
  for (Debt* debt : debts) {
    const CpuTime paid = std::min(debt->all(), left / others--);
    const CpuTime of_reads = std::min(paid, debt->read);
    debt->read -= of_reads;
    debt->noticed -= paid - of_reads;
    left -= paid;
  }
  std::erase_if(owed_, [](const auto& one) { return one.second.all() <= CpuTime(0); });
}

bool ReadShare::may(Account account, Use use, Time now) {
  pay_back(now);
  const CpuTime debt = owed(account);
  return debt < most(kOwn, use) || (debt < most(kOfUser, use) && common() < most(kCommon, use));
}

std::optional<ReadShare::Time> ReadShare::goes_on(Account account, Use use, Time now) {
  if (may(account, use, now)) return std::nullopt;
  const CpuTime debt = owed(account);
  CpuTime left = debt - most(kOfUser, use);
  if (const CpuTime beyond = common() - most(kCommon, use); beyond >= CpuTime(0))
    left = std::max(left, std::min(beyond, debt - most(kOwn, use)));
  return now + (std::max(left, CpuTime(0)) + CpuTime(1)) * kPart * static_cast<std::int64_t>(owed_.size());
}

bool ReadShare::any_held(Time now) {
  pay_back(now);
  const bool is_common_used = common() >= most(kCommon, Use::fresh);
  return std::any_of(owed_.begin(), owed_.end(), [&](const auto& one) {
    return one.first < kScans &&
           one.second.all() >= most(is_common_used ? CpuTime(kOwn) : CpuTime(kOfUser), Use::fresh);
  });
}

void ReadShare::charge(Account account, CpuTime used, Time now) {
  pay_back(now);
  if (used > CpuTime(0)) owed_[account_of(account)].read += used;
}

void ReadShare::charge_notice(Account account, CpuTime used, Time now) {
  pay_back(now);
  const CpuTime counted = std::min(used, CpuTime(kNoticed) - owed(account));
  if (counted > CpuTime(0)) owed_[account_of(account)].noticed += counted;
}

}  // namespace flight::broker
