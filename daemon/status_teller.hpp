// SPDX-License-Identifier: Apache-2.0
// Keeps the line of `systemctl status` true: told when something happened and every 30 s, for it tells ages, and only
// where it reads otherwise than before. Does nothing where no service manager listens. Event loop only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>

#include "daemon/status_line.hpp"

namespace flight {

class StatusTeller {
 public:
  StatusTeller(boost::asio::io_context& loop, std::function<StatusFacts()> facts);

  // READY=1, too.
  void ready();
  void tell();

 private:
  void wait();
  boost::asio::steady_timer timer_;
  std::function<StatusFacts()> facts_;
  bool listened_to_;
  std::string told_;
};

}  // namespace flight
