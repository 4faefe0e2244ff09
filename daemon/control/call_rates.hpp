// SPDX-License-Identifier: Apache-2.0
// How much of the event loop's time a user may take: everybody may connect, and a connection, a read and a call each
// cost it some microseconds. Each user has an account of such steps, which fills up at a steady rate. While it is
// empty, his calls wait for their turn, and his new connections are refused before more is asked about them. So a
// client in a loop costs a few percent of a CPU, and delays its own user only.
//
// A process can have many uids (subuid(5)). Those of strangers also take from one common account. Before it refuses
// anybody, the groups of his uid are asked for, so that it keeps no member of flightd's groups out: once a minute, as
// they may change. Event loop only.
#pragma once

#include <sys/types.h>

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "libcore/base/waiting_clock.hpp"

namespace flight::daemon {

struct CallRateLimits {
  std::uint32_t per_second = 500;  // steps of a user; a call on an open connection is two, a connection for it two more
  std::uint32_t at_once = 5000;    // after a quiet time: a thousand connections with one call each, and some
  std::uint32_t strangers = 4;     // the common account, in accounts of one user
};

enum class Admission { admitted, own_is_empty, common_is_empty };

class CallRates {
 public:
  static constexpr std::size_t kMaxUsers = 1024;  // that have an account of their own

  CallRates(CallRateLimits limits, const WaitingClock& clock);

  // Whether the groups of this user are to be looked at, before admit(): not for a member, and not again for a minute.
  [[nodiscard]] bool wants_groups(uid_t uid);
  // From now on he takes nothing from the strangers' account.
  void note_member(uid_t uid);
  // Whether a new connection of this user may be looked at; if so, it has been charged. Otherwise which account is
  // empty.
  [[nodiscard]] Admission admit(uid_t uid);
  // Charges a step of a connection, and returns when its turn is.
  [[nodiscard]] EventTime begin(uid_t uid);
  // The time until `turn`; 0: it has come.
  [[nodiscard]] std::chrono::nanoseconds left(EventTime turn) const;

 private:
  // An account is one time: when it will be full again. Each step adds the time in which the rate replaces it.
  struct Account {
    EventTime full_at_ns = 0;
    bool is_member = false;
  };
  struct Rate {
    EventTime step_ns = 0, most_ns = 0;  // most: an empty account is full after it
  };
  [[nodiscard]] static bool has_left(const Account& account, const Rate& rate, EventTime now_ns);
  static EventTime charge(Account& account, const Rate& rate, EventTime now_ns);
  // Without an account of his own, where too many have one: the strangers'.
  [[nodiscard]] Account& account_of(uid_t uid, EventTime now_ns);

  const WaitingClock& clock_;
  Rate own_, common_;
  std::unordered_map<uid_t, Account> accounts_;
  Account strangers_;
  // The uids whose groups were looked at, a bit each: 64 pages are for all subordinate uids of three users.
  static constexpr uid_t kPageUids = 4096;
  static constexpr std::size_t kMaxPages = 64;
  std::unordered_map<uid_t, std::bitset<kPageUids>> seen_;
  EventTime forget_seen_ns_ = 0;
};

}  // namespace flight::daemon
