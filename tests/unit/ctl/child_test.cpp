// SPDX-License-Identifier: Apache-2.0
// Programs that run without a shell: their output, their exit status, and the limit of the memory that they can fill.
#include "ctl/child.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>

namespace flight::ctl {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(Child, ReturnsItsStatusAndOutput) {
  auto child = Child::start({"sh", "-c", "echo out; echo err >&2; cat; exit 3"});
  ASSERT_TRUE(child) << child.error().what;
  EXPECT_EQ(child->wait(20s), 3);
  EXPECT_EQ(child->out(), "out\n");
  EXPECT_EQ(child->err(), "err\n");
  EXPECT_EQ(child->wait(20s), std::nullopt) << "it is gone";
  auto killed = Child::start({"sh", "-c", "kill -9 $$"});
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->wait(20s), 128 + SIGKILL);
}

TEST(Child, OneThatCannotBeStartedIsAnErrorHere) {
  const auto none = Child::start({"no-such-program"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().errno_value(), ENOENT);
  EXPECT_THAT(none.error().what, HasSubstr("start no-such-program"));
  EXPECT_EQ(Child::start({"/etc/passwd"}).error().errno_value(), EACCES);
}

TEST(Child, OneThatStaysIsNotWaitedForLonger) {
  auto child = Child::start({"sleep", "1000"});
  ASSERT_TRUE(child);
  EXPECT_EQ(child->wait(10ms), std::nullopt);
  child->kill();
  EXPECT_EQ(child->wait(20s), 128 + SIGKILL);
}

// As flightctl record, which waits for both with sigwait(3): Ctrl-C must not end its ssh, and its own end must.
TEST(Child, SigtermEndsItWhateverItsParentBlocks) {
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGTERM}) ::sigaddset(&blocked, number);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, &before), 0);
  auto child = Child::start({"grep", "SigBlk", "/proc/self/status"});
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  ASSERT_TRUE(child) << child.error().what;
  ASSERT_EQ(child->wait(20s), 0);
  const std::uint64_t mask = std::stoull(child->out().substr(sizeof "SigBlk:" - 1), nullptr, 16);
  EXPECT_NE(mask & (1U << (SIGINT - 1)), 0U);
  EXPECT_EQ(mask & (1U << (SIGTERM - 1)), 0U);
}

TEST(Child, ItsOutputIsBounded) {
  const std::string much = "head -c 3000000 /dev/zero | tr '\\0' x";
  auto out = Child::start({"sh", "-c", much + " 2>/dev/null"});
  ASSERT_TRUE(out && out->wait(20s));
  EXPECT_EQ(out->out().size(), Child::kMaxOutputBytes);
  auto err = Child::start({"sh", "-c", "exec 3>&2 2>/dev/null; " + much + " >&3"});
  ASSERT_TRUE(err && err->wait(20s));
  EXPECT_EQ(err->err().size(), Child::kMaxOutputBytes);
}

TEST(Child, ASocketIsItsStdinAndItsStdout) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd here(ends[0]);
  UniqueFd there(ends[1]);
  auto child = Child::start({"cat"}, there.get());
  ASSERT_TRUE(child);
  there.reset();
  ASSERT_EQ(::write(here.get(), "hello", 5), 5);
  std::array<char, 16> answer{};
  EXPECT_EQ(::read(here.get(), answer.data(), answer.size()), 5);
  EXPECT_STREQ(answer.data(), "hello");
  ::shutdown(here.get(), SHUT_WR);
  EXPECT_EQ(child->wait(20s), 0);
  EXPECT_EQ(child->out(), "");
}

}  // namespace
}  // namespace flight::ctl
