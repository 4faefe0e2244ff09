// SPDX-License-Identifier: Apache-2.0
// The broker's side of one exchange with a helper (helpers.hpp), on the thread that calls. A helper that waits is
// killed, but only while it may wait for a process: one that waits for a disk is left alone. Once it is killed,
// receive() returns what it had sent before, and then false.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>

#include "daemon/broker/helpers/pace.hpp"

namespace flight::broker {

class HelperReply {
 public:
  HelperReply(int socket, pid_t pid);
  // False: the helper ended.
  [[nodiscard]] bool receive(void* out, std::size_t bytes);
  // Whether to kill it if it waits.
  void expect_process(bool may_hang);
  // The helper makes another helper, for which it waits for no process.
  void expect_clone();
  void kill();
  [[nodiscard]] bool killed() const { return killed_; }

 private:
  using Clock = std::chrono::steady_clock;
  int socket_;
  pid_t pid_;
  Pace pace_;
  std::chrono::milliseconds idle_{0}, kill_after_, kill_at_last_;
  Clock::time_point begun_ = Clock::now();
  bool may_kill_ = true, killed_ = false;
};

}  // namespace flight::broker
