// SPDX-License-Identifier: Apache-2.0
#include "daemon/notify/watchdog.hpp"

#include <systemd/sd-daemon.h>

#include "daemon/log/log.hpp"
#include "libcore/base/service_manager.hpp"

namespace flight::daemon {

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
      static_cast<void>(notify_service_manager("WATCHDOG=1", kNotifySoon));  // the next one is early enough
    } else if (!reported_) {
      log::error("the trigger thread hangs: watchdog notifications to the service manager are stopped");
    }
    reported_ = passes == seen_;
    seen_ = passes;
    wait();
  });
}

}  // namespace flight::daemon
