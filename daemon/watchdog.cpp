// SPDX-License-Identifier: Apache-2.0
#include "daemon/watchdog.hpp"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

namespace flight {

Watchdog::Watchdog(boost::asio::io_context& loop, std::function<std::uint64_t()> passes)
    : timer_(loop), passes_(std::move(passes)) {}

void Watchdog::begin() {
  std::uint64_t allowed_us = 0;
  if (::sd_watchdog_enabled(/*unset_environment=*/0, &allowed_us) <= 0) return;
  every_ = std::chrono::microseconds(allowed_us / 4);
  wait();
}

void Watchdog::wait() {
  timer_.expires_after(every_);
  timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    const std::uint64_t passes = passes_();
    if (passes != seen_) {
      ::sd_notify(0, "WATCHDOG=1");
    } else if (!told_) {
      spdlog::error("the trigger thread stands still: the service manager is not told that flightd is alive");
    }
    told_ = passes == seen_;
    seen_ = passes;
    wait();
  });
}

}  // namespace flight
