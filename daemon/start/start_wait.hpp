// SPDX-License-Identifier: Apache-2.0
// What a service does between two attempts to start. If it ended, the service manager would restart it for ever. So it
// stays: READY=1, the reason in its status line and once in the log, calls are answered with it, and the next attempt
// comes after 1, 2, 5, and then every 10 s, and at each reload. Main thread only; SIGTERM and SIGINT end the wait.
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
