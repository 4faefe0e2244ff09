// SPDX-License-Identifier: Apache-2.0
// Notifies the service manager that flightd is alive (WatchdogSec= of systemd.service(5)). The event loop sends it,
// and only while the trigger thread's passes advance; neither waits for a disk. No-op without a watchdog. Event loop
// only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>

namespace flight::daemon {

class Watchdog {
 public:
  // `passes`: returns the number of passes of the sampler.
  Watchdog(boost::asio::io_context& loop, std::function<std::uint64_t()> passes);

  // Call it at the end of the start: from then on it notifies four times per WatchdogSec=.
  void begin();

 private:
  void wait();
  boost::asio::steady_timer timer_;
  std::function<std::uint64_t()> passes_;
  std::chrono::microseconds every_{0};
  std::uint64_t seen_ = 0;
  bool reported_ = false;  // the sampler was reported as hanging
};

}  // namespace flight::daemon
