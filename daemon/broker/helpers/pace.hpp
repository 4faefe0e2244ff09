// SPDX-License-Identifier: Apache-2.0
// Whether a helper works, or waits: how much CPU time it has used, and its state in /proc. A helper that waits is
// killed (helper_reply.hpp). On the thread that calls; the process must not have been waited for (wait4(2)), or
// its pid can be another one's.
#pragma once

#include <sys/types.h>

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

}  // namespace flight::broker
