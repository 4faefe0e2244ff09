// SPDX-License-Identifier: Apache-2.0
// Updates the line of `systemctl status`: after each change and every 30 s (it contains ages), and only if its text
// differs. No-op without a service manager. Event loop only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "daemon/notify/status_line.hpp"
#include "libcore/base/result.hpp"

namespace flight::daemon {

class StatusNotifier {
 public:
  StatusNotifier(boost::asio::io_context& loop, std::function<StatusFacts()> facts);

  // Also sends READY=1. While the service manager does not read, flightd does not wait for it: READY=1 is sent later.
  void ready();
  void notify();

 private:
  // What has changed, and READY=1 until it was sent.
  Result<void> send();
  void wait();
  boost::asio::steady_timer timer_;
  std::function<StatusFacts()> facts_;
  bool listened_to_;
  bool ready_is_due_ = false;
  std::string sent_;
};

}  // namespace flight::daemon
