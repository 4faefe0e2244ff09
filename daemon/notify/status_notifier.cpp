// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/status_notifier.hpp"

#include <chrono>
#include <cstdlib>

#include "daemon/log/log.hpp"
#include "libcore/base/service_manager.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kEvery(30);

}  // namespace

StatusNotifier::StatusNotifier(boost::asio::io_context& loop, std::function<StatusFacts()> facts)
    : timer_(loop), facts_(std::move(facts)), listened_to_(std::getenv("NOTIFY_SOCKET") != nullptr) {}

void StatusNotifier::ready() {
  if (!listened_to_) return;
  sent_ = status_line(facts_());
  if (auto sent = notify_service_manager("READY=1\nSTATUS=" + sent_, kNotifySurely); !sent)
    log::warn("{}", sent.error().what);
  wait();
}

void StatusNotifier::notify() {
  if (!listened_to_) return;
  std::string line = status_line(facts_());
  if (line == sent_) return;
  if (notify_service_manager("STATUS=" + line, kNotifySoon)) sent_ = std::move(line);  // else again in a while
}

void StatusNotifier::wait() {
  timer_.expires_after(kEvery);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    notify();
    wait();
  });
}

}  // namespace flight::daemon
