// SPDX-License-Identifier: Apache-2.0
// Reports why a service cannot start: it sends READY=1, with the reason in the status line, and logs the reason once.
// One object serves all attempts. Main thread only.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace flight::daemon {

class StartReport {
 public:
  // Call it for each failed attempt. What the service manager did not get is sent again by the next call.
  void report(const std::string& why);
  // Sends it again if it was not sent, and the watchdog's notification.
  void repeat();
  [[nodiscard]] const std::string& why() const { return why_; }
  // The time until the next attempt: 1, 2, 5, and then every 10 s.
  [[nodiscard]] std::chrono::seconds next_wait();

 private:
  [[nodiscard]] bool send(bool warn);
  std::string why_;
  bool ready_ = false, sent_ = false;  // the service manager knows READY=1, and this reason
  std::size_t tries_ = 0;
};

}  // namespace flight::daemon
