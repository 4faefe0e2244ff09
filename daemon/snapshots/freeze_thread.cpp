// SPDX-License-Identifier: Apache-2.0
#include "daemon/snapshots/freeze_thread.hpp"

#include <sched.h>

#include <cerrno>
#include <system_error>

#include "daemon/privileges.hpp"
#include "libcore/base/thread.hpp"

namespace flight::daemon {

Result<std::unique_ptr<FreezeThread>> FreezeThread::start(bool drop) {
  std::unique_ptr<FreezeThread> out(new FreezeThread);
  auto thread = start_thread("freeze", [self = out.get(), drop] { self->run(drop); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  out->started_.acquire();
  return out;
}

FreezeThread::~FreezeThread() {
  if (!thread_.joinable()) return;
  staging_ = nullptr;
  wanted_.release();
  thread_.join();
}

void FreezeThread::freeze(Staging& staging, CaptureMode mode) {
  staging.copy_ahead();
  staging_ = &staging;
  mode_ = mode;
  wanted_.release();
  done_.acquire();
}

void FreezeThread::run(bool drop) {
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
    staging_->cut(mode_);
    done_.release();
  }
}

}  // namespace flight::daemon
