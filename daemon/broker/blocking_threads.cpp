// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/blocking_threads.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "libcore/base/thread.hpp"

namespace flight::broker {

// Shared with the threads: a blocked thread outlives its owner.
struct BlockingThreads::Shared {
  std::mutex mutex;
  std::condition_variable changed, idle;
  std::deque<std::function<void()>> tasks;
  std::size_t threads = 0, working = 0;
  bool stopping = false;
  UniqueFd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  void notify() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake.get(), &one, sizeof one));
  }
};

Result<BlockingThreads> BlockingThreads::start(const std::string& name, std::size_t count) {
  BlockingThreads out;
  out.shared_ = std::make_shared<Shared>();
  out.shared_->threads = count;
  for (std::size_t i = 0; i < count; ++i) {
    auto thread = start_thread(name, [shared = out.shared_] { work(shared); });
    if (!thread) return propagate(thread.error());
    thread->detach();
  }
  return out;
}

void BlockingThreads::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->stopping || !shared->tasks.empty(); });
    if (shared->stopping) return;
    auto task = std::move(shared->tasks.front());
    shared->tasks.pop_front();
    ++shared->working;
    lock.unlock();
    task();
    task = nullptr;  // frees what the task holds
    shared->notify();
    lock.lock();
    --shared->working;
    if (shared->working == 0) shared->idle.notify_all();
  }
}

BlockingThreads::~BlockingThreads() {
  if (!shared_) return;
  const std::lock_guard lock(shared_->mutex);
  shared_->stopping = true;
  shared_->tasks.clear();
  shared_->changed.notify_all();
}

bool BlockingThreads::post(std::function<void()> task) const {
  if (!shared_) return false;
  const std::lock_guard lock(shared_->mutex);
  if (shared_->threads == 0 || shared_->tasks.size() >= shared_->threads) return false;
  shared_->tasks.push_back(std::move(task));
  shared_->changed.notify_one();
  return true;
}

std::function<void()> BlockingThreads::waker() const {
  return [shared = shared_] {
    if (shared) shared->notify();
  };
}

int BlockingThreads::wake_fd() const { return shared_ ? shared_->wake.get() : -1; }

void BlockingThreads::clear_wake() const {
  std::uint64_t count = 0;
  if (shared_) static_cast<void>(!::read(shared_->wake.get(), &count, sizeof count));
}

std::size_t BlockingThreads::count() const { return shared_ ? shared_->threads : 0; }

bool BlockingThreads::busy() const {
  if (!shared_) return false;
  const std::lock_guard lock(shared_->mutex);
  return shared_->working != 0 || !shared_->tasks.empty();
}

bool BlockingThreads::wait_idle(std::chrono::milliseconds limit) const {
  if (!shared_) return true;
  std::unique_lock lock(shared_->mutex);
  return shared_->idle.wait_for(lock, limit, [&] { return shared_->working == 0; });
}

}  // namespace flight::broker
