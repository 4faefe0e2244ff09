// SPDX-License-Identifier: Apache-2.0
// Tracks which thread reads the mappings of which process, in any scan: such a read can hang for as long as the process
// does. So one thread at a time reads a process, at most two threads read the processes of one user, and some threads
// read no mappings at all: these always have time for the names of all processes.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace flight::broker {

// Any thread.
class MapsReaders {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Answer {
    yes,    // call end() afterwards
    later,  // other reads are running, and may end soon
    no,     // its read hangs already, or too many reads of its user do
  };
  // `threads`: the number of scan threads. `hangs_after`: a longer read counts as hung.
  [[nodiscard]] Answer begin(std::uint32_t pid, uid_t uid, std::size_t threads, std::chrono::milliseconds hangs_after);
  void end(std::uint32_t pid);
  [[nodiscard]] std::size_t count() const;

  static constexpr std::size_t kThreadsForNames = 2;  // they read no mappings
  static constexpr std::size_t kMostOfUser = 2;       // root: all except this many
  [[nodiscard]] static std::size_t most(std::size_t threads) {
    return threads > kThreadsForNames ? threads - kThreadsForNames : 1;
  }
  [[nodiscard]] static std::size_t most_of(uid_t uid, std::size_t threads) {
    if (uid != 0) return std::min(kMostOfUser, most(threads));
    return most(threads) > kMostOfUser ? most(threads) - kMostOfUser : 1;
  }

 private:
  struct Read {
    uid_t uid = 0;
    Clock::time_point begun;
  };
  mutable std::mutex mutex_;
  std::map<std::uint32_t, Read> reads_;  // by pid
};

}  // namespace flight::broker
