// SPDX-License-Identifier: Apache-2.0
// The part of systemd's side of sd_notify(3) that the broker needs: receives the notifications of a service, keeps the
// descriptors that it stores (FDSTORE=1), and passes them to the next one. tests/systemd tests systemd itself.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "libcore/base/passed_fds.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::test {

class ServiceManager {
 public:
  struct Kept {
    std::string name;
    UniqueFd fd;
  };

  explicit ServiceManager(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);  // for all child processes
  }
  ServiceManager(const ServiceManager&) = delete;
  ServiceManager& operator=(const ServiceManager&) = delete;
  ~ServiceManager() {
    ::unsetenv("NOTIFY_SOCKET");
    ::unsetenv("FDSTORE");
  }
  // FileDescriptorStoreMax=: more are dropped. Before version 254, systemd does not say the number.
  void keep_at_most(std::size_t number, bool says_it = true) {
    most_ = number;
    if (says_it)
      ::setenv("FDSTORE", std::to_string(number).c_str(), 1);
    else
      ::unsetenv("FDSTORE");
  }

  // False if the text was not sent within a minute since the last call.
  [[nodiscard]] bool wait_for(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    for (;;) {
      if (const std::size_t at = received_.find(text); at != std::string::npos) {
        received_.erase(0, at + text.size());
        return true;
      }
      if (std::chrono::steady_clock::now() > until) return false;
      listen(100);
    }
  }
  // Receives all pending notifications.
  void receive_all() {
    while (listen(0)) {
    }
  }
  // Whether the text was sent since the last successful wait_for().
  [[nodiscard]] bool was_sent(std::string_view text) {
    receive_all();
    return received_.find(text) != std::string::npos;
  }
  // Until receive_all() or wait_for(), the service cannot send more.
  static void block() {
    const char* found = ::getenv("NOTIFY_SOCKET");
    ASSERT_NE(found, nullptr);
    const std::string path = found;
    const UniqueFd sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    while (::sendto(sender.get(), "X=1", 3, 0, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 3) {
    }
    EXPECT_EQ(errno, EAGAIN);
  }
  [[nodiscard]] std::vector<Kept>& kept() { return kept_; }
  // In a forked child, before execve(2): sd_listen_fds(3) then finds all stored descriptors. `sockets` come first.
  void hand_over(const std::vector<int>& sockets = {}) const {
    constexpr int kFirst = 3;
    constexpr int kAside = 10'000;
    std::vector<int> fds = sockets;
    std::string names;
    for (std::size_t i = 0; i < sockets.size(); ++i) names += names.empty() ? "socket" : ":socket";
    for (const Kept& one : kept_) {
      fds.push_back(one.fd.get());
      names += (names.empty() ? "" : ":") + one.name;
    }
    for (int& fd : fds) fd = ::fcntl(fd, F_DUPFD, kAside);
    for (std::size_t i = 0; i < fds.size(); ++i) {
      ::dup2(fds[i], kFirst + static_cast<int>(i));
      ::close(fds[i]);
    }
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(fds.size()).c_str(), 1);
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
  }

 private:
  // False if nothing was sent within `timeout_ms`.
  bool listen(int timeout_ms) {
    pollfd watched{socket_.get(), POLLIN, 0};
    if (::poll(&watched, 1, timeout_ms) <= 0) return false;
    std::array<char, 4096> text{};
    FdSpace<253> space;  // SCM_MAX_FD
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = space.bytes.data();
    message.msg_controllen = space.bytes.size();
    const ssize_t bytes = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
    if (bytes <= 0) return false;
    const std::string words(text.data(), static_cast<std::size_t>(bytes));
    received_ += words + "\n";
    const std::string name = value_of(words, "FDNAME=");
    std::vector<UniqueFd> fds;
    take_fds(message, fds);
    if (value_of(words, "FDSTORE=") == "1") {
      EXPECT_EQ(value_of(words, "FDPOLL="), "0") << "PID 1 would take the wakeups of the sideband";
      for (UniqueFd& fd : fds)
        if (kept_.size() < most_) kept_.push_back({name, std::move(fd)});
    }
    if (value_of(words, "FDSTOREREMOVE=") == "1")
      std::erase_if(kept_, [&](const Kept& one) { return one.name == name; });
    return true;
  }
  static std::string value_of(const std::string& words, const std::string& key) {
    const std::size_t at = words.find(key);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + key.size();
    return words.substr(begin, words.find('\n', begin) - begin);
  }

  UniqueFd socket_;
  std::string received_;
  std::vector<Kept> kept_;
  std::size_t most_ = std::numeric_limits<std::size_t>::max();
};

}  // namespace flight::test
