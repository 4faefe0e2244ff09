// SPDX-License-Identifier: Apache-2.0
// The thread that takes the rings' contents. It sleeps all its life but for that one step, is SCHED_FIFO so that it is
// not descheduled while a ring is paused (at normal priority up to 214 ms), and is never niced.
#pragma once

#include <semaphore>
#include <string>
#include <thread>

#include "libcore/capture/capture.hpp"

namespace flight {

class FreezeThread {
 public:
  // Started while the process may still ask for SCHED_FIFO; the thread keeps it when the privilege is dropped. Becoming
  // another user takes the capabilities from every thread; `drop`: nobody will, so it gives up its own.
  explicit FreezeThread(bool drop = false);
  FreezeThread(const FreezeThread&) = delete;
  FreezeThread& operator=(const FreezeThread&) = delete;
  ~FreezeThread();

  // Waits for Staging::capture on the thread. One caller at a time: the snapshot worker. Allocates nothing.
  [[nodiscard]] EventTime freeze(Staging& staging, CaptureMode mode);

  // Why SCHED_FIFO was refused; empty: it was granted.
  [[nodiscard]] const std::string& priority_error() const { return priority_error_; }

 private:
  void run(bool drop);
  std::binary_semaphore started_{0}, wanted_{0}, done_{0};
  Staging* staging_ = nullptr;  // nullptr: the thread ends
  CaptureMode mode_ = CaptureMode::pause;
  EventTime frozen_ns_ = 0;
  std::string priority_error_;
  std::thread thread_;
};

}  // namespace flight
