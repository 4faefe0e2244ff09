// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/task_thread.hpp"

#include <utility>

#include "libcore/base/thread.hpp"

namespace flight {

Result<std::unique_ptr<TaskThread>> TaskThread::start(const std::string& name) {
  std::unique_ptr<TaskThread> out(new TaskThread);
  auto thread = start_thread(name, [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  return out;
}

void TaskThread::post(Task task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  wake_.notify_one();
}

void TaskThread::join() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void TaskThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // frees what it holds without the lock
    lock.lock();
  }
}

}  // namespace flight
