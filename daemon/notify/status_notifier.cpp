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
  notify();
  if (ready_is_due_) log::warn("systemd does not read its notification socket; READY=1 is sent later");
  wait();
}

void StatusNotifier::notify() {
  if (!listened_to_) return;
  std::string line = status_line(facts_());
  if (line == sent_ && !ready_is_due_) return;
  if (!notify_service_manager((ready_is_due_ ? "READY=1\nSTATUS=" : "STATUS=") + line, kNotifySoon)) return;  // later
  ready_is_due_ = false;
  sent_ = std::move(line);
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
