// SPDX-License-Identifier: Apache-2.0
// Saves the triggers' counters in STATE/triggers.state, for the next flightd. Saving never waits for the disk: the
// store's thread writes.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "libcore/base/task_thread.hpp"

namespace flight::daemon {

class TriggerState {
 public:
  // `state_dir`: STATE. `disk`: the thread that writes; none of its tasks runs after this object was destroyed.
  // `allowed`: false until the text of an earlier flightd was read and used; until then nothing replaces it. `failed`:
  // called on that thread after a text could not be written; try_again() is due some time later.
  TriggerState(std::string state_dir, TaskThread& disk, bool allowed, std::function<void()> failed)
      : state_dir_(std::move(state_dir)), disk_(disk), allowed_(allowed), failed_(std::move(failed)) {}

  // Any thread; waits for the disk. The text that an earlier flightd saved; empty: there is none, or it cannot be
  // read, which is logged.
  [[nodiscard]] std::string read() const;
  // Any thread. If several texts wait for the disk, only the last is written. A write error is logged once, until a
  // write succeeds.
  void save(std::string text);
  // Any thread. Writes the last text if it could not be written: a trigger that was disabled while the disk was full
  // stays so.
  void try_again();
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
  const std::function<void()> failed_;
  mutable std::mutex mutex_;
  std::optional<std::string> waiting_;  // waits for the disk
  std::optional<std::string> unsaved_;  // could not be written; there is none newer
  std::string trouble_;
};

}  // namespace flight::daemon
