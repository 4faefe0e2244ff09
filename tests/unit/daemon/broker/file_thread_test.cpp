// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/file_thread.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>

#include "libcore/broker/messages.hpp"
#include "tests/unit/sysinfo/temp_tree.hpp"

namespace flight::broker {
namespace {

// Both ends of a client's connection. It is full, and nobody reads from it, so a send blocks.
struct FullSocket {
  UniqueFd client, broker;

  FullSocket() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    client = UniqueFd(ends[0]);
    broker = UniqueFd(ends[1]);
    while (::send(broker.get(), "x", 1, MSG_DONTWAIT) == 1) {
    }
    EXPECT_EQ(errno, EAGAIN);
  }
};

std::ptrdiff_t files_below(const std::string& dir) {
  return std::distance(std::filesystem::directory_iterator(dir), std::filesystem::directory_iterator());
}

bool within_20_s(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A client may request the next file as soon as it has read a reply, and its thread may not have run again by then.
TEST(FileThread, IsFreeBeforeItsAnswerIsRead) {
  const TempTree dir;
  const std::string snapshots = dir.root() + "/snapshots";
  std::filesystem::create_directory(snapshots);
  auto threads = BlockingThreads::start("file", kMaxFileThreads);
  ASSERT_TRUE(threads) << threads.error().what;
  {
    std::array<FullSocket, kMaxFileThreads> sockets;
    const auto request = [&](const FullSocket& socket) {
      return answer_with_file(*threads, socket.broker.get(), ReplyHeader{}, dir.root(), {});
    };
    for (const FullSocket& socket : sockets) ASSERT_TRUE(request(socket));
    EXPECT_TRUE(within_20_s([&] { return files_below(snapshots) == kMaxFileThreads; }));
    std::string refusal;
    EXPECT_TRUE(within_20_s([&] {
      const auto next = request(sockets[0]);
      if (!next) refusal = next.error().what;
      return next.has_value();
    })) << refusal;
  }
  EXPECT_TRUE(within_20_s([&] { return !threads->busy(); })) << "the clients have left";
  EXPECT_EQ(files_below(snapshots), 0) << "a file that nobody received does not stay";
}

// A disk that hangs holds all of them.
TEST(FileThread, WhereAllOfThemHangTheNextRequestIsRefused) {
  const TempTree dir;
  auto threads = BlockingThreads::start("file", kMaxFileThreads);
  ASSERT_TRUE(threads) << threads.error().what;
  std::promise<void> answered;
  std::atomic<int> waiting{0};
  const auto hang = [&waiting, answer = answered.get_future().share()] {
    ++waiting;
    answer.wait();
  };
  for (int i = 0; i < kMaxFileThreads; ++i) ASSERT_TRUE(threads->post(hang));
  ASSERT_TRUE(within_20_s([&] { return waiting == kMaxFileThreads; }));
  const FullSocket socket;
  const auto request = [&] { return answer_with_file(*threads, socket.broker.get(), ReplyHeader{}, dir.root(), {}); };
  for (int i = 0; i < kMaxFileThreads; ++i) ASSERT_TRUE(request());
  const auto refused = request();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EBUSY);
  EXPECT_THAT(refused.error().what, testing::HasSubstr("has not created 4 files that were requested before: it hangs"));
  answered.set_value();
  EXPECT_TRUE(within_20_s([&] { return request().has_value(); }));
}

}  // namespace
}  // namespace flight::broker
