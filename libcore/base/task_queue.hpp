// SPDX-License-Identifier: Apache-2.0
// Tasks that other threads post to a polling thread.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class TaskQueue {
 public:
  // Creates an eventfd; `whose`: for the error.
  [[nodiscard]] static Result<UniqueFd> make_wake(std::string_view whose);
  explicit TaskQueue(UniqueFd wake) : wake_(std::move(wake)) {}

  // Any thread.
  void post(std::function<void()> task);
  // Any thread but the queue's own: waits for the result.
  template <typename Call>
  auto ask(Call call) -> decltype(call()) {
    auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
    auto answer = task->get_future();
    post([task] { (*task)(); });
    return answer.get();
  }

  // The queue's own thread: fd() is readable while there are tasks; take() returns the tasks that are there now.
  [[nodiscard]] int fd() const { return wake_.get(); }
  void run();

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

}  // namespace flight
