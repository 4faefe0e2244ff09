// SPDX-License-Identifier: Apache-2.0
// The first attach: how long a broker is asked that serves another flightd, and what its other answers mean.
#include "daemon/start/first_attach.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "tests/unit/daemon/fake_broker.hpp"
#include "tests/unit/daemon/virtual_clock.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;

class FirstAttachTest : public testing::Test {
 protected:
  // Each attempt has a connection of its own.
  Result<BrokerClient> find() {
    std::array<int, 2> ends{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return sys_error(errno, "make a socket pair");
    test::BrokerSetup setup;
    if (++attempts_ <= refusals_) setup.refused[Request::attach] = refusal_;
    broker_.emplace(UniqueFd(ends[0]), std::move(setup));
    if (dies_) broker_->die();
    return BrokerClient(UniqueFd(ends[1]));
  }
  FirstAttach attach() {
    return attach_first([this] { return find(); }, std::nullopt, clock_);
  }
  std::future<FirstAttach> attach_later() {
    return std::async(std::launch::async, [this] { return attach(); });
  }
  // Waits until the next attempt is waited for.
  [[nodiscard]] bool is_waiting() const {
    return clock_.is_waited_for(clock_.now() + static_cast<EventTime>(std::chrono::nanoseconds(kAskAgain).count()));
  }

  test::VirtualClock clock_;
  std::atomic<int> attempts_ = 0;
  int refusals_ = 0;  // attempts that are refused
  Error refusal_{std::make_error_code(std::errc::device_or_resource_busy), "it serves another flightd"};
  bool dies_ = false;
  std::optional<test::FakeBroker> broker_;
};

TEST_F(FirstAttachTest, ABusyBrokerIsAskedAgain) {
  refusals_ = 2;
  auto later = attach_later();
  for (int attempt = 1; attempt <= 2; ++attempt) {
    ASSERT_TRUE(is_waiting());
    EXPECT_EQ(attempts_, attempt);
    clock_.advance(kAskAgain);
  }
  const FirstAttach first = later.get();
  EXPECT_TRUE(first.attachment) << first.attachment.error().what;
  EXPECT_TRUE(first.broker);
  EXPECT_EQ(attempts_, 3);
}

TEST_F(FirstAttachTest, ABrokerThatStaysBusyIsGivenUp) {
  refusals_ = 1000;
  auto later = attach_later();
  ASSERT_TRUE(is_waiting());
  clock_.advance(kBusyWait - 1ns);
  ASSERT_TRUE(is_waiting());
  EXPECT_FALSE(test::is_there(later));
  clock_.advance(kAskAgain);
  const FirstAttach first = later.get();
  ASSERT_FALSE(first.attachment);
  EXPECT_TRUE(first.attachment.error().code == refusal_.code) << first.attachment.error().what;
  EXPECT_FALSE(first.refused) << "it may record for the other one";
  EXPECT_FALSE(first.broker);
  EXPECT_EQ(attempts_, 3);
}

TEST_F(FirstAttachTest, ABrokerThatCannotRecordIsNotAskedAgain) {
  refusals_ = 1;
  refusal_ = {std::make_error_code(std::errc::not_enough_memory), "no memory for the rings"};
  const FirstAttach first = attach();
  ASSERT_FALSE(first.attachment);
  EXPECT_NE(first.attachment.error().what.find("no memory for the rings"), std::string::npos);
  EXPECT_TRUE(first.refused);
  EXPECT_EQ(attempts_, 1);
}

TEST_F(FirstAttachTest, ABrokerThatEndsHasNotRefused) {
  dies_ = true;
  const FirstAttach first = attach();
  EXPECT_FALSE(first.attachment);
  EXPECT_FALSE(first.refused);
  EXPECT_EQ(attempts_, 1);
}

TEST_F(FirstAttachTest, ABrokerThatIsNotFoundIsNotWaitedFor) {
  const FirstAttach first =
      attach_first([]() -> Result<BrokerClient> { return sys_error(ENOENT, "a test"); }, std::nullopt, clock_);
  ASSERT_FALSE(first.attachment);
  EXPECT_EQ(first.attachment.error().errno_value(), ENOENT);
  EXPECT_FALSE(first.refused);
}

}  // namespace
}  // namespace flight::daemon
