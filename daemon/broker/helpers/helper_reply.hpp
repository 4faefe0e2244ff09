// SPDX-License-Identifier: Apache-2.0
// The broker's side of one exchange with a helper (helpers.hpp), which is killed if it waits. On the thread that calls.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace flight::broker {

// The CPU time of a process in ns. 0: it ended.
[[nodiscard]] std::uint64_t used_cpu_ns(pid_t pid);

// Whether a process uses a CPU, or waits for one.
class Pace {
 public:
  explicit Pace(pid_t pid) : pid_(pid), used_ns_(used_cpu_ns(pid)) {}
  // Since the last call.
  [[nodiscard]] bool goes_on();

 private:
  [[nodiscard]] char state() const;
  pid_t pid_;
  std::uint64_t used_ns_;
};

class HelperReply {
 public:
  HelperReply(int socket, pid_t pid);
  // False: the helper ended.
  [[nodiscard]] bool receive(void* out, std::size_t bytes);
  // Whether to kill it if it waits.
  void expect_process(bool may_hang);
  // It makes another one, and waits for nobody.
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
