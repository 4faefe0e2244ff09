// SPDX-License-Identifier: Apache-2.0
// The wait of a service between two attempts to start. If the service ended, the service manager would restart it for
// ever. So it stays: it sends READY=1, gives the reason in its status line, once in the log and in the reply to each
// call, and tries again after 1, 2, 5, and then every 10 s, and at each reload. SIGTERM and SIGINT end the wait. Main
// thread only.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/control/server.hpp"
#include "daemon/control/unstarted.hpp"
#include "daemon/notify/watchdog.hpp"
#include "daemon/start/start_report.hpp"
#include "libcore/config/config_reader.hpp"

namespace flight::daemon {

class StartWait {
 public:
  // `config`: of the attempts. `control_socket`: that listens, and remains the caller's; -1: there is none, so calls
  // are not answered.
  StartWait(ConfigReader& config, int control_socket, StartReport& report);
  StartWait(const StartWait&) = delete;
  StartWait& operator=(const StartWait&) = delete;
  ~StartWait();

  // Waits for the next attempt. False: flightd was asked to end.
  [[nodiscard]] bool wait(const std::string& why);
  // An attempt has succeeded: answers the reloads that led to it, and ends all connections.
  void end(const std::string& digest);

 private:
  void listen();
  void take_signals();
  void wait_for_signal();
  void reload(const Caller& caller, ControlBackend::Done done);

  ConfigReader& config_;
  const int control_socket_;
  StartReport& report_;
  boost::asio::io_context loop_{1};
  boost::asio::steady_timer timer_{loop_};
  boost::asio::posix::stream_descriptor signals_{loop_};
  UnstartedBackend backend_;
  std::unique_ptr<ControlServer> server_;
  std::uint64_t turns_ = 0;  // of the watchdog, which watches nothing else here
  Watchdog watchdog_{loop_, [this] { return ++turns_; }};
  std::vector<ControlBackend::Done> reloads_;  // answered after the next attempt
  bool waited_ = false, ended_ = false;
};

}  // namespace flight::daemon
