// SPDX-License-Identifier: Apache-2.0
// What other threads hand to a thread that polls.
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
  // An eventfd; `whose`: for the error.
  [[nodiscard]] static Result<UniqueFd> make_wake(std::string_view whose);
  explicit TaskQueue(UniqueFd wake) : wake_(std::move(wake)) {}

  // Any thread.
  void post(std::function<void()> task);
  // Any thread but the queue's own: waits for the answer.
  template <typename Call>
  auto ask(Call call) -> decltype(call()) {
    auto task = std::make_shared<std::packaged_task<decltype(call())()>>(std::move(call));
    auto answer = task->get_future();
    post([task] { (*task)(); });
    return answer.get();
  }

  // The queue's own thread: readable while there are tasks; and all that are there now.
  [[nodiscard]] int fd() const { return wake_.get(); }
  void run();

 private:
  UniqueFd wake_;
  std::mutex mutex_;
  std::vector<std::function<void()>> tasks_;
};

}  // namespace flight
