// SPDX-License-Identifier: Apache-2.0
// Processes that read the files that others have mapped (docs/decisions/0017). A thread that waits for a FUSE server
// cannot be ended, and its process with it, so the broker itself does not open these files. A helper keeps no
// descriptor of the broker; it has its socket and /dev/null.
//
// The first are made at start, before the first thread; later ones by another helper, since a program with threads must
// not fork. A helper that waits for the lock of a process's mappings is killed. One that waits for a disk is left alone
// until the disk answers: the kernel might not end it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"

namespace flight::broker {

class Helpers {
 public:
  // At the same time: one helper works, and a second one takes over while the first hangs.
  static constexpr std::size_t kCalls = 2;
  // One is always idle, so that it can make others.
  static constexpr std::size_t kAtStart = 2, kMost = kCalls + 1;
  // Unless a disk may hang, a helper is killed if it neither used the CPU nor waited for one for so long,
  static constexpr std::chrono::milliseconds kKillAfter{400};
  // or works for so long: a process can hold the lock of its mappings again and again.
  static constexpr std::chrono::milliseconds kKillAtLast{2000};
  // The time that a call waits for a helper, while one is replaced or makes another one.
  static constexpr std::chrono::milliseconds kPatience{1500};
  static constexpr std::size_t kMostBytes = 64U << 20U;  // of a request or a reply

  // Called on the calling thread before the reply is there. Each may be empty.
  struct Notices {
    std::function<void()> answered;                             // from now on a disk may hang, and no process
    std::function<void(std::span<const std::byte> part)> part;  // of the reply; then a process may hang again
    std::function<void(bool)> has_helper;                       // called by call() itself: a helper has the request
    // Called by call() itself, at its end: the CPU time of the request, or the time that passed if its helper ended;
    // and the measured CPU time, also of one that ended, and of those that made another one meanwhile.
    std::function<void(std::chrono::nanoseconds time, std::chrono::nanoseconds cpu)> used;
  };
  // Runs in a helper, for one request; returns the reply.
  using Work = std::function<std::vector<std::byte>(std::span<const std::byte> request, const Notices& notices)>;

  // Forks kAtStart helpers. The program must have no other thread, and the privileges that `work` needs.
  // `command_line`: the program's arguments in memory (main's argv), where ps(1) reads a helper's title; may be empty.
  // EAGAIN: no task is left.
  [[nodiscard]] static Result<Helpers> start(const Work& work, std::span<char> command_line = {});
  Helpers() = default;  // has none: each call fails

  // Any thread. Waits as long as a helper does: call it on a thread that may wait (blocking_threads.hpp).
  // `notices`: called on this thread, when the helper calls its own. ETIMEDOUT: the helper waited and was killed.
  // EPIPE: it ended (a crash, kill -9). EBUSY: kCalls hang, or none could be made, and nothing was read.
  [[nodiscard]] Result<std::vector<std::byte>> call(std::span<const std::byte> request,
                                                    const Notices& notices = {}) const;
  // The helpers that live, for tests.
  [[nodiscard]] std::vector<pid_t> pids() const;
  // False: none is left that could make others. Only the next broker has new ones.
  [[nodiscard]] bool any() const;
  // The CPU time of all helpers since the start, also of those that ended.
  [[nodiscard]] double cpu_seconds() const;
  // The idle ones end; waits for them, at most `limit`. Without it, the kernel kills them when this program ends.
  void end(std::chrono::milliseconds limit) const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace flight::broker
