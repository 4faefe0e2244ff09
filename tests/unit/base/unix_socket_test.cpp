// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/unix_socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/base/failing_listings.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class UnixSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/flight-socket-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/socket";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] mode_t mode() const {
    struct stat status {};
    return ::stat(path_.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
  }
  [[nodiscard]] Result<void> connect() const {
    const auto address = UnixAddress::of(path_, "the socket");
    client_ = open_unix_socket(kPrivate.type).value();
    return connect_to(client_.get(), *address);
  }

  static constexpr UnixListen kPrivate{.type = SOCK_SEQPACKET, .backlog = 4, .mode = 0600, .listener = "tester"};
  static constexpr UnixListen kPublic{.type = SOCK_STREAM, .backlog = 4, .mode = 0666, .listener = "tester"};
  std::string folder_, path_;
  mutable UniqueFd client_;
};

TEST_F(UnixSocketTest, ListensWithItsModeWhateverTheUmask) {
  const mode_t old_mask = ::umask(0022);
  {
    const auto listening = listen_on(path_, kPrivate);
    ASSERT_TRUE(listening) << listening.error().what;
    EXPECT_EQ(mode(), 0600U);
    EXPECT_EQ(::umask(0022), 0022U) << "the umask is as it was";
  }
  const auto listening = listen_on(path_, kPublic);
  ASSERT_TRUE(listening) << listening.error().what;
  EXPECT_EQ(mode(), 0666U);
  ::umask(old_mask);
}

TEST_F(UnixSocketTest, TheCredentialsAreThoseOfTheListener) {
  const auto listening = listen_on(path_, kPrivate);
  ASSERT_TRUE(listening);
  ASSERT_TRUE(connect());
  const auto peer = peer_credentials(client_.get());
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->uid, ::getuid());
  EXPECT_FALSE(peer_credentials(-1));
}

TEST_F(UnixSocketTest, AListenerIsNotReplacedAndADeadOneIs) {
  {
    const auto listening = listen_on(path_, kPrivate);
    ASSERT_TRUE(listening);
    const auto second = listen_on(path_, kPrivate);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().errno_value(), EADDRINUSE);
    EXPECT_THAT(second.error().what, HasSubstr(path_));
    EXPECT_TRUE(connect()) << "the first one still listens";
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(listen_on(path_, kPrivate));
}

TEST_F(UnixSocketTest, AReadOnlyDirectoryIsNamedWithTheOption) {
  const auto refused = test::with_failing_calls(
      SYS_bind, [this] { return listen_on(path_, kPublic); }, EROFS);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EROFS);
  EXPECT_THAT(refused.error().what,
              AllOf(HasSubstr(path_), HasSubstr("read-only"), HasSubstr("another --runtime-dir")));
}

TEST_F(UnixSocketTest, AFullQueueIsAListener) {
  UnixListen one = kPrivate;
  one.backlog = 0;
  const auto listening = listen_on(path_, one);
  ASSERT_TRUE(listening);
  ASSERT_TRUE(connect());
  const UniqueFd first = std::move(client_);
  EXPECT_EQ(listen_on(path_, one).error().errno_value(), EADDRINUSE);
}

TEST_F(UnixSocketTest, AFileIsLeftAlone) {
  std::ofstream(path_) << "text";
  EXPECT_EQ(listen_on(path_, kPrivate).error().errno_value(), EEXIST);
  EXPECT_EQ(std::filesystem::file_size(path_), 4U);
}

TEST_F(UnixSocketTest, APathHasABound) {
  EXPECT_EQ(UnixAddress::of("", "it").error().errno_value(), ENAMETOOLONG);
  EXPECT_TRUE(UnixAddress::of(std::string(107, 'x'), "it"));
  EXPECT_EQ(UnixAddress::of(std::string(108, 'x'), "it").error().errno_value(), ENAMETOOLONG);
  const auto abstract = UnixAddress::of("@name", "it");
  ASSERT_TRUE(abstract);
  EXPECT_EQ(abstract->raw()->sa_data[0], '\0');
}

}  // namespace
}  // namespace flight
