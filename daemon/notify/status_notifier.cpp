// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/status_notifier.hpp"

#include <chrono>
#include <cstdlib>

#include "daemon/log/log.hpp"
#include "libcore/base/service_manager.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kEvery(30), kReadyEvery(1);

}  // namespace

StatusNotifier::StatusNotifier(boost::asio::io_context& loop, std::function<StatusFacts()> facts)
    : timer_(loop), facts_(std::move(facts)), listened_to_(std::getenv("NOTIFY_SOCKET") != nullptr) {}

void StatusNotifier::ready() {
  if (!listened_to_) return;
  ready_is_due_ = true;
  if (const auto sent = send(); !sent) log::warn("{}; READY=1 is sent later", sent.error().what);
  wait();
}

void StatusNotifier::notify() {
  if (listened_to_) static_cast<void>(send());  // what is not sent is sent in a while
}

Result<void> StatusNotifier::send() {
  std::string line = status_line(facts_());
  if (line == sent_ && !ready_is_due_) return {};
  auto sent = notify_service_manager((ready_is_due_ ? "READY=1\nSTATUS=" : "STATUS=") + line, kNotifySoon);
  if (!sent) return sent;
  ready_is_due_ = false;
  sent_ = std::move(line);
  return {};
}

void StatusNotifier::wait() {
  timer_.expires_after(ready_is_due_ ? kReadyEvery : kEvery);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    notify();
    wait();
  });
}

}  // namespace flight::daemon
