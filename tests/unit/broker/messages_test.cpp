// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/messages.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "libcore/base/files.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight {
namespace {

using testing::HasSubstr;

struct Pair {
  UniqueFd a, b;
  Pair() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    a.reset(ends[0]);
    b.reset(ends[1]);
  }
};

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

std::vector<UniqueFd> many_fds(std::size_t count) {
  std::vector<UniqueFd> fds;
  for (std::size_t i = 0; i < count; ++i) fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return fds;
}

std::vector<int> numbers(const std::vector<UniqueFd>& fds) {
  std::vector<int> out;
  for (const UniqueFd& fd : fds) out.push_back(fd.get());
  return out;
}

TEST(BrokerMessage, CarriesHeaderTextAndDescriptors) {
  const Pair pair;
  const auto memfd = sealed_memfd("x", std::as_bytes(std::span("hello", 5)));
  ASSERT_TRUE(memfd);
  ReplyHeader header;
  header.request = 'a';
  header.part = 3;
  header.generation = UINT64_MAX;
  header.error_number = 7;
  const std::array fds{memfd->get()};
  ASSERT_TRUE(send_message(pair.a.get(), header, "a text", fds));
  auto message = receive_message(pair.b.get());
  ASSERT_TRUE(message) << message.error().what;
  EXPECT_EQ(message->header.request, 'a');
  EXPECT_EQ(message->header.part, 3U);
  EXPECT_EQ(message->header.generation, UINT64_MAX);
  EXPECT_EQ(message->header.error_number, 7);
  EXPECT_EQ(message->text, "a text");
  ASSERT_EQ(message->fds.size(), 1U);
  EXPECT_NE(message->fds[0].get(), memfd->get());
  EXPECT_EQ(::fcntl(message->fds[0].get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(read_sealed_memfd(message->fds[0].get(), 100).value(), "hello");
}

TEST(BrokerMessage, CarriesAsManyDescriptorsAsItSays) {
  const Pair pair;
  const auto fds = many_fds(kMaxFdsPerMessage);
  ASSERT_TRUE(send_message(pair.a.get(), {}, {}, numbers(fds)));
  auto message = receive_message(pair.b.get());
  ASSERT_TRUE(message) << message.error().what;
  EXPECT_EQ(message->fds.size(), kMaxFdsPerMessage);
  const auto more = many_fds(kMaxFdsPerMessage + 1);
  EXPECT_FALSE(send_message(pair.a.get(), {}, {}, numbers(more)));
}

TEST(BrokerMessage, LostDescriptorsAreAnErrorThatSaysWhatToDo) {
  const Pair pair;
  const auto fds = many_fds(20);
  ASSERT_TRUE(send_message(pair.a.get(), {}, {}, numbers(fds)));
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  const std::size_t before = open_descriptors();
  rlimit small = old;
  small.rlim_cur = static_cast<rlim_t>(fds.back().get()) + 6;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto message = receive_message(pair.b.get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().errno_value(), EMFILE);
  EXPECT_THAT(message.error().what, HasSubstr("LimitNOFILE="));
  EXPECT_THAT(message.error().what, HasSubstr("of 20 descriptors"));
  EXPECT_EQ(open_descriptors(), before) << "what did arrive must be closed";
}

// Waits until the thread whose /proc/PID/task/TID/stat this is sleeps.
void wait_until_asleep(int stat) {
  std::array<char, 256> text{};
  do {
    ::sched_yield();
    text.back() = '\0';
    ASSERT_GT(::pread(stat, text.data(), text.size() - 1, 0), 0);
  } while (std::string_view(text.data()).find(") S ") == std::string_view::npos);
}

// While it waits for a message, other threads open files.
TEST(BrokerMessage, ThatComesWhenNoDescriptorIsLeftIsReceivedWithASpareOne) {
  const Pair pair;
  SpareDescriptors spare;
  ASSERT_TRUE(spare.take());
  const auto sent = many_fds(3);
  std::atomic<pid_t> tid = 0;
  std::atomic<bool> go = false;
  std::optional<Result<BrokerMessage>> message;
  std::thread receiver([&] {
    tid = ::gettid();
    while (!go) ::sched_yield();
    message = receive_message(pair.b.get());
  });
  while (tid == 0) ::sched_yield();
  const UniqueFd stat(::open(fmt::format("/proc/self/task/{}/stat", tid.load()).c_str(), O_RDONLY | O_CLOEXEC));
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit none = old;
  none.rlim_cur = static_cast<rlim_t>(stat.get()) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  go = true;
  wait_until_asleep(stat.get());
  std::vector<UniqueFd> others;
  do others.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  while (others.back());
  const auto delivered = send_message(pair.a.get(), {}, "a text", numbers(sent));
  receiver.join();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  ASSERT_TRUE(delivered) << delivered.error().what;
  ASSERT_TRUE(*message) << message->error().what;
  EXPECT_EQ((*message)->fds.size(), 3U);
  EXPECT_EQ((*message)->text, "a text");
  EXPECT_FALSE(try_receive_message(pair.b.get()).value().has_value()) << "it is received once";
}

TEST(BrokerMessage, ACountThatDoesNotMatchIsAnError) {
  const Pair pair;
  ReplyHeader header;
  header.fd_count = 1;
  ASSERT_EQ(::send(pair.a.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  const auto message = receive_message(pair.b.get());
  ASSERT_FALSE(message);
  EXPECT_EQ(message.error().errno_value(), EMFILE);
}

TEST(BrokerMessage, RefusesWhatIsNoMessage) {
  const Pair pair;
  ASSERT_EQ(::send(pair.a.get(), "short", 5, 0), 5);
  EXPECT_EQ(receive_message(pair.b.get()).error().errno_value(), EBADMSG);
  const std::string longer(sizeof(ReplyHeader) + kMaxMessageTextBytes + 1, '\1');
  ASSERT_GT(::send(pair.a.get(), longer.data(), longer.size(), 0), 0);
  EXPECT_EQ(receive_message(pair.b.get()).error().errno_value(), EBADMSG);
  ReplyHeader header;
  header.protocol = kBrokerProtocol + 1;
  ASSERT_GT(::send(pair.a.get(), &header, sizeof header, 0), 0);
  const auto message = receive_message(pair.b.get());
  EXPECT_EQ(message.error().errno_value(), EBADMSG);
  EXPECT_THAT(message.error().what, HasSubstr(fmt::format("protocol {}", kBrokerProtocol + 1)));
}

TEST(BrokerMessage, ALongTextIsCut) {
  const Pair pair;
  ASSERT_TRUE(send_message(pair.a.get(), {}, std::string(2 * kMaxMessageTextBytes, 'x'), {}));
  EXPECT_EQ(receive_message(pair.b.get()).value().text.size(), kMaxMessageTextBytes);
}

TEST(BrokerMessage, APeerThatLeftIsAnErrorAndNoSignal) {
  Pair pair;
  pair.b.reset();
  EXPECT_EQ(receive_message(pair.a.get()).error().errno_value(), ECONNRESET);
  EXPECT_EQ(send_message(pair.a.get(), {}, {}, {}).error().errno_value(), EPIPE);
  EXPECT_EQ(send_request(pair.a.get(), Request::attach).error().errno_value(), EPIPE);
  EXPECT_EQ(receive_request(pair.a.get()).error().errno_value(), ECONNRESET);
}

TEST(BrokerMessage, TimeoutsEndAWait) {
  const Pair pair;
  const timeval soon{.tv_sec = 0, .tv_usec = 20'000};
  ::setsockopt(pair.a.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
  ::setsockopt(pair.a.get(), SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
  EXPECT_EQ(receive_message(pair.a.get()).error().errno_value(), ETIMEDOUT);
  EXPECT_FALSE(try_receive_message(pair.a.get()).value().has_value());
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = send_message(pair.a.get(), {}, std::string(4000, 'x'), {});
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().errno_value(), ETIMEDOUT);
}

TEST(BrokerMessage, AWaitForAPeerEndsAtOnceWhenAskedTo) {
  const Pair pair;
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  const std::string text(4000, 'x');
  SendWait wait{.stop_fd = stop.get(), .within = {}};
  Result<void> sent;
  for (int i = 0; i < 100'000 && sent; ++i) sent = send_message(pair.a.get(), {}, text, {}, wait);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().errno_value(), ETIMEDOUT);
  constexpr std::uint64_t kOne = 1;
  ASSERT_EQ(::write(stop.get(), &kOne, sizeof kOne), static_cast<ssize_t>(sizeof kOne));
  wait.within = std::chrono::hours(1);
  sent = send_message(pair.a.get(), {}, text, {}, wait);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().errno_value(), ECANCELED);
  ASSERT_TRUE(receive_message(pair.b.get()));
  EXPECT_TRUE(send_message(pair.a.get(), {}, text, {}, wait)) << "nothing has to be waited for";
}

TEST(BrokerMessage, ARequestIsOneByteAndCarriesNothing) {
  const Pair pair;
  EXPECT_EQ(receive_request(pair.b.get()).error().errno_value(), EAGAIN);
  ASSERT_TRUE(send_request(pair.a.get(), Request::file));
  EXPECT_EQ(receive_request(pair.b.get()).value(), 'f');
  ASSERT_GT(::send(pair.a.get(), "ff", 2, 0), 0);
  EXPECT_EQ(receive_request(pair.b.get()).error().errno_value(), EBADMSG);
  // Received descriptors that nobody wants are closed.
  const std::size_t before = open_descriptors();
  const auto fds = many_fds(3);
  ASSERT_TRUE(send_message(pair.a.get(), {}, {}, numbers(fds)));
  EXPECT_EQ(receive_request(pair.b.get()).error().errno_value(), EBADMSG);
  EXPECT_EQ(open_descriptors(), before + 3);
}

}  // namespace
}  // namespace flight
