// SPDX-License-Identifier: Apache-2.0
// A client in a loop: how much of the event loop it gets, and that others do not wait for it. The clock stands unless a
// test moves it.
#include "daemon/control/call_rates.hpp"

#include <gmock/gmock.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/unit/daemon/control/raw_client.hpp"
#include "tests/unit/daemon/virtual_clock.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::HasSubstr;

constexpr uid_t kLoudUser = 40'000, kQuietUser = 40'001;
constexpr gid_t kMembersGroup = 54'321;
constexpr CallRateLimits kSmallRates{.per_second = 10, .at_once = 40, .strangers = 4};

// How many connections of this user are admitted, of `count`.
int admitted(CallRates& rates, uid_t uid, int count) {
  int out = 0;
  for (int number = 0; number < count; ++number)
    if (rates.admit(uid) == Admission::admitted) ++out;
  return out;
}

TEST(CallRatesTest, AfterAQuietTimeManyStepsAreTakenAtOnceAndThenAsManyAsTheRateAllows) {
  VirtualClock clock;
  CallRates rates(kSmallRates, clock);
  for (int step = 0; step < 40; ++step) EXPECT_EQ(rates.left(rates.begin(kLoudUser)), 0ns) << step;
  EXPECT_EQ(rates.left(rates.begin(kLoudUser)), 100ms);
  const EventTime turn = rates.begin(kLoudUser);
  EXPECT_EQ(rates.left(turn), 200ms);
  EXPECT_EQ(rates.admit(kLoudUser), Admission::own_is_empty);
  clock.advance(150ms);
  EXPECT_EQ(rates.left(turn), 50ms);
  clock.advance(50ms);
  EXPECT_EQ(rates.left(turn), 0ns);
  EXPECT_EQ(rates.admit(kLoudUser), Admission::own_is_empty) << "what waits has its turn first";
  clock.advance(100ms);
  EXPECT_EQ(admitted(rates, kLoudUser, 5), 1);
  clock.advance(1h);
  EXPECT_EQ(admitted(rates, kLoudUser, 100), 40) << "it does not save more";
}

TEST(CallRatesTest, AUserDelaysHimselfOnly) {
  VirtualClock clock;
  CallRates rates(kSmallRates, clock);
  EXPECT_EQ(admitted(rates, kLoudUser, 1000), 40);
  EXPECT_EQ(rates.left(rates.begin(kQuietUser)), 0ns);
  EXPECT_EQ(rates.admit(kQuietUser), Admission::admitted);
}

// Each of them has an account; together they have four.
TEST(CallRatesTest, ThousandsOfUidsOfOneUserTakeFromOneAccount) {
  VirtualClock clock;
  CallRates rates(kSmallRates, clock);
  EXPECT_EQ(rates.admit(kQuietUser), Admission::admitted);
  rates.note_member(kQuietUser);
  int taken = 0;
  for (uid_t uid = 100'000; uid < 110'000; ++uid) taken += admitted(rates, uid, 10);
  EXPECT_EQ(taken, 4 * 40 - 1);
  EXPECT_EQ(rates.admit(kQuietUser), Admission::admitted) << "the members of flightd's groups take nothing from it";
  EXPECT_EQ(rates.left(rates.begin(kQuietUser)), 0ns);
  clock.advance(1s);
  taken = 0;
  for (uid_t uid = 200'000; uid < 210'000; ++uid) taken += admitted(rates, uid, 10);
  EXPECT_EQ(taken, 4 * 10);
}

