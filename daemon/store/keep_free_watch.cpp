// SPDX-License-Identifier: Apache-2.0
#include "daemon/store/keep_free_watch.hpp"

namespace flight::daemon {

void KeepFreeWatch::deleted(Time now, const Pass& pass) {
  if (!freeing_ && !pass.for_keep_free) return;
  if (freeing_)
    freeing_->written_bytes += static_cast<std::int64_t>(pass.own_before_bytes) - freeing_->own_after_bytes;
  else
    freeing_ = Freeing{.at = now, .free_before_bytes = static_cast<std::int64_t>(pass.free_before_bytes)};
  freeing_->own_after_bytes = static_cast<std::int64_t>(pass.own_after_bytes);
  freeing_->counted_bytes += static_cast<std::int64_t>(pass.freed_bytes);
}

bool KeepFreeWatch::may_delete(Time now, std::uint64_t free_bytes, std::uint64_t own_bytes) {
  constexpr std::chrono::seconds kJudgedAfter(60);
  if (freeing_ && now - freeing_->at >= kJudgedAfter) {
    const std::int64_t written =
        freeing_->written_bytes + static_cast<std::int64_t>(own_bytes) - freeing_->own_after_bytes;
    const std::int64_t released = static_cast<std::int64_t>(free_bytes) + written - freeing_->free_before_bytes;
    const std::int64_t half = freeing_->counted_bytes / 2;
    if (released < half) futile_below_bytes_ = free_bytes + static_cast<std::uint64_t>(half);
    freeing_.reset();
  }
  if (futile_below_bytes_ && free_bytes < *futile_below_bytes_) return false;
  futile_below_bytes_.reset();
  return true;
}

}  // namespace flight::daemon
