// SPDX-License-Identifier: Apache-2.0
// The thread that pauses, copies and resumes the rings. It is SCHED_FIFO all its life, so that it is not descheduled
// while a ring is paused (at normal priority up to 214 ms) and no system call can fail at the critical moment. It
// sleeps between captures. Copying whole rings takes tenths of a second if there are many, so the caller copies first,
// at its own priority.
#pragma once

#include <memory>
#include <semaphore>
#include <string>
#include <thread>

#include "libcore/capture/capture.hpp"

namespace flight::daemon {

class FreezeThread {
 public:
  // Start it before privileges are dropped: SCHED_FIFO may need CAP_SYS_NICE, and the thread keeps the priority
  // afterwards. Capabilities belong to a thread. A change of the user drops them in all threads; with `drop` (the user
  // stays root) the thread drops its own.
  [[nodiscard]] static Result<std::unique_ptr<FreezeThread>> start(bool drop = false);
  FreezeThread(const FreezeThread&) = delete;
  FreezeThread& operator=(const FreezeThread&) = delete;
  ~FreezeThread();

  // Copies the rings on the calling thread, then pauses, copies the difference and resumes on the freeze thread.
  // One caller at a time: the snapshot worker. Allocates nothing.
  void freeze(Staging& staging, CaptureMode mode);

  // Why SCHED_FIFO was refused; empty: it was granted.
  [[nodiscard]] const std::string& priority_error() const { return priority_error_; }

 private:
  FreezeThread() = default;
  void run(bool drop);
  std::binary_semaphore started_{0}, wanted_{0}, done_{0};
  Staging* staging_ = nullptr;  // nullptr: the thread ends
  CaptureMode mode_ = CaptureMode::pause;
  std::string priority_error_;
  std::thread thread_;
};

}  // namespace flight::daemon
