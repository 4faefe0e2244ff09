// SPDX-License-Identifier: Apache-2.0
// The client with a daemon that is absent, that disconnects, or that sends wrong replies.
#include "libcore/control/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "flightd-client-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path = folder_ + "/socket";
  }
  ~ClientTest() override {
    if (server_.joinable()) server_.join();
    std::filesystem::remove_all(folder_);
  }
  // Accepts one client and does `talk` with it.
  void serve(std::function<void(int fd)> talk) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string new_path = path + ".new";  // so no client finds a socket that does not listen yet
    std::memcpy(address.sun_path, new_path.data(), new_path.size());
    listening_ = UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listening_.get(), 1), 0);
    std::filesystem::rename(new_path, path);
    server_ = std::thread([this, talk = std::move(talk)] {
      const UniqueFd fd(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      talk(fd.get());
    });
  }
  void stop_listening() {
    join();
    listening_.reset();
  }
  void join() { server_.join(); }
  static void say(int fd, const std::string& text) { static_cast<void>(write_all(fd, std::string_view(text))); }
  static void hear_call(int fd) {
    char c = 'x';
    while (c != '\0' && ::read(fd, &c, 1) == 1) {
    }
  }
  static Result<ControlClient> connect(const std::string& socket) {
    Patience patience{std::chrono::steady_clock::time_point::max(), {}};
    return ControlClient::connect(socket, patience);
  }
  // Ends at once, as the time of a patience that is over.
  Patience over_after(std::function<Result<void>()> over) {
    return {std::chrono::steady_clock::now(), [this, over = std::move(over)] {
              ++asked;
              return over();
            }};
  }
  Result<Reply> call() {
    auto client = connect(path);
    if (!client) return propagate(client.error());
    return client->call({"a.b.C", "{}", true, false, false}, [&](const Reply&) { ++progress; });
  }

  std::string folder_, path;
  int progress = 0, asked = 0;

 private:
  UniqueFd listening_;
  std::thread server_;
};

TEST_F(ClientTest, NoListener) {
  auto none = connect(path);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().errno_value(), ENOENT);
  EXPECT_THAT(none.error().what, testing::AllOf(HasSubstr(path), HasSubstr("systemctl start flightd")));
  auto too_long = connect(std::string(200, 'x'));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().errno_value(), ENAMETOOLONG);
  EXPECT_FALSE(connect(""));
}

TEST_F(ClientTest, OneThatDiedLeftItsSocket) {
  serve([](int fd) { hear_call(fd); });
  const auto unanswered = call();  // it disconnects without a reply
  ASSERT_FALSE(unanswered);
  EXPECT_EQ(unanswered.error().errno_value(), ECONNRESET);
  stop_listening();
  const auto refused = connect(path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), ECONNREFUSED);
  EXPECT_THAT(refused.error().what, HasSubstr("systemctl start flightd"));
}

TEST_F(ClientTest, OneThatIsJustBeingReplacedIsWaitedFor) {
  serve([](int fd) { hear_call(fd); });
  static_cast<void>(call());
  stop_listening();
  std::thread next([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    serve([](int fd) {
      hear_call(fd);
      say(fd, std::string(R"({"parameters":{"x":2}})") + '\0');
    });
  });
  const auto reply = call();
  next.join();
  ASSERT_TRUE(reply) << reply.error().what;
  EXPECT_EQ(reply->parameters, R"({"x":2})");
}

TEST_F(ClientTest, RepliesInPiecesAndProgressInBetween) {
  serve([](int fd) {
    hear_call(fd);
    const std::string text =
        std::string(R"({"parameters":{"progress":{}},"continues":true})") + '\0' + R"({"parameters":{"x":1}})" + '\0';
    for (const char c : text) say(fd, std::string(1, c));
  });
  const auto reply = call();
  ASSERT_TRUE(reply) << reply.error().what;
  EXPECT_EQ(reply->parameters, R"({"x":1})");
  EXPECT_EQ(progress, 1);
}

