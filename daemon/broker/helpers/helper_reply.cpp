// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers/helper_reply.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>

#include "daemon/broker/helpers/helpers.hpp"

namespace flight::broker {
namespace {

// How often a helper's pace is looked at.
constexpr std::chrono::milliseconds kPaceStep{100};
// A helper that makes another one is killed if it needs longer: there may be no memory for the moment.
constexpr std::chrono::milliseconds kClonesWithin{10'000};

}  // namespace

HelperReply::HelperReply(int socket, pid_t pid)
    : socket_(socket), pid_(pid), pace_(pid), kill_after_(Helpers::kKillAfter), kill_at_last_(Helpers::kKillAtLast) {}

bool HelperReply::receive(void* out, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(out);
  while (bytes > 0) {
    pollfd readable{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&readable, 1, may_kill_ ? static_cast<int>(kPaceStep.count()) : -1);
    if (ready == 0) {
      idle_ = pace_.goes_on() ? std::chrono::milliseconds(0) : idle_ + kPaceStep;
      if (idle_ >= kill_after_ || Clock::now() - begun_ >= kill_at_last_) kill();
      continue;
    }
    const ssize_t got = ::recv(socket_, to, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void HelperReply::expect_process(bool may_hang) {
  may_kill_ = may_hang && !killed_;
  idle_ = std::chrono::milliseconds(0);
  begun_ = Clock::now();
}

void HelperReply::expect_clone() { kill_after_ = kill_at_last_ = kClonesWithin; }

void HelperReply::kill() {
  ::kill(pid_, SIGKILL);
  killed_ = true;
  may_kill_ = false;
}

}  // namespace flight::broker
