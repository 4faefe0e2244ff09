// SPDX-License-Identifier: Apache-2.0
// A few threads for calls that can block without a limit: waiting for a helper (helpers.hpp), reading maps of other
// processes, the disk below the store. All are made at start, so that no later step needs a new thread. A thread that
// hangs is left alone, even when the program ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {

class BlockingThreads {
 public:
  // Starts `count` threads with `name`. EAGAIN: no task or memory is left for all of them; then none is left running. A
  // task that runs out of memory ends the program, as start_thread() says.
  [[nodiscard]] static Result<BlockingThreads> start(const std::string& name, std::size_t count);
  BlockingThreads() = default;
  BlockingThreads(BlockingThreads&&) noexcept = default;
  BlockingThreads& operator=(BlockingThreads&&) noexcept = default;
  // Idle threads end; blocked threads are left behind.
  ~BlockingThreads();

  // False: all threads are busy, and the queue is full.
  [[nodiscard]] bool post(std::function<void()> task) const;
  // Any thread: makes wake_fd() readable.
  [[nodiscard]] std::function<void()> waker() const;
  // Readable after a task ended or waker() was called, until clear_wake().
  [[nodiscard]] int wake_fd() const;
  void clear_wake() const;
  [[nodiscard]] std::size_t count() const;
  // Whether a task runs or waits.
  [[nodiscard]] bool busy() const;
  // Waits until no task runs; false: some still run after `limit`.
  [[nodiscard]] bool wait_idle(std::chrono::milliseconds limit) const;

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;
};

}  // namespace flight::broker
