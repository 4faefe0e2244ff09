// SPDX-License-Identifier: Apache-2.0
// Waits for the effect of another thread by polling a condition, never for a fixed time. kPatience only ends a test
// that would hang.
#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "libcore/base/result.hpp"

namespace flight::test {

constexpr std::chrono::seconds kPatience(60);

// Whether `condition` holds within kPatience.
template <typename Condition>
bool soon(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

template <typename T>
Result<T> answer_of(std::future<Result<T>>& answer) {
  if (answer.wait_for(kPatience) != std::future_status::ready) return fail(std::errc::timed_out, "never answered");
  return answer.get();
}

template <typename T>
bool is_there(const std::future<T>& answer) {
  return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// An event loop that runs on the test's own thread.
class Loop {
 public:
  boost::asio::io_context io{1};

  // Runs it until `condition` holds.
  template <typename Condition>
  bool until(Condition condition) {
    const auto work = boost::asio::make_work_guard(io);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    io.restart();
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io.run_one_for(std::chrono::milliseconds(5));  // another thread may make the condition true, too
    }
    return true;
  }
  // Runs everything that is ready.
  void poll() {
    io.restart();
    io.poll();
  }
};

// While the gate is closed, threads that reach it wait.
class Gate {
 public:
  void close() { set(true); }
  void open() { set(false); }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait_for(lock, kPatience, [this] { return !closed_; });
    --waiting_;
  }
  // Waits until a thread waits here.
  bool wait_for_one() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return waiting_ > 0; });
  }

 private:
  void set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int waiting_ = 0;
};

}  // namespace flight::test
