// SPDX-License-Identifier: Apache-2.0
// A thread that runs posted tasks in order. Created at start, like every thread of flightd: boost::asio::thread_pool
// would throw if none could be created.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "libcore/base/result.hpp"

namespace flight {

class TaskThread {
 public:
  using Task = std::function<void()>;

  [[nodiscard]] static Result<std::unique_ptr<TaskThread>> start(const std::string& name);
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;
  ~TaskThread() { join(); }

  // Any thread; after join() tasks are not run any more. The caller limits how much it posts.
  void post(Task task);
  // Waits until all posted tasks have run, also those posted by tasks; then the thread ends.
  void join();

 private:
  TaskThread() = default;
  void run();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace flight
