// SPDX-License-Identifier: Apache-2.0
#include "daemon/recordings/running_recording.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "libcore/base/thread.hpp"
#include "libcore/base/units.hpp"

namespace flight::daemon {
namespace {

constexpr EventTime kProgressEveryNs = 1'000'000'000;
constexpr std::uint64_t kLeastPoolBytes = 4U << 20U, kMostPoolBytes = 256U << 20U;

// Space for the held past, which is delivered as one round, and for as much again that the disk has not taken yet: its
// blocks have about an eighth of the rings' bytes. Pages that are not needed are not touched.
std::uint64_t pool_bytes(std::uint64_t ring_bytes, int level) {
  const std::uint64_t wanted = level == 0 ? ring_bytes + ring_bytes / 4 : ring_bytes / 2;
  return std::clamp(wanted, kLeastPoolBytes, kMostPoolBytes);
}

}  // namespace

std::string_view to_string(RecordingEnd end) {
  switch (end) {
    case RecordingEnd::asked:
      return "asked";
    case RecordingEnd::max_size:
      return "max_size";
    case RecordingEnd::killed:
      return "killed";
    case RecordingEnd::disk:
      return "disk";
    case RecordingEnd::reload:
      return "reload";
    case RecordingEnd::budget:
      return "budget";
  }
  return "asked";
}

RunningRecording::RunningRecording(const Means& means, RecordingOrder order, Callbacks callbacks,
                                   const WaitingClock& clock)
    : means_(means),
      order_(std::move(order)),
      callbacks_(std::move(callbacks)),
      clock_(clock),
      files_(means.recorder, means.store.folder()) {}

Result<std::unique_ptr<RunningRecording>> RunningRecording::start(const Means& means, RecordingOrder order,
                                                                  Callbacks callbacks, const WaitingClock& clock) {
  std::unique_ptr<RunningRecording> out(new RunningRecording(means, std::move(order), std::move(callbacks), clock));
  auto thread = start_thread("record", [self = out.get()] { self->run(); });
  if (!thread) return propagate(thread.error());
  out->thread_ = std::move(*thread);
  return out;
}

RunningRecording::~RunningRecording() {
  stop(RecordingEnd::asked);
  if (thread_.joinable()) thread_.join();
}

void RunningRecording::stop(RecordingEnd why) {
  {
    const std::lock_guard lock(mutex_);
    if (!asked_) asked_ = why;
  }
  wake_.notify_one();
}

bool RunningRecording::go_on_until(EventTime until_ns) {
  const std::lock_guard lock(mutex_);
  if (over_ || asked_) return false;
  until_ns_ = std::max(until_ns_, until_ns);
  return true;
}

std::string RunningRecording::id() const {
  const std::lock_guard lock(mutex_);
  return id_;
}

void RunningRecording::run() {
  if (auto begun = begin(); !begun) return give_up(begun.error());
  const std::string its_id = id();
  callbacks_.begun(its_id);
  EventTime next_ns = running_since_ns_ + kProgressEveryNs;
  for (;;) {
    const EventTime now_ns = clock_.now();
    if (const auto end = look(now_ns)) return finish(*end);
    if (now_ns >= next_ns) {
      callbacks_.progress(its_id, progress(now_ns));
      next_ns = now_ns + kProgressEveryNs;
    }
    wait(next_ns);
  }
}

void RunningRecording::wait(EventTime until_ns) {
  std::unique_lock lock(mutex_);
  until_ns = std::min(until_ns, ends_ns());
  while (!asked_ && !news_ && ended_.empty() && clock_.now() < until_ns) clock_.wait_until(wake_, lock, until_ns);
  news_ = false;
}

Result<void> RunningRecording::begin() {
  RecorderThread& recorder = means_.recorder;
  if (const std::string why = recorder.refusal(); !why.empty() && recorder.attached()->rings.empty())
    return fail(std::errc::no_message_available, "nothing is recorded: {}", why);
  auto rings = RecordedRings::of(recorder.attached(), order_.channels);
  if (!rings) return propagate(rings.error());
  rings_ = std::move(*rings);
  const EventTime asked_ns = order_.asked_ns;
  const bool past = order_.since_ns != 0;
  // A recording without a past begins now, not when its files and the export are ready: these can take seconds.
  const EventTime wanted_ns = past ? std::min(order_.since_ns, asked_ns) : monotonic_now();
  const RingPositions heads = past ? RingPositions() : rings_.heads();
  auto plan = plan_workers(order_.workers);
  if (!plan) return wrap(plan.error(), "record.workers \"{}\"", order_.workers);
  plan_ = std::move(*plan);
  part_bytes_ = std::min(order_.part_bytes, order_.max_bytes);
  const auto refused = prepare_part();
  if (!refused) return propagate(refused.error());
  if (*refused)
    return fail(std::errc::no_space_on_device,
                "store.max_use or store.keep_free leaves no space for a recording in {}, and no snapshot may be "
                "deleted for it",
                files_.folder());
  auto pool = BlockPool::create(static_cast<std::size_t>(pool_bytes(rings_.bytes(), order_.level)));
  if (!pool) return propagate(pool.error());
  pool_ = std::move(*pool);
  PartWriter::Settings settings;
  settings.level = order_.level;
  settings.limits.file_bytes = part_bytes_;
  settings.sideband = [this](EventTime after_ns, EventTime until_ns) { return sideband(after_ns, until_ns); };
  settings.on_progress = [this] {
    {
      const std::lock_guard lock(mutex_);
      news_ = true;
    }
    wake_.notify_one();
  };
  auto writer = PartWriter::start(std::move(settings));
  if (!writer) return propagate(writer.error());
  writer_ = std::move(*writer);

  if (auto begun = begin_part(wanted_ns); !begun) return begun;
  since_ns_ = paused_until_ns_ = gaps_said_ns_ = open_.back().begun_ns;
  if (past && since_ns_ > wanted_ns + (order_.all_since ? 0 : kProgressEveryNs))
    warnings_.push_back(fmt::format("the rings held {} of the {} before the recording began that were asked for",
                                    format_duration(std::chrono::nanoseconds(asked_ns - std::min(since_ns_, asked_ns))),
                                    format_duration(std::chrono::nanoseconds(asked_ns - wanted_ns))));
  {
    const std::lock_guard lock(mutex_);
    newest_ns_ = newest_before_ns_ = since_ns_;
  }
  auto started = start_workers(heads, since_ns_, past);
  running_since_ns_ = clock_.now();
  return started;
}

// The recording could not begin: removes everything that it made.
void RunningRecording::give_up(const Error& error) {
  if (stream_ != 0) means_.recorder.remove_stream(std::exchange(stream_, 0));
  workers_.reset();
  writer_.reset();
  if (next_) files_.remove(next_->seq);
  for (const OpenPart& part : open_) files_.remove(part.seq);
  free_memory();
  means_.store.release_parts(seqs_);
  callbacks_.ended({.result = propagate(error), .unfinished = {}});
}

// On this thread: the event loop, which destroys this object, would need milliseconds for the pool, up to 256 MiB.
void RunningRecording::free_memory() {
  writer_.reset();
  open_.clear();
  next_.reset();
  known_files_.reset();
  committed_.reset();
  unfollowed_.reset();
  rings_ = RecordedRings();
  {
    const std::lock_guard lock(mutex_);
    contexts_.clear();
    ended_.clear();
  }
  pool_.reset();
}

std::optional<RecordingEnd> RunningRecording::look(EventTime now_ns) {
  commit_ended();
  {
    const std::lock_guard lock(mutex_);
    if (asked_) return asked_;
  }
  if (failure_) return RecordingEnd::disk;
  if (is_over(now_ns)) return RecordingEnd::asked;
  const PartProgress written = writer_->progress();
  if (!written.trouble.empty()) {
    warnings_.push_back(written.trouble);
    return RecordingEnd::disk;
  }
  // A recording without an event does not end at this limit, because its first prologue alone can be that large.
  if (written.events > 0 && written.bytes >= order_.max_bytes) return RecordingEnd::max_size;
  report_pauses(monotonic_now(), false);
  if (const auto end = follow_attached()) return end;
  // Switch only if the full part is the newest one: the writer may still be busy with the one before.
  const bool due = now_ns >= switch_again_ns_ || written.bytes >= enough_bytes_;
  if (written.full && written.parts == part_number_ && due) return switch_part();
  return std::nullopt;
}

bool RunningRecording::is_over(EventTime now_ns) {
  const std::lock_guard lock(mutex_);
  over_ = over_ || now_ns >= ends_ns();
  return over_;
}

EventTime RunningRecording::ends_ns() const {
  return order_.for_ns == 0 ? UINT64_MAX : std::max(running_since_ns_ + order_.for_ns, until_ns_);
}

RecordProgress RunningRecording::progress(EventTime now_ns) const {
  const PartProgress written = writer_->progress();
  return {.seconds = static_cast<double>(now_ns - running_since_ns_) / 1e9,
          .bytes = written.bytes,
          .events = written.events,
          .lost = written.lost_events,
          .parts = written.parts,
          .finished = finished_};
}

void RunningRecording::finish(RecordingEnd end) {
  end_ = end;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  report_pauses(monotonic_now(), true);
  end_workers();
  workers_.reset();
  if (std::exchange(unfollowed_, nullptr))
    warnings_.emplace_back(
        "flightd-broker opened other rings, but it died, or the disk did not answer, before a part with them could "
        "begin: what they recorded is missing");
  OpenPart& last = open_.back();
  writer_->end(end_of(last.seq, last.context));
  for (;;) {
    commit_ended();
    if (open_.empty()) break;
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return !ended_.empty(); });
  }
  describe_last_again();
  RecordResult result{.id = id(),
                      .ended = std::string(to_string(end)),
                      .progress = progress(clock_.now()),
                      .paths = std::move(paths_),
                      .warnings = std::move(warnings_)};
  free_memory();
  means_.store.release_parts(seqs_);
  if (result.progress.finished.empty() && failure_)
    return callbacks_.ended({.result = propagate(*failure_), .unfinished = std::move(unfinished_)});
  callbacks_.ended({.result = std::move(result), .unfinished = std::move(unfinished_)});
}

}  // namespace flight::daemon
