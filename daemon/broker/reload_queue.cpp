// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/reload_queue.hpp"

#include <utility>

#include "libcore/base/retry.hpp"

namespace flight::broker {

ReloadQueue::ReloadQueue(std::unique_ptr<ConfigReader> reader) : reader_(std::move(reader)) {}

ConfigResult<Config> ReloadQueue::read_at_start(std::chrono::milliseconds patience, int stop_fd) {
  return reader_->read(patience, stop_fd);
}

void ReloadQueue::keep_trying(Clock::time_point now) {
  keeps_trying_ = true;
  tried_ = now;
}

void ReloadQueue::try_again(bool is_requested, Clock::time_point now) {
  if (!keeps_trying_ || (reader_->busy() && !reader_->is_late())) return;
  if (now - tried_ < retry_after(is_requested ? 0 : tries_)) return;
  ++tries_;
  tried_ = now;
  if (reader_->busy())
    reader_->look_again();
  else
    reader_->begin();
}

bool ReloadQueue::add_reload() {
  if (reloads_ > 0) {
    ++next_reloads_;
    return false;
  }
  reader_->drop();
  reloads_ = 1;
  reader_->begin();
  return true;
}

bool ReloadQueue::add_attach() {
  if (!reader_->busy() || reader_->is_late()) return false;
  ++attaches_;
  return true;
}

void ReloadQueue::forget(bool is_recording) {
  if (std::exchange(reloads_, 0) > 0 && is_recording) reader_->drop();
  next_reloads_ = attaches_ = 0;
}

std::optional<ReloadQueue::Reading> ReloadQueue::take() {
  if (reloads_ == 0 && next_reloads_ > 0) {
    reloads_ = std::exchange(next_reloads_, 0);
    reader_->begin();
  }
  std::optional<ConfigResult<Config>> config = reader_->take();
  if (!config && reloads_ > 0 && reader_->is_late(kReloadWithin)) {
    config = tl::unexpected(reader_->silence());
    reader_->drop();
  }
  if (!config) return std::nullopt;
  return Reading{.config = std::move(*config), .reloads = std::exchange(reloads_, 0)};
}

std::optional<ConfigError> ReloadQueue::silence() const {
  if (reloads_ > 0 || !reader_->is_late()) return std::nullopt;
  return reader_->silence();
}

int ReloadQueue::take_attaches() { return std::exchange(attaches_, 0); }

bool ReloadQueue::is_awaited() const {
  return reader_->busy() && (reloads_ > 0 || attaches_ > 0 || !reader_->is_late());
}

}  // namespace flight::broker