TEST(CallRatesTest, TheGroupsOfAUserAreWantedOnceAMinuteUntilHeIsAMember) {
  VirtualClock clock;
  CallRates rates(kSmallRates, clock);
  EXPECT_TRUE(rates.wants_groups(kLoudUser));
  EXPECT_FALSE(rates.wants_groups(kLoudUser));
  EXPECT_TRUE(rates.wants_groups(kQuietUser));
  clock.advance(61s);
  EXPECT_TRUE(rates.wants_groups(kLoudUser)) << "he may be a member now";
  rates.note_member(kLoudUser);
  clock.advance(61s);
  EXPECT_FALSE(rates.wants_groups(kLoudUser));
  // All subordinate uids of one user, again and again: each is looked at once.
  int looks = 0;
  for (int round = 0; round < 3; ++round)
    for (uid_t uid = 100'000; uid < 165'536; ++uid) looks += rates.wants_groups(uid) ? 1 : 0;
  EXPECT_EQ(looks, 65'536);
}

TEST(CallRatesTest, AMemberHasAnAccountHoweverManyStrangersHaveOne) {
  VirtualClock clock;
  CallRates rates({.per_second = 10, .at_once = 4000, .strangers = 1}, clock);
  for (uid_t uid = 0; uid < CallRates::kMaxUsers; ++uid) ASSERT_EQ(rates.admit(uid), Admission::admitted);
  EXPECT_EQ(admitted(rates, kLoudUser, 10'000), 4000 - static_cast<int>(CallRates::kMaxUsers));
  EXPECT_EQ(rates.admit(kQuietUser), Admission::common_is_empty);
  rates.note_member(kQuietUser);
  EXPECT_EQ(admitted(rates, kQuietUser, 5000), 4000);
}

TEST(CallRatesTest, WithTooManyUidsTheOthersShareOneAccount) {
  VirtualClock clock;
  CallRates rates({.per_second = 10, .at_once = 4000, .strangers = 1}, clock);
  for (uid_t uid = 0; uid < CallRates::kMaxUsers; ++uid) ASSERT_EQ(rates.admit(uid), Admission::admitted);
  EXPECT_EQ(admitted(rates, kLoudUser, 10'000), 4000 - static_cast<int>(CallRates::kMaxUsers));
  clock.advance(1h);  // all accounts are full again, and are forgotten
  EXPECT_EQ(rates.admit(kLoudUser), Admission::admitted);
  EXPECT_EQ(rates.left(rates.begin(kLoudUser)), 0ns);
}

// Credentials belong to a thread; the C library's wrappers would change all threads.
template <typename What>
void as_uid(uid_t uid, const std::vector<gid_t>& groups, What what) {
  std::thread thread([&] {
    ASSERT_EQ(::syscall(SYS_setgroups, groups.size(), groups.data()), 0);
    ASSERT_EQ(::syscall(SYS_setresgid, kLoudUser, kLoudUser, kLoudUser), 0);
    ASSERT_EQ(::syscall(SYS_setresuid, uid, uid, uid), 0);
    what();
  });
  thread.join();
}

// Outlives the server, which is a member of the other base.
struct StandingClock {
  VirtualClock clock_;
};

// The test's user is root, who has no rate.
class CallFloodTest : protected StandingClock, public ControlServerTest {
 protected:
  void run_with(CallRateLimits rates) {
    ControlLimits limits;
    limits.rates = rates;
    ControlAccess access;
    access.own_uid = 12'345;
    access.group = kMembersGroup;
    run(limits, access, clock_);
  }
};

TEST_F(CallFloodTest, CallsAboveTheRateWaitAndThoseOfOthersDoNot) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  run_with(kSmallRates);
  std::unique_ptr<RawClient> flood;
  as_uid(kLoudUser, {kMembersGroup}, [&] { flood = std::make_unique<RawClient>(bench.socket()); });
  std::string calls;
  for (int call = 0; call < 60; ++call) calls += call_text("a.b.C", "{}", R"(,"oneway":true)");
  ASSERT_TRUE(flood->send(calls + kGetStatus));
  EXPECT_FALSE(flood->receive(100ms)) << "it is the 61st call, and 40 steps are allowed";
  EXPECT_EQ(ask(kGetStatus).error, "") << "root";
  as_uid(kQuietUser, {kMembersGroup}, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
  EXPECT_FALSE(flood->receive(0ms));
  clock_.advance(10s);
  const auto reply = flood->receive();
  ASSERT_TRUE(reply) << "the calls were executed, each at its turn";
  EXPECT_EQ(reply->error, "");
}

TEST_F(CallFloodTest, ConnectionsAboveTheRateAreRefusedAndThoseOfOthersAreNot) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  run_with(kSmallRates);
  std::optional<Reply> refused;
  as_uid(kLoudUser, {}, [&] {
    for (int number = 0; number < 100 && !refused; ++number) {
      RawClient client(bench.socket());
      ASSERT_TRUE(client.connected());
      refused = client.receive(50ms);  // an admitted connection gets nothing without a call
    }
  });
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->error, "org.varlink.service.PermissionDenied");
  EXPECT_THAT(error_message(*refused), HasSubstr("uid 40000 connects to flightd, or calls it, more often than it may"));
  EXPECT_EQ(ask(kGetStatus).error, "") << "root";
  as_uid(kQuietUser, {}, [&] { EXPECT_EQ(ask(kGetInfo).error, ""); });
  clock_.advance(10s);
  as_uid(kLoudUser, {}, [&] { EXPECT_EQ(ask(kGetInfo).error, ""); });
}

// None of them connects more often than it may, but their common account is empty at last.
TEST_F(CallFloodTest, AMemberWhoConnectsForTheFirstTimeWhileStrangersFloodIsServed) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  run_with(kSmallRates);
  std::optional<Reply> refused;
  for (uid_t uid = 50'000; uid < 50'010 && !refused; ++uid)
    as_uid(uid, {}, [&] {
      for (int number = 0; number < 15 && !refused; ++number) {
        RawClient client(bench.socket());
        ASSERT_TRUE(client.connected());
        refused = client.receive(5ms);  // an admitted connection gets nothing without a call
      }
    });
  ASSERT_TRUE(refused);
  EXPECT_THAT(error_message(*refused), HasSubstr("users outside of flightd's groups connect to flightd, or call it"));
  as_uid(kQuietUser, {kMembersGroup}, [&] { EXPECT_EQ(ask(kGetStatus).error, ""); });
  as_uid(kLoudUser, {}, [&] { EXPECT_EQ(ask(kGetInfo).error, "org.varlink.service.PermissionDenied"); });
}

// A call that waits for its turn is a call: its connection is not idle.
TEST_F(CallFloodTest, AConnectionWhoseCallWaitsIsNotReplaced) {
  if (!is_root()) GTEST_SKIP() << "needs root";
  ControlLimits limits;
  limits.rates = {.per_second = 1, .at_once = 9, .strangers = 4};
  limits.trusted = limits.per_trusted_uid = 1;
  ControlAccess access;
  access.own_uid = 12'345;
  access.group = kMembersGroup;
  run(limits, access, clock_);
  std::unique_ptr<RawClient> waiting;
  as_uid(kLoudUser, {kMembersGroup}, [&] {
    waiting = std::make_unique<RawClient>(bench.socket());
    std::string calls;
    for (int call = 0; call < 9; ++call) calls += call_text("a.b.C", "{}", R"(,"oneway":true)");
    ASSERT_TRUE(waiting->send(calls + kGetStatus));
    EXPECT_FALSE(waiting->receive(50ms));
  });
  clock_.advance(2s);  // enough for a new connection to be looked at, not for all calls
  as_uid(kLoudUser, {kMembersGroup}, [&] { EXPECT_EQ(ask(kGetInfo).error, "org.varlink.service.PermissionDenied"); });
  clock_.advance(60s);
  const auto reply = waiting->receive();
  ASSERT_TRUE(reply) << "it was not closed";
  EXPECT_EQ(reply->error, "");
}

}  // namespace
}  // namespace flight::daemon
