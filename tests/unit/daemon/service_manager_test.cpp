// SPDX-License-Identifier: Apache-2.0
// What the service manager passes to flightd, and what flightd reports: real sockets, the protocol of sd_listen_fds(3)
// and sd_notify(3).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "daemon/control/inherited_socket.hpp"
#include "daemon/notify/watchdog.hpp"
#include "libcore/base/unix_socket.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;

constexpr int kTaken = 0;
constexpr int kNothing = 1;
constexpr int kRefused = 2;

class SocketFolder {
 public:
  SocketFolder() {
    std::string name = std::filesystem::temp_directory_path() / "flight-manager-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  ~SocketFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

UniqueFd bound(int type, const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// Runs in a child whose descriptors 3, 4, … are `handed`; returns the result of inherited_control_socket().
int taken_in_child(const std::vector<int>& handed) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<int> copies;  // away from the target numbers
    for (const int fd : handed) copies.push_back(::fcntl(fd, F_DUPFD, 100));
    for (std::size_t i = 0; i < copies.size(); ++i) ::dup2(copies[i], 3 + static_cast<int>(i));
    if (!handed.empty()) {
      ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
      ::setenv("LISTEN_FDS", std::to_string(handed.size()).c_str(), 1);
    }
    const auto socket = inherited_control_socket();
    if (!socket) ::_exit(kRefused);
    if (!*socket) ::_exit(kNothing);
    const bool closes = (::fcntl(socket->get(), F_GETFD) & FD_CLOEXEC) != 0;
    ::_exit(std::getenv("LISTEN_FDS") == nullptr && closes ? kTaken : 3);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(InheritedSocket, TakesTheOneThatListens) {
  SocketFolder folder;
  const UniqueFd socket = bound(SOCK_STREAM, folder / "control");
  ASSERT_EQ(::listen(socket.get(), 1), 0);
  EXPECT_EQ(taken_in_child({socket.get()}), kTaken);
}

TEST(InheritedSocket, NothingWasHandedDown) { EXPECT_EQ(taken_in_child({}), kNothing); }

TEST(InheritedSocket, RefusesWhatIsNone) {
  SocketFolder folder;
  const UniqueFd listening = bound(SOCK_STREAM, folder / "control");
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  const UniqueFd mute = bound(SOCK_STREAM, folder / "mute");
  const UniqueFd packets = bound(SOCK_SEQPACKET, folder / "packets");
  ASSERT_EQ(::listen(packets.get(), 1), 0);
  EXPECT_EQ(taken_in_child({mute.get()}), kRefused) << "it does not listen";
  EXPECT_EQ(taken_in_child({packets.get()}), kRefused) << "no stream";
  EXPECT_EQ(taken_in_child({STDERR_FILENO}), kRefused) << "no socket";
  EXPECT_EQ(taken_in_child({listening.get(), mute.get()}), kRefused) << "two";
}

class WatchdogTest : public testing::Test {
 protected:
  WatchdogTest() {
    ::setenv("NOTIFY_SOCKET", (folder_ / "notify").c_str(), 1);
    ::setenv("WATCHDOG_USEC", "20000", 1);
    ::unsetenv("WATCHDOG_PID");
  }
  ~WatchdogTest() override {
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC"}) ::unsetenv(name);
  }
  // The messages since the last call.
  std::size_t received() {
    std::size_t out = 0;
    std::array<char, 256> text{};
    ssize_t got = 0;
    while ((got = ::recv(manager_.get(), text.data(), text.size(), MSG_DONTWAIT)) > 0) {
      EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(got)), "WATCHDOG=1");
      ++out;
    }
    return out;
  }
  // Until received(), nothing more can be sent.
  void fill_queue() {
    const auto sender = open_unix_socket(SOCK_DGRAM | SOCK_NONBLOCK);
    ASSERT_TRUE(sender && connect_to(sender->get(), *UnixAddress::of(folder_ / "notify", "the queue")));
    constexpr std::string_view kText = "WATCHDOG=1";
    while (::send(sender->get(), kText.data(), kText.size(), MSG_NOSIGNAL) > 0) {
    }
    ASSERT_EQ(errno, EAGAIN);
  }
  SocketFolder folder_;
  UniqueFd manager_ = bound(SOCK_DGRAM, folder_ / "notify");
  boost::asio::io_context loop_;
  std::uint64_t passes_ = 1;
};

TEST_F(WatchdogTest, IsFedAsLongAsTheSamplerMakesItsPasses) {
  bool runs = true;
  Watchdog watchdog(loop_, [&] { return runs ? ++passes_ : passes_; });
  watchdog.begin();
  std::size_t fed = 0;
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (fed < 3 && std::chrono::steady_clock::now() < deadline) {
    loop_.run_one();
    fed += received();
  }
  EXPECT_GE(fed, 3U);
  runs = false;
  for (int i = 0; i < 4; ++i) loop_.run_one();
  EXPECT_EQ(received(), 0U);
  runs = true;
  loop_.run_one();
  EXPECT_EQ(received(), 1U) << "it stood still for a while only";
}

TEST_F(WatchdogTest, AServiceManagerThatDoesNotReadDoesNotHoldTheLoop) {
  Watchdog watchdog(loop_, [&] { return ++passes_; });
  watchdog.begin();
  ASSERT_NO_FATAL_FAILURE(fill_queue());
  auto ran = std::async(std::launch::async, [this] { return loop_.run_one() + loop_.run_one(); });
  EXPECT_EQ(ran.wait_for(test::kPatience), std::future_status::ready) << "it waits until somebody reads";
  EXPECT_GT(received(), 0U) << "what filled the queue";
  EXPECT_EQ(ran.get(), 2U);
  static_cast<void>(received());
  loop_.run_one();
  EXPECT_EQ(received(), 1U) << "the next one arrives";
}

TEST_F(WatchdogTest, NotRequested) {
  ::unsetenv("WATCHDOG_USEC");
  Watchdog watchdog(loop_, [&] { return ++passes_; });
  watchdog.begin();
  EXPECT_EQ(loop_.run(), 0U) << "a timer runs for nobody";
  EXPECT_EQ(received(), 0U);
}

}  // namespace
}  // namespace flight::daemon
