// SPDX-License-Identifier: Apache-2.0
// Saves the triggers' counters in STATE/triggers.state, for the next flightd. Saving never waits for the disk: the
// store's thread writes.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

#include "libcore/base/task_thread.hpp"

namespace flight::daemon {

class TriggerState {
 public:
  // `state_dir`: STATE. `disk`: the thread that writes; none of its tasks runs after this object was destroyed.
  // `allowed`: false until the text of an earlier flightd was read and used; until then nothing replaces it.
  TriggerState(std::string state_dir, TaskThread& disk, bool allowed)
      : state_dir_(std::move(state_dir)), disk_(disk), allowed_(allowed) {}

  // Any thread; waits for the disk. The text that an earlier flightd saved; empty: there is none, or it cannot be
  // read, which is logged.
  [[nodiscard]] std::string read() const;
  // Any thread. If several texts wait for the disk, only the last is written. A write error is logged once, until a
  // write succeeds.
  void save(std::string text);
  // Any thread. Why the last text could not be written; empty: it was written, or there was none.
  [[nodiscard]] std::string trouble() const;
  // Any thread: from now on save() writes. A text that came before is not written.
  void allow() { allowed_ = true; }
  [[nodiscard]] const std::string& folder() const { return state_dir_; }

 private:
  void write();
  const std::string state_dir_;
  TaskThread& disk_;
  std::atomic<bool> allowed_;
  mutable std::mutex mutex_;
  std::optional<std::string> waiting_;  // waits for the disk
  std::string trouble_;
};

}  // namespace flight::daemon
