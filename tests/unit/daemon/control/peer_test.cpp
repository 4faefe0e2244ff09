// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/peer.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <string>

#include "libcore/base/unique_fd.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::daemon {
namespace {

// A client in a process of its own. It connects, and ends when it can read something.
class PeerTest : public testing::Test {
 protected:
  PeerTest() {
    const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socklen_t size = sizeof(sa_family_t);  // an abstract name of the kernel's choice
    EXPECT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener.get(), 1), 0);
    size = sizeof address;
    EXPECT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int client = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      char byte = 0;
      if (::connect(client, reinterpret_cast<const sockaddr*>(&address), size) != 0) ::_exit(1);
      ::_exit(::read(client, &byte, 1) == 1 ? 0 : 2);
    }
    served_.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    tree_.write("/proc/" + std::to_string(pid_) + "/comm", "owner-of-the-pid\n");
  }
  ~PeerTest() override {
    if (pid_ > 0) end();
  }
  void end() {
    EXPECT_EQ(::write(served_.get(), "x", 1), 1);
    int status = -1;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
    pid_ = -1;
  }
  // SO_PEERPIDFD
  [[nodiscard]] bool kernel_says_who_it_is() const {
    int number = -1;
    socklen_t size = sizeof number;
    const bool is_known = ::getsockopt(served_.get(), SOL_SOCKET, 77, &number, &size) == 0 || errno != ENOPROTOOPT;
    const UniqueFd pidfd(number);
    return is_known;
  }

  TempTree tree_;
  UniqueFd served_;
  pid_t pid_ = -1;
};

TEST_F(PeerTest, AClientIsNamedWhileItIsThere) {
  EXPECT_EQ(peer_comm(served_.get(), pid_, tree_.root()).value_or("ended"), "owner-of-the-pid");
  EXPECT_EQ(peer_comm(served_.get(), pid_, tree_.root() + "/hidden").value_or("ended"), "");
  const auto caller = peer_of(served_.get());
  ASSERT_TRUE(caller) << caller.error().what;
  EXPECT_EQ(caller->pid, pid_);
  std::string own;
  std::getline(std::ifstream("/proc/self/comm"), own);
  EXPECT_EQ(caller->comm, own);
  EXPECT_FALSE(caller->has_ended);
}

// Its pid can be another process's by now, as in this /proc.
TEST_F(PeerTest, AClientThatHasEndedIsNotNamedAfterAnotherProcess) {
  const pid_t pid = pid_;
  end();
  const bool is_known = kernel_says_who_it_is();
  EXPECT_EQ(peer_comm(served_.get(), pid, tree_.root()).value_or("ended"), is_known ? "ended" : "owner-of-the-pid");
  const auto caller = peer_of(served_.get());
  ASSERT_TRUE(caller) << caller.error().what;
  EXPECT_EQ(caller->has_ended, is_known);
}

}  // namespace
}  // namespace flight::daemon
