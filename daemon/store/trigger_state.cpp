// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/trigger_state.hpp"

#include <utility>

#include "daemon/log/log.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/store/folder.hpp"
#include "libcore/trigger/state.hpp"

namespace flight::daemon {
namespace {

constexpr const char* kStateFile = "triggers.state";

}  // namespace

std::string TriggerState::read() const {
  auto folder = Folder::open(state_dir_);
  if (!folder) return "";
  auto text = folder->read(kStateFile, kMaxTriggerStateBytes);
  if (!text && text.error().code != std::errc::no_such_file_or_directory)
    log::warn("{}: the trigger counters start at zero", text.error().what);
  return text ? std::move(*text) : std::string();
}

void TriggerState::save(std::string text) {
  const std::lock_guard lock(mutex_);
  unsaved_.reset();
  if (std::exchange(waiting_, std::move(text))) return;
  disk_.post([this] { write(); });
}

void TriggerState::try_again() {
  const std::lock_guard lock(mutex_);
  if (!unsaved_ || waiting_) return;
  waiting_ = std::exchange(unsaved_, std::nullopt);
  disk_.post([this] { write(); });
}

void TriggerState::write() {
  std::string newest;
  {
    const std::lock_guard lock(mutex_);
    newest = std::move(*std::exchange(waiting_, std::nullopt));
  }
  if (!allowed_) return;
  const SpareDescriptors::Use use;
  auto folder = Folder::open(state_dir_);
  Result<Unsynced> kept = folder ? folder->replace(kStateFile, fmt::format("{}.partial", kStateFile), newest)
                                 : Result<Unsynced>(propagate(folder.error()));
  const std::string why =
      kept ? (*kept ? fmt::format("the triggers' state may be lost in a power failure: {}", (*kept)->what) : "")
           : fmt::format(
                 "the triggers' state cannot be saved: {}; a restart of flightd loses the latest counters, and which "
                 "triggers were enabled or disabled since; trying again",
                 kept.error().what);
  {
    const std::lock_guard lock(mutex_);
    if (!why.empty() && trouble_.empty()) log::warn("{}", why);
    trouble_ = why;
    if (!kept && !waiting_) unsaved_ = std::move(newest);
  }
  if (!kept) failed_();
}

std::string TriggerState::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

}  // namespace flight::daemon
