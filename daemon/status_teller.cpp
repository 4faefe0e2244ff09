// SPDX-License-Identifier: Apache-2.0
#include "daemon/status_teller.hpp"

#include <systemd/sd-daemon.h>

#include <chrono>
#include <cstdlib>

namespace flight {
namespace {

constexpr std::chrono::seconds kEvery(30);

}  // namespace

StatusTeller::StatusTeller(boost::asio::io_context& loop, std::function<StatusFacts()> facts)
    : timer_(loop), facts_(std::move(facts)), listened_to_(std::getenv("NOTIFY_SOCKET") != nullptr) {}

void StatusTeller::ready() {
  if (!listened_to_) return;
  told_ = status_line(facts_());
  ::sd_notifyf(0, "READY=1\nSTATUS=%s", told_.c_str());
  wait();
}

void StatusTeller::tell() {
  if (!listened_to_) return;
  std::string line = status_line(facts_());
  if (line == told_) return;
  told_ = std::move(line);
  ::sd_notifyf(0, "STATUS=%s", told_.c_str());
}

void StatusTeller::wait() {
  timer_.expires_after(kEvery);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    tell();
    wait();
  });
}

}  // namespace flight
