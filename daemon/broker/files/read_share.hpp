// SPDX-License-Identifier: Apache-2.0
// The CPU time that the broker may use to read build-ids: some of it at once, and 1 % of a CPU over time, for all users
// together. Charges are measured, and can arrive late: a user who then owes more than is permitted waits for longer.
//
//   used up to now  =  paid back (1 % of the time, the same part to each user who owes something)  +  what they owe
//
//       owed by one user   0 ──────┬─── kOwn ────────────────────┬────────────────── kOfUser ──▶ waits
//                                  reserved for this user        from the common part, while some is left (kCommon)
//
// Noticing that files were mapped cannot wait. Its cost is charged to the user, but only up to kNoticed: beyond that,
// it is on top of the 1 %. It never uses the common part.
//
// So a user who maps new files for ever waits, and the others do not: each of them gets the same part of what is paid
// back. Root is a user like others. Times are of CLOCK_MONOTONIC, which stands while the machine is suspended. Main
// thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace flight::broker {

class ReadShare {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using CpuTime = std::chrono::nanoseconds;
  // A uid, or one of two accounts without a user: scans that are made only for the files, and looks at records of other
  // things.
  using Account = std::uint64_t;
  static constexpr Account kScans = Account{1} << 32U, kLooks = kScans + 1;

  static constexpr int kPart = 100;  // one part of so many
  // A file takes 50 to 150 µs: so a machine's first 16,384 files are read without a pause.
  static constexpr std::chrono::milliseconds kOwn{40}, kOfUser{4000}, kCommon{8000};
  // Less than Use::again permits, so that a user who only starts programs does not wait.
  static constexpr std::chrono::milliseconds kNoticed{1500};
  static constexpr std::size_t kMaxUsers = 64;  // who owe something at a time; the others are one (kEndedOwner)

  // Each use leaves a part of what is permitted to the uses after it. The value is the number of quarters that it may
  // use.
  enum class Use : std::uint8_t {
    again = 2,  // a known file was mapped again: it can be looked at when a snapshot needs it
    fresh = 3,  // a new file: nothing is known of it if it goes away unread
    asked = 4   // a snapshot waits
  };
  [[nodiscard]] bool may(Account account, Use use, Time now);
  // The time at which may() becomes true if the users pay back at the present rate; nullopt: it is true now.
  [[nodiscard]] std::optional<Time> goes_on(Account account, Use use, Time now);
  // True if some user may not use any CPU time for fresh files now.
  [[nodiscard]] bool any_held(Time now);

  void charge(Account account, CpuTime used, Time now);
  // For what cannot wait, as the records of a ring: the debt grows up to kNoticed only.
  void charge_notice(Account account, CpuTime used, Time now);
  [[nodiscard]] CpuTime owed(Account account) const;

 private:
  struct Debt {
    CpuTime read{0}, noticed{0};
    [[nodiscard]] CpuTime all() const { return read + noticed; }
  };
  void pay_back(Time now);
  [[nodiscard]] Account account_of(Account account) const;
  [[nodiscard]] CpuTime common() const;
  [[nodiscard]] static CpuTime most(CpuTime all, Use use) { return all * static_cast<int>(use) / 4; }

  std::map<Account, Debt> owed_;  // each above 0
  std::optional<Time> paid_until_;
};

}  // namespace flight::broker
