// SPDX-License-Identifier: Apache-2.0
// The room for what is being written into the store: before a snapshot or a part of a recording, and after a write that
// failed because the disk is full.
#include <cerrno>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/log/log.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight::daemon {

Result<void> StoreService::get_ready() {
  if (auto taken = take_state(); !taken) return taken;
  if (auto followed = follow_folder(); !followed) return followed;
  static_cast<void>(remove_left_files());
  age_clock_.look();
  return {};
}

Result<std::uint64_t> StoreService::make_room(const std::string& trigger, std::uint64_t most_bytes) {
  writing_ = true;
  made_room_.begin();
  auto made = std::make_shared<std::promise<Result<void>>>();
  auto room = made->get_future();
  thread_->post([this, trigger, most_bytes, made] {
    const SpareDescriptors::Use use;
    if (auto ready = get_ready(); !ready) return made->set_value(propagate(ready.error()));
    auto outcome = budget_.make_room(trigger, most_bytes, made_room_.in_vain());
    note_room(outcome ? std::move(*outcome) : budget_.take_deleted());
    made->set_value(outcome ? Result<void>() : Result<void>(propagate(outcome.error())));
  });
  if (room.wait_for(times_.room_wait) == std::future_status::ready) {
    const auto answer = room.get();
    const int why = answer ? 0 : answer.error().errno_value();
    if (!answer && (!usable_ || why == ESTALE || is_full(why))) return propagate(answer.error());
  }
  if (auto why = trouble()) return propagate(std::move(*why));
  return max_snapshot_bytes_.load();
}

Result<std::optional<StoreService::PartLimit>> StoreService::make_part_room(
    std::uint64_t most_bytes, std::optional<std::uint64_t> begun_free_bytes) {
  auto made = std::make_shared<std::promise<Result<std::optional<PartLimit>>>>();
  auto room = made->get_future();
  thread_->post([this, most_bytes, begun_free_bytes, made] {
    const SpareDescriptors::Use use;
    if (auto ready = get_ready(); !ready) return made->set_value(propagate(ready.error()));
    auto done = budget_.make_part_room(most_bytes, begun_free_bytes, made_room_.in_vain());
    report(done ? std::move(done->outcome) : budget_.take_deleted());
    if (!done) return made->set_value(propagate(done.error()));
    made->set_value(
        PartLimit{.left_bytes = done->left_bytes, .free_bytes = done->free_bytes, .max_files = done->limits.max_files});
  });
  if (room.wait_for(times_.room_wait) == std::future_status::ready) return room.get();
  if (auto why = trouble()) return propagate(std::move(*why));
  return std::optional<PartLimit>();
}

std::vector<std::uint64_t> StoreService::take_left_parts() {
  const std::lock_guard lock(mutex_);
  return std::exchange(left_parts_, {});
}

void StoreService::hold_part(std::uint64_t seq) {
  const std::lock_guard lock(parts_mutex_);
  parts_.insert(seq);
}

void StoreService::release_parts(const std::vector<std::uint64_t>& seqs) {
  {
    const std::lock_guard lock(parts_mutex_);
    for (const std::uint64_t seq : seqs) parts_.erase(seq);
  }
  keep_budget();
}

bool StoreService::make_more_room(const std::string& trigger, std::uint64_t needed_bytes) {
  if (made_room_.retry_in_vain() || !delete_for(trigger, needed_bytes)) return false;
  made_room_.note_retry();
  return true;
}

bool StoreService::make_more_part_room(std::uint64_t bytes) { return delete_for(std::string(kRecordTrigger), bytes); }

bool StoreService::delete_for(const std::string& trigger, std::uint64_t bytes) {
  auto made = std::make_shared<std::promise<bool>>();
  auto room = made->get_future();
  thread_->post([this, trigger, bytes, made] {
    const SpareDescriptors::Use use;
    if (made_room_.in_vain()) return made->set_value(false);
    age_clock_.look();
    VacuumOutcome outcome = budget_.make_more_room(trigger, bytes);
    const bool any = !outcome.removed.empty();
    note_room(std::move(outcome));
    made->set_value(any);
  });
  return room.wait_for(times_.room_wait) == std::future_status::ready && room.get();
}

void StoreService::writing_ended(const std::optional<Error>& error) {
  if (made_room_.end(error))
    log::warn(
        "the disk of {} stayed full although snapshots were deleted for the next one: no more are deleted for it until "
        "one can be written",
        folder());
  writing_ = false;
}

void StoreService::note_room(VacuumOutcome outcome) {
  for (const VacuumedSnapshot& one : outcome.removed)
    if (one.reason == VacuumReason::room) made_room_.note_made();
  report(std::move(outcome));
}

}  // namespace flight::daemon
