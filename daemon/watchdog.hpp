// SPDX-License-Identifier: Apache-2.0
// Tells the service manager that flightd is alive (WatchdogSec= of systemd.service(5), sd_watchdog_enabled(3)): the
// event loop tells it, and only as long as the sampler makes its passes. What waits for a disk, waits; it is on
// neither. Does nothing where no watchdog was asked for. Event loop only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>

namespace flight {

class Watchdog {
 public:
  // `passes`: how many the sampler has made.
  Watchdog(boost::asio::io_context& loop, std::function<std::uint64_t()> passes);

  // At the end of the start: from then on four times in the time that the manager allows.
  void begin();

 private:
  void wait();
  boost::asio::steady_timer timer_;
  std::function<std::uint64_t()> passes_;
  std::chrono::microseconds every_{0};
  std::uint64_t seen_ = 0;
  bool told_ = false;  // that the sampler stands still
};

}  // namespace flight
