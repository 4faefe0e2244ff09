// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/passed_fds.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <utility>
#include <vector>

#include "libcore/base/unix_socket.hpp"

namespace flight {
namespace {

std::pair<dev_t, ino_t> file_of(int fd) {
  struct stat status {};
  EXPECT_EQ(::fstat(fd, &status), 0);
  return {status.st_dev, status.st_ino};
}

TEST(PassedFds, TheReceiverHasItsOwn) {
  auto pair = socket_pair(SOCK_SEQPACKET);
  ASSERT_TRUE(pair) << pair.error().what;
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC)), zero(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const std::array<int, 2> sent{null.get(), zero.get()};
  const auto null_file = file_of(null.get()), zero_file = file_of(zero.get());
  char byte = 'x';
  iovec part{.iov_base = &byte, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  FdSpace<2> space;
  attach_fds(message, space.bytes, sent);
  ASSERT_EQ(::sendmsg(pair->own.get(), &message, MSG_NOSIGNAL), 1);
  null.reset();
  zero.reset();

  FdSpace<3> more;
  message.msg_control = more.bytes.data();
  message.msg_controllen = more.bytes.size();
  ASSERT_EQ(::recvmsg(pair->other.get(), &message, MSG_CMSG_CLOEXEC), 1);
  std::vector<UniqueFd> received;
  take_fds(message, received);
  ASSERT_EQ(received.size(), 2U);
  EXPECT_EQ(file_of(received[0].get()), null_file);
  EXPECT_EQ(file_of(received[1].get()), zero_file);
}

TEST(PassedFds, AMessageWithoutThemHasNone) {
  auto pair = socket_pair(SOCK_STREAM);
  ASSERT_TRUE(pair) << pair.error().what;
  EXPECT_EQ(::fcntl(pair->own.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ASSERT_EQ(::send(pair->own.get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  FdSpace<1> space;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes.data();
  message.msg_controllen = space.bytes.size();
  ASSERT_EQ(::recvmsg(pair->other.get(), &message, MSG_CMSG_CLOEXEC), 1);
  std::vector<UniqueFd> received;
  take_fds(message, received);
  EXPECT_TRUE(received.empty());
}

TEST(PassedFds, WhereOneIsExpectedTwoAreNone) {
  auto pair = socket_pair(SOCK_SEQPACKET);
  ASSERT_TRUE(pair) << pair.error().what;
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (const std::size_t count : {0U, 1U, 2U}) {
    SCOPED_TRACE(count);
    const std::vector<int> sent(count, null.get());
    char byte = 'x';
    iovec part{.iov_base = &byte, .iov_len = 1};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    FdSpace<2> space;
    if (!sent.empty()) attach_fds(message, space.bytes, sent);
    ASSERT_EQ(::sendmsg(pair->own.get(), &message, MSG_NOSIGNAL), 1);
    message.msg_control = space.bytes.data();
    message.msg_controllen = space.bytes.size();
    ASSERT_EQ(::recvmsg(pair->other.get(), &message, MSG_CMSG_CLOEXEC), 1);
    const UniqueFd taken = take_one_fd(message);
    EXPECT_EQ(static_cast<bool>(taken), count == 1);
    if (taken) {
      EXPECT_EQ(file_of(taken.get()), file_of(null.get()));
    }
  }
}

}  // namespace
}  // namespace flight