TEST_F(ClientTest, StrangeRepliesAreErrors) {
  serve([](int fd) {
    hear_call(fd);
    say(fd, std::string("GET / HTTP/1.1\r\n") + '\0');
  });
  const auto reply = call();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().errno_value(), EBADMSG);
  EXPECT_THAT(reply.error().what, HasSubstr("a.b.C"));
}

TEST_F(ClientTest, HalfAReplyIsAnError) {
  serve([](int fd) {
    hear_call(fd);
    say(fd, R"({"parameters":{)");
  });
  const auto reply = call();
  ASSERT_FALSE(reply);
  EXPECT_THAT(reply.error().what, HasSubstr("closed the connection"));
}

TEST_F(ClientTest, AnEndlessReplyIsCutOff) {
  serve([](int fd) {
    hear_call(fd);
    const std::string block(1U << 20U, 'x');
    while (::send(fd, block.data(), block.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  const auto reply = call();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().errno_value(), EMSGSIZE);
}

// A reply that the daemon sent before it closed is read, even if the call could not be sent.
TEST_F(ClientTest, ARefusalAtConnectIsReported) {
  serve([](int fd) {
    say(fd, std::string(R"({"error":"a.b.Full","parameters":{"message":"too many"}})") + '\0');
    ::shutdown(fd, SHUT_RDWR);
  });
  auto client = connect(path);
  ASSERT_TRUE(client);
  ::usleep(50'000);
  const auto reply = client->call({"a.b.C", "{}", false, false, false});
  ASSERT_TRUE(reply) << reply.error().what;
  EXPECT_EQ(reply->error, "a.b.Full");
  EXPECT_EQ(error_message(*reply), "too many");
}

// It gives up before the call is sent: a flightd that goes on later does nothing that was reported as failed.
TEST_F(ClientTest, WithoutASignOfLifeNothingIsAskedFor) {
  std::string received;
  serve([&received](int fd) {
    char c = 'x';
    while (::read(fd, &c, 1) == 1) received += c;
  });
  {
    auto client = connect(path);
    ASSERT_TRUE(client) << client.error().what;
    Patience patience = over_after([] { return fail(std::errc::timed_out, "too long"); });
    const auto alive = client->greet(patience);
    ASSERT_FALSE(alive);
    EXPECT_EQ(alive.error().errno_value(), ETIMEDOUT);
    EXPECT_EQ(alive.error().what, "too long");
  }
  join();
  EXPECT_THAT(received, HasSubstr("org.varlink.service.GetInfo"));
  EXPECT_EQ(std::count(received.begin(), received.end(), '\0'), 1);
  EXPECT_EQ(asked, 1);
}

// At a terminal the wait goes on, and is asked about once.
TEST_F(ClientTest, PatienceMayGoOn) {
  std::promise<void> said;
  serve([ready = said.get_future().share()](int fd) {
    hear_call(fd);
    ready.wait();
    say(fd, std::string(R"({"parameters":{"vendor":"x"}})") + '\0');
    hear_call(fd);
    say(fd, std::string(R"({"parameters":{"x":3}})") + '\0');
  });
  auto client = connect(path);
  ASSERT_TRUE(client) << client.error().what;
  Patience patience = over_after([&said]() -> Result<void> {
    said.set_value();
    return {};
  });
  const auto alive = client->greet(patience);
  ASSERT_TRUE(alive) << alive.error().what;
  const auto reply = client->call({"a.b.C", "{}", false, false, false});
  ASSERT_TRUE(reply) << reply.error().what;
  EXPECT_EQ(reply->parameters, R"({"x":3})");
  EXPECT_EQ(asked, 1);
}

// Behind ssh a banner, and then another shell: that is no answer, and nobody waits for one.
TEST_F(ClientTest, NoiseIsNoAnswer) {
  for (const std::string& noise : {std::string("x"), std::string("\r\nWelcome to \x1b[31mweb3\nLast login: today\n"),
                                   std::string("{x}"), std::string(5000, 'y') + "\nz"}) {
    SCOPED_TRACE(noise);
    std::promise<void> done;
    serve([&noise, ended = done.get_future().share()](int fd) {
      hear_call(fd);
      say(fd, noise);
      ended.wait();
    });
    auto client = connect(path);
    ASSERT_TRUE(client) << client.error().what;
    Patience endless{std::chrono::steady_clock::time_point::max(), {}};
    const auto alive = client->greet(endless);
    done.set_value();
    join();
    ASSERT_FALSE(alive);
    EXPECT_EQ(alive.error().errno_value(), EBADMSG);
    const std::string shown = noise == "x"       ? "'x'"
                              : noise[0] == '\r' ? "'Welcome to ?[31mweb3'"
                              : noise[0] == '{'  ? "'{x}'"
                                                 : "'" + std::string(200, 'y') + "…'";
    EXPECT_THAT(alive.error().what,
                AllOf(StartsWith(shown + " "), HasSubstr("instead of an answer"), Not(HasSubstr("today"))));
  }
}

// What may be the begin of an answer does not end the wait either.
TEST_F(ClientTest, HalfAnAnswerIsNoAnswer) {
  std::promise<void> done;
  serve([ended = done.get_future().share()](int fd) {
    hear_call(fd);
    say(fd, " {\"par");
    ended.wait();
  });
  auto client = connect(path);
  ASSERT_TRUE(client) << client.error().what;
  Patience patience{std::chrono::steady_clock::now() + std::chrono::seconds(2),
                    [] { return fail(std::errc::timed_out, "too long"); }};
  const auto alive = client->greet(patience);
  done.set_value();
  ASSERT_FALSE(alive);
  EXPECT_EQ(alive.error().errno_value(), ETIMEDOUT);
  EXPECT_THAT(alive.error().what, AllOf(StartsWith("too long; '{\"par' "), HasSubstr("instead of an answer")));
}

// Noise in front of the answer, without end, and before the end of the connection.
TEST_F(ClientTest, MoreNoise) {
  const auto greeting = [this](std::function<void(int fd)> talk) {
    serve([talk = std::move(talk)](int fd) {
      hear_call(fd);
      talk(fd);
    });
    auto client = connect(path);
    EXPECT_TRUE(client) << client.error().what;
    Patience endless{std::chrono::steady_clock::time_point::max(), {}};
    auto alive = client->greet(endless);
    client = fail(std::errc::io_error, "closed");
    join();
    EXPECT_FALSE(alive);
    return alive.error();
  };
  Error error = greeting([](int fd) { say(fd, std::string("Welcome\n{\"parameters\":{}}") + '\0'); });
  EXPECT_EQ(error.errno_value(), EBADMSG);
  EXPECT_THAT(error.what,
              AllOf(StartsWith("'Welcome' "), HasSubstr("instead of an answer"), Not(HasSubstr("parameters"))));
  error = greeting([](int fd) {
    const std::string block(1U << 20U, 'y');
    while (::send(fd, block.data(), block.size(), MSG_NOSIGNAL) > 0) {
    }
  });
  EXPECT_EQ(error.errno_value(), EBADMSG);
  EXPECT_THAT(error.what, HasSubstr("'yyy"));
  error = greeting([](int fd) { say(fd, "Welcome\n"); });
  EXPECT_EQ(error.errno_value(), ECONNRESET);
  EXPECT_THAT(error.what, testing::AllOf(HasSubstr("closed the connection"), HasSubstr("'Welcome' came")));
}

// connect(2) itself blocks if the listener accepts nothing and its queue is full.
TEST_F(ClientTest, AFullQueueIsNoEndlessWait) {
  const auto listening = listen_on(path, {.type = SOCK_STREAM, .backlog = 0, .mode = 0600, .listener = "test"});
  ASSERT_TRUE(listening) << listening.error().what;
  std::vector<UniqueFd> waiting;
  const auto address = UnixAddress::of(path, "the socket");
  for (bool full = false; !full;) {
    auto next = open_unix_socket(SOCK_STREAM | SOCK_NONBLOCK);
    ASSERT_TRUE(next);
    full = !connect_to(next->get(), *address);
    waiting.push_back(std::move(*next));
    ASSERT_LT(waiting.size(), 100U);
  }
  Patience patience = over_after([] { return fail(std::errc::timed_out, "too long"); });
  const auto client = ControlClient::connect(path, patience);
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().what, "too long");
}

}  // namespace
}  // namespace flight
