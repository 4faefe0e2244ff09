// SPDX-License-Identifier: Apache-2.0
#include "daemon/freeze_thread.hpp"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <system_error>

#include "daemon/privileges.hpp"

namespace flight {

FreezeThread::FreezeThread(bool drop) : thread_([this, drop] { run(drop); }) { started_.acquire(); }

FreezeThread::~FreezeThread() {
  staging_ = nullptr;
  wanted_.release();
  thread_.join();
}

EventTime FreezeThread::freeze(Staging& staging, CaptureMode mode) {
  staging_ = &staging;
  mode_ = mode;
  wanted_.release();
  done_.acquire();
  return frozen_ns_;
}

void FreezeThread::run(bool drop) {
  ::pthread_setname_np(::pthread_self(), "freeze");
  const sched_param lowest{.sched_priority = 1};
  if (::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest) != 0)
    priority_error_ = "SCHED_FIFO was refused to the freeze thread (" + std::generic_category().message(errno) +
                      "): blackouts can be longer on a busy machine; grant LimitRTPRIO=1 or CAP_SYS_NICE";
  if (drop)
    if (auto dropped = drop_capabilities(); !dropped) priority_error_ = dropped.error().what;
  started_.release();
  for (;;) {
    wanted_.acquire();
    if (staging_ == nullptr) return;
    frozen_ns_ = staging_->capture(mode_);
    done_.release();
  }
}

}  // namespace flight
