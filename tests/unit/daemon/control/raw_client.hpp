// SPDX-License-Identifier: Apache-2.0
// A client that sends exactly the given bytes, and the fixture of the control server's tests.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <optional>

#include "libcore/control/messages.hpp"
#include "tests/unit/daemon/control/control_bench.hpp"

namespace flight::test {

using namespace daemon;

using namespace std::chrono_literals;

inline sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

class RawClient {
 public:
  explicit RawClient(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = address_of(path);
    connected_ = ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  [[nodiscard]] bool connected() const { return connected_; }

  // False if the server has closed.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t count = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (count < 0) return false;
      text.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }
  // The next reply; nullopt if the server closed, or sent nothing in time.
  std::optional<Reply> receive(std::chrono::milliseconds patience = 5s) {
    for (;;) {
      if (const auto end = received_.find('\0'); end != std::string::npos) {
        auto reply = parse_reply(received_.substr(0, end));
        received_.erase(0, end + 1);
        if (!reply) return std::nullopt;
        return *reply;
      }
      pollfd ready{fd_.get(), POLLIN, 0};
      std::array<char, 65536> chunk;
      if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
      const ssize_t count = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (count <= 0) {
        closed_ = true;
        return std::nullopt;
      }
      received_.append(chunk.data(), static_cast<std::size_t>(count));
    }
  }
  // The bytes after the received replies, up to the end or at most `most` bytes.
  std::string receive_raw(std::size_t most = SIZE_MAX, std::chrono::milliseconds patience = 5s) {
    std::array<char, 65536> chunk;
    while (received_.size() < most && !closed_) {
      pollfd ready{fd_.get(), POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) break;
      const ssize_t count = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
      if (count <= 0)
        closed_ = true;
      else
        received_.append(chunk.data(), static_cast<std::size_t>(count));
    }
    std::string out = received_.substr(0, most);
    received_.erase(0, out.size());
    return out;
  }
  [[nodiscard]] bool closed() const { return closed_; }
  // Whether the connection ends without further data.
  bool sees_the_end(std::chrono::milliseconds patience = 5s) { return !receive(patience) && closed_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
  bool connected_ = false, closed_ = false;
  std::string received_;
};

inline std::string framed(std::string_view text) { return std::string(text) + '\0'; }

inline std::string call_text(std::string_view method, std::string_view parameters = "{}", std::string_view flags = "") {
  return framed(fmt::format(R"({{"method":"{}","parameters":{}{}}})", method, parameters, flags));
}

inline const std::string kGetInfo = call_text("org.varlink.service.GetInfo");
inline const std::string kGetStatus = call_text("io.flightd.Recorder.GetStatus");

class ControlServerTest : public testing::Test {
 protected:
  void run(ControlLimits limits = {}, ControlAccess access = {},
           const WaitingClock& clock = WaitingClock::monotonic()) {
    auto started = bench.run(limits, access, clock);
    ASSERT_TRUE(started) << started.error().what;
  }
  // Checks that a correct client is served.
  void expect_alive() {
    RawClient client(bench.socket());
    ASSERT_TRUE(client.connected());
    ASSERT_TRUE(client.send(kGetStatus));
    const auto reply = client.receive();
    ASSERT_TRUE(reply) << "the server does not answer any more";
    EXPECT_EQ(reply->error, "");
    EXPECT_NE(member(reply->parameters, "status"), "");
  }
  // One message in, one reply out.
  Reply ask(std::string_view text) {
    RawClient client(bench.socket());
    client.send(text);
    return client.receive().value_or(Reply{"{}", "no reply", false});
  }
  static void wait_for(const std::atomic<int>& count, int expected) {
    for (int attempt = 0; attempt < 3000 && count < expected; ++attempt) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(count, expected);
  }
  void expect_connections(std::size_t expected) {
    // If none is expected, check for a while: a connection that was closed may still wait to be accepted.
    const int enough = expected == 0 ? 20 : 1;
    int as_expected = 0;
    for (int attempt = 0; attempt < 500 && as_expected < enough; ++attempt) {
      as_expected = bench.connections() == expected ? as_expected + 1 : 0;
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_EQ(as_expected, enough) << bench.connections() << " connections where " << expected << " were expected";
  }

  ControlBench bench;
};

}  // namespace flight::test
