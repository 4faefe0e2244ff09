// SPDX-License-Identifier: Apache-2.0
// The parts of a running recording that have ended: each is committed, or what was written of it is rescued.
#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include "daemon/recordings/running_recording.hpp"
#include "daemon/snapshots/cpu_gaps.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/units.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/stream/recover.hpp"

namespace flight::daemon {

void RunningRecording::commit_ended() {
  for (;;) {
    EndedPart ended;
    {
      const std::lock_guard lock(mutex_);
      if (ended_.empty()) return;
      ended = std::move(ended_.front());
      ended_.pop_front();
    }
    const auto at = std::find_if(open_.begin(), open_.end(), [&](const OpenPart& one) { return one.seq == ended.seq; });
    OpenPart part = std::move(*at);
    open_.erase(at);
    {
      const std::lock_guard lock(mutex_);
      contexts_.erase(part.number);
    }
    if (ended.outcome)
      commit(std::move(part), ended.facts, true);
    else
      rescue(std::move(part), ended.outcome.error(), std::move(ended.facts));
  }
}

void RunningRecording::commit(OpenPart part, const PartFacts& facts, bool holes_known) {
  Sidecar& contents = part.contents;
  if (end_ && part.number == part_number_) {
    contents.record->ended = std::string(to_string(*end_));
    append_texts(contents.warnings, warnings_);
  }
  contents.record->holes_known = holes_known;
  describe_part(contents, facts, part.context->rings(), means_.recorder.clock().history(), part.begun_ns);
  const PartContext::FileTexts files = part.context->file_texts();
  append_texts(contents.warnings, part.context->warnings());
  append_texts(contents.warnings, files.warnings);
  append_texts(contents.notes, files.notes);
  append_texts(contents.warnings, gaps_until(contents.window.end_ns));
  if (std::string owner = owner_warning(part.data_again.get()); !owner.empty())
    contents.warnings.push_back(std::move(owner));
  const auto make_room = [this](std::uint64_t bytes) { return means_.store.make_more_part_room(bytes); };
  auto ready = files_.ready(part.seq, std::move(part.sidecar), part.folder);
  const bool elsewhere = ready.place != files_.folder();
  if (elsewhere) {
    contents.warnings.push_back(fmt::format(
        "{} is another directory than when this part began: a file system was mounted there, or taken away. This part "
        "is in the one before",
        files_.folder()));
    callbacks_.warn({.code = std::error_code(ESTALE, std::generic_category()),
                     .what = fmt::format("part {}: {}", contents.id, contents.warnings.back())});
  }
  const auto committed = files_.commit(std::move(ready), part.name, contents, make_room);
  if (!committed) {
    failure_ = committed.error();
    unfinished_.push_back(part.seq);
    warnings_.push_back(
        fmt::format("part {} is not in the store yet: {}; flightd tries again", contents.id, committed.error().what));
    return;
  }
  if (committed->unsynced)
    callbacks_.warn(
        wrap(*committed->unsynced, "part {} is in the store, but a power failure now may remove its name", contents.id)
            .value());
  else
    means_.store.snapshot_synced(committed->can_sync);
  // Again: while no snapshot with this name was there, a vacuum may have removed it.
  if (!elsewhere) keep_symbols(*part.context, contents);
  finished_.push_back(contents.id);
  paths_.push_back(contents.path);
  committed_.reset();
  if (!elsewhere) committed_ = CommittedPart{.name = std::move(part.name), .contents = std::move(contents)};
  means_.store.keep_budget();
}

// Warnings about times without any recording since the part before, of all CPUs or of one. A pause is also in the
// holes; a broker that was gone is not, nor is a CPU that was offline.
std::vector<std::string> RunningRecording::gaps_until(EventTime until_ns) {
  RecorderThread& recorder = means_.recorder;
  const EventTime after_ns = std::exchange(gaps_said_ns_, std::max(until_ns, gaps_said_ns_));
  // 0: how far back the rings reach now does not matter, because the part was read from them earlier.
  std::vector<std::string> out = recorder.gaps().warnings(std::min(after_ns, until_ns), until_ns, 0);
  append_texts(out, cpu_gap_warnings(recorder.attached()->manifest, std::min(after_ns, until_ns), until_ns,
                                     recorder.clock().history()));
  const EventTime recorded_until_ns = recorder.recorded_until_ns();
  if (recorder.broker_gone() && recorded_until_ns != UINT64_MAX)
    out.push_back(fmt::format("flightd-broker is gone since {}: nothing later is in this part",
                              recorder.clock().text_at(recorded_until_ns)));
  return out;
}

// The part after the committed one had no round and was removed, so the committed one is the last part: its sidecar
// gets what a last part has.
void RunningRecording::describe_last_again() {
  if (!committed_ || committed_->contents.record->ended || !unfinished_.empty()) return;
  Sidecar& contents = committed_->contents;
  contents.record->ended = std::string(to_string(*end_));
  append_texts(contents.warnings, warnings_);
  if (lost_behind_ > 0)
    contents.warnings.push_back(fmt::format("{} behind this part {} in no part", counted(lost_behind_, "event"),
                                            lost_behind_ == 1 ? "is" : "are"));
  if (auto done = files_.describe_again(committed_->name, contents); !done) callbacks_.warn(done.error());
}

// Called if the writer could not finish a part. The rounds that it wrote before the error are recovered.
void RunningRecording::rescue(OpenPart part, const Error& error, PartFacts facts) {
  failure_ = error;
  if (facts.rounds == 0) {
    files_.remove(part.seq);
    lost_behind_ += facts.lost_events;
    warnings_.push_back(error.what);
    return;
  }
  if (is_full(error.errno_value()))
    static_cast<void>(means_.store.make_more_part_room(std::min(part_bytes_, kRoomAtOnceBytes)));
  const auto journal = read_file(files_.place_of(part.folder) + "/" + part_file(PartFileKind::journal, part.seq));
  Result<Recovered> recovered = propagate(error);
  std::vector<int> more;
  for (const UniqueFd& file : part.more_again) more.push_back(file.get());
  if (journal) recovered = recover_what_fits(part.data_again.get(), std::as_bytes(std::span(*journal)), more);
  more.push_back(part.data_again.get());
  for (const int file : more) {
    if (!recovered) break;
    if (const auto synced = sync_data_now(file); !synced) recovered = propagate(synced.error());
  }
  if (!recovered) {
    unfinished_.push_back(part.seq);
    warnings_.push_back(
        fmt::format("part {} could not be finished: {}; flightd tries again", part.seq, recovered.error().what));
    return;
  }
  const bool holes_known = recovered->left_out == 0 && recovered->events == facts.events;
  facts.lost_events += facts.events - std::min(facts.events, recovered->events);
  facts.file_bytes = recovered->file_bytes;
  facts.expanded_bytes = recovered->expanded_bytes;
  facts.events = recovered->events;
  facts.first_ns = recovered->first_ns;
  facts.newest_ns = recovered->newest_ns;
  // The recovered file's list of build-ids is that of the part's beginning.
  if (const std::size_t late = part.context->file_texts().late_build_ids; late > 0)
    part.contents.notes.push_back(
        fmt::format("the build-ids of {} are not in this part: they were read when it ended", counted(late, "file")));
  commit(std::move(part), facts, holes_known);
}

}  // namespace flight::daemon
