// SPDX-License-Identifier: Apache-2.0
// The rings of a running recording: the workers that read them, their pauses, and other rings that follow them.
#include <algorithm>
#include <utility>

#include "daemon/recordings/running_recording.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

// The interval of attempts to begin a part after the broker died or the disk hung. Each asks the store for space.
constexpr EventTime kFollowAgainNs = 1'000'000'000;

}  // namespace

Result<void> RunningRecording::start_workers(const RingPositions& read_to, EventTime since_ns, bool past) {
  StreamSettings settings;
  settings.plan = plan_;
  settings.level = order_.level;
  settings.past = past;
  settings.since_ns = since_ns;
  settings.all_since = order_.all_since && since_ns != 0;
  settings.filters = rings_.filters();
  {
    const std::lock_guard lock(mutex_);
    settings.begun_ns = newest_ns_;
  }
  auto workers = StreamWorkers::start(rings_.to_read(read_to), rings_.attached->events, std::move(settings), *pool_,
                                      [this](Round round) { take_round(std::move(round)); });
  if (!workers) return propagate(workers.error());
  workers_ = std::move(*workers);
  stream_ = means_.recorder.add_stream(
      {.rings = rings_.rings, .tick = [workers = workers_.get()](EventTime now_ns) { return workers->tick(now_ns); }});
  return {};
}

void RunningRecording::end_workers(bool others_follow) {
  if (stream_ != 0) means_.recorder.remove_stream(std::exchange(stream_, 0));
  if (!workers_) return;
  workers_->finish(others_follow);
  for (std::string& warning : workers_->warnings())
    if (std::find(warnings_.begin(), warnings_.end(), warning) == warnings_.end())
      warnings_.push_back(std::move(warning));
  if (const std::uint64_t foreign = workers_->totals().foreign; foreign > 0)
    warnings_.push_back(fmt::format("{} of unknown events or types left out", counted(foreign, "record")));
}

// A pause is reported as a hole when it has ended. `last`: the recording ends now, and so does the hole.
void RunningRecording::report_pauses(EventTime now_ns, bool last) {
  if (!workers_) return;
  for (const Pause& pause : means_.recorder.gaps().pauses()) {
    if (pause.end_ns == UINT64_MAX && !last) continue;
    const EventTime begin_ns = std::max(pause.begin_ns, paused_until_ns_);
    const EventTime end_ns = std::min(pause.end_ns, now_ns);
    if (end_ns <= begin_ns) continue;
    workers_->paused(begin_ns, end_ns);
    paused_until_ns_ = end_ns;
  }
}

// Goes on with the newest set of rings. There is another one after a reload, or when a CPU came back: it has new ids,
// and perhaps other rings. What the new events wrote into the same rings until now belongs to the next part.
std::optional<RecordingEnd> RunningRecording::follow_attached() {
  if (unfollowed_ && (means_.recorder.broker_gone() || clock_.now() < follow_again_ns_)) return std::nullopt;
  // Rings that no part was begun with come first: what they recorded before their broker died is nowhere else.
  std::shared_ptr<Attached> next = unfollowed_ ? std::exchange(unfollowed_, nullptr) : means_.recorder.attached();
  if (next == rings_.attached) return std::nullopt;
  auto rings = RecordedRings::of(std::move(next), order_.channels);
  if (!rings) {
    warnings_.push_back(rings.error().what);
    return RecordingEnd::reload;
  }
  if (rings->same_as(rings_)) {
    rings_ = std::move(*rings);
    return std::nullopt;
  }
  // While there is no broker to make the files, or the disk makes them, the readers of the old rings go on.
  const auto later = [&]() -> std::optional<RecordingEnd> {
    unfollowed_ = std::move(rings->attached);
    follow_again_ns_ = clock_.now() + kFollowAgainNs;
    return std::nullopt;
  };
  if (means_.recorder.broker_gone()) return later();
  const auto refused = prepare_part();
  if (refused && *refused) return refused.value();
  if (!refused && may_begin_later(refused.error())) return later();
  if (!refused) {
    warnings_.push_back(refused.error().what);
    return RecordingEnd::disk;
  }
  end_workers(/*others_follow=*/rings_.are_in(*rings));
  const RingPositions read_to = rings_.positions(workers_->read_to());
  const EventTime from_ns = std::min(floor_ns(), workers_->left_from_ns());
  workers_.reset();
  rings_ = std::move(*rings);
  auto begun = begin_part(from_ns);
  if (begun) begun = start_workers(read_to, 0, true);
  if (begun) return std::nullopt;
  warnings_.push_back(begun.error().what);
  return RecordingEnd::disk;
}

// The error code counts also if the next broker is already connected: the error came from the one that died.
bool RunningRecording::may_begin_later(const Error& error) const {
  const bool hangs = error.code == std::errc::timed_out || error.code == BrokerThread::kBrokerSilent ||
                     error.code == std::errc::device_or_resource_busy;
  return means_.recorder.broker_gone() || error.code == std::errc::connection_reset ||
         error.code == std::errc::broken_pipe || hangs;
}

}  // namespace flight::daemon
