// SPDX-License-Identifier: Apache-2.0
// The signals of flightd before its event loop handles them: real ones, to a thread of its own or in a child process,
// so that the mask and the signals of the other tests stay as they are.
#include "daemon/start/start_signals.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "tests/unit/daemon/patience.hpp"

namespace flight::daemon {
namespace {

constexpr std::array kFourSignals{SIGTERM, SIGINT, SIGUSR2, SIGHUP};
const std::set<int> kAllOfFour(kFourSignals.begin(), kFourSignals.end());

// Those of the four that the calling thread blocks.
std::set<int> blocked_of_four() {
  sigset_t mask{};
  ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  std::set<int> out;
  for (const int number : kFourSignals)
    if (::sigismember(&mask, number) == 1) out.insert(number);
  return out;
}

// The next signal that the descriptor receives; 0: none is pending.
int next_signal(int fd) {
  signalfd_siginfo info{};
  const ssize_t bytes = ::read(fd, &info, sizeof info);
  if (bytes < 0 && errno == EAGAIN) return 0;
  return bytes == static_cast<ssize_t>(sizeof info) ? static_cast<int>(info.ssi_signo) : -1;
}

// A mask is of one thread, and so are signals that are sent to it.
template <typename What>
void on_own_thread(What what) {
  std::thread(what).join();
}

// Runs `what` in a process with one thread, where the signals have their default actions. Returns how it ended.
template <typename What>
int status_of_child(What what) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int number : kFourSignals) static_cast<void>(std::signal(number, SIG_DFL));
    ::_exit(what());
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StartSignals, HoldingBlocksTwoAndFreesTwo) {
  const std::set<int> before = blocked_of_four();
  on_own_thread([] {
    ASSERT_TRUE(block_signals());
    hold_signals();
    EXPECT_EQ(blocked_of_four(), (std::set<int>{SIGUSR2, SIGHUP}));
  });
  EXPECT_EQ(blocked_of_four(), before) << "the other tests have another mask now";
}

TEST(StartSignals, OneThatIsHeldWaitsAndTheOthersEndTheProcess) {
  for (const int number : {SIGTERM, SIGINT}) {
    const int status = status_of_child([number] {
      hold_signals();
      ::kill(::getpid(), SIGHUP);
      ::kill(::getpid(), SIGUSR2);
      ::kill(::getpid(), number);
      return 0;
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), number);
  }
}

// As `systemctl reload` sends it during an attempt.
TEST(StartSignals, OneThatWasHeldIsReceivedLater) {
  EXPECT_EQ(status_of_child([] {
              hold_signals();
              ::kill(::getpid(), SIGHUP);
              const auto signals = block_signals();
              if (!signals) return 1;
              return next_signal(signals->get()) == SIGHUP ? 0 : 2;
            }),
            0);
}

TEST(StartSignals, TheDescriptorReceivesEachOfTheFour) {
  on_own_thread([] {
    const auto signals = block_signals();
    ASSERT_TRUE(signals) << signals.error().what;
    EXPECT_EQ(blocked_of_four(), kAllOfFour);
    EXPECT_EQ(next_signal(signals->get()), 0) << "it must not wait";
    for (const int number : kFourSignals) {
      ASSERT_EQ(::raise(number), 0);
      EXPECT_EQ(next_signal(signals->get()), number);
    }
    EXPECT_EQ(next_signal(signals->get()), 0);
    EXPECT_NE(::fcntl(signals->get(), F_GETFD) & FD_CLOEXEC, 0);
  });
}

// As the service manager sends them.
TEST(StartSignals, TheDescriptorReceivesThoseOfTheProcess) {
  for (const int number : kFourSignals)
    EXPECT_EQ(status_of_child([number] {
                const auto signals = block_signals();
                if (!signals) return 1;
                ::kill(::getpid(), number);
                return next_signal(signals->get()) == number ? 0 : 2;
              }),
              0)
        << number;
}

TEST(StartSignals, ThreadsThatStartLaterInheritTheMask) {
  on_own_thread([] {
    ASSERT_TRUE(block_signals());
    on_own_thread([] { EXPECT_EQ(blocked_of_four(), kAllOfFour); });
  });
}

TEST(StartSignals, AWaitTakesOneThatIsPending) {
  on_own_thread([] {
    EXPECT_EQ(wait_for_signal(std::chrono::seconds(0)), 0) << "none has come";
    EXPECT_EQ(blocked_of_four(), kAllOfFour);
    for (const int number : kFourSignals) {
      ASSERT_EQ(::raise(number), 0);
      EXPECT_EQ(wait_for_signal(std::chrono::seconds(0)), number);
    }
    EXPECT_EQ(wait_for_signal(std::chrono::seconds(0)), 0) << "one was taken twice";
  });
}

TEST(StartSignals, AWaitEndsWithTheSignal) {
  on_own_thread([] {
    EXPECT_EQ(wait_for_signal(std::chrono::seconds(0)), 0);
    const pthread_t waits = ::pthread_self();
    std::thread sender([waits] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // usually it waits by then
      EXPECT_EQ(::pthread_kill(waits, SIGINT), 0);
    });
    EXPECT_EQ(wait_for_signal(test::kPatience), SIGINT);
    sender.join();
  });
}

TEST(StartSignals, AWaitWithoutASignalTakesItsTime) {
  on_own_thread([] {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(wait_for_signal(std::chrono::seconds(1)), 0);
    EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
  });
}

}  // namespace
}  // namespace flight::daemon
