// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/task_queue.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

namespace flight {

Result<UniqueFd> TaskQueue::make_wake(std::string_view whose) {
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return sys_error(errno, "eventfd of the {} thread", whose);
  return wake;
}

void TaskQueue::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));  // EAGAIN: the thread is awake already
}

void TaskQueue::run() {
  std::uint64_t count = 0;
  static_cast<void>(!::read(wake_.get(), &count, sizeof count));  // EAGAIN: there is none
  std::vector<std::function<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

}  // namespace flight
