// SPDX-License-Identifier: Apache-2.0
// The parts of a running recording: how each begins, and what becomes of it when it ends.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "daemon/recordings/running_recording.hpp"
#include "daemon/snapshots/cpu_gaps.hpp"
#include "daemon/snapshots/names.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/units.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/stream/recover.hpp"

namespace flight::daemon {
namespace {

// Between two parts. Each costs an export, three files, three fsync(2) and a vacuum.
constexpr EventTime kSwitchAgainNs = 1'000'000'000;

// Snapshots are not deleted for more than that at once, however large a part may become.
constexpr std::uint64_t kRoomAtOnceBytes = 64U << 20U;
constexpr std::uint64_t kLeastLeftBytes = 1U << 20U;  // of the budget, to begin a part

void append_texts(std::vector<std::string>& out, const std::vector<std::string>& more) {
  out.insert(out.end(), more.begin(), more.end());
}

}  // namespace

Result<std::optional<RecordingEnd>> RunningRecording::prepare_part() {
  auto room = means_.store.make_part_room(std::min(part_bytes_, kRoomAtOnceBytes), begun_free_bytes_);
  if (!room) return propagate(room.error());
  if (*room) {
    budget_ = *room;
    begun_free_bytes_ = begun_free_bytes_.value_or(budget_->free_bytes);
  }
  if (budget_ && budget_->left_bytes < kLeastLeftBytes) return RecordingEnd::budget;
  if (budget_ && budget_->max_files != 0 && part_number_ >= budget_->max_files) return RecordingEnd::budget;
  auto files = files_.make(order_.directory ? plan_.size() : 0);
  if (!files) return propagate(files.error());
  next_ = std::move(*files);
  return std::nullopt;
}

Result<void> RunningRecording::begin_part(EventTime since_ns) {
  PartFiles files = std::move(*next_);
  next_.reset();
  const std::uint64_t seq = files.seq;
  auto begun = begin_part(std::move(files), since_ns);
  if (!begun) files_.remove(seq);
  return begun;
}

Result<void> RunningRecording::begin_part(PartFiles files, EventTime since_ns) {
  RecorderThread& recorder = means_.recorder;
  auto answer = recorder.refresh_kernel();
  RecorderThread::WholeState whole = recorder.whole_state(since_ns);
  std::vector<std::string> warnings = std::exchange(whole.state.warnings, {});
  const std::vector<std::string> notes = std::exchange(whole.state.notes, {});
  auto symbols = take_kernel(recorder, std::move(answer), warnings);
  KernelWindow kernel = kernel_window(symbols->names, whole.at_ns, monotonic_now());
  auto context = std::make_shared<PartContext>(rings_, std::move(symbols), std::move(kernel), means_.host.again());
  name_files(recorder, ask_for_files(recorder), whole.state,
             [&context](const NamedMapping& mapping) { context->unread().note(mapping); });
  context->add_build_ids(whole.state.build_ids);
  context->names() = whole.names;

  const ClockHistory clock = recorder.clock().history();
  OpenPart part;
  part.seq = files.seq;
  part.number = part_number_ + 1;
  part.begun_ns = whole.at_ns;
  part.context = context;
  part.name = {.host = clean_host(context->host().host.hostname),
               .time = clock.wall_at(whole.at_ns),
               .trigger = std::string(kRecordTrigger),
               .seq = files.seq};
  Sidecar& contents = part.contents;
  contents = context->begun();
  contents.id = fmt::format("{}", files.seq);
  contents.path = files_.folder() + "/" + part.name.data_file();
  contents.record = SidecarRecord{
      .first = part.number == 1 ? contents.id : id(), .part = part.number, .ended = {}, .holes_known = false};
  contents.reason = order_.who.reason;
  contents.requests = {order_.who};
  contents.compression = order_.level == 0 ? "none" : "zstd";
  const TrackerStats& stats = whole.state.stats;
  contents.tracker = {.processes = stats.processes,
                      .exited = stats.exited,
                      .stale = stats.stale,
                      .evicted = stats.evicted,
                      .lost = stats.lost,
                      .unsure = stats.unsure};
  contents.window = contents.common_window = SidecarWindow::of(whole.at_ns, whole.at_ns, clock);
  append_texts(contents.warnings, warnings);
  append_texts(contents.notes, notes);
  part.sidecar = std::move(files.sidecar);
  part.folder = std::move(files.folder);
  if (auto again = duplicate_files(files, part); !again) return again;
  // Messages about files are only in the sidecar that is written now. When the part ends they are made again, because
  // more build-ids are known then.
  Sidecar begun = contents;
  append_texts(begun.warnings, whole.state.warnings);
  append_texts(begun.notes, whole.state.notes);
  if (auto described = PartStore::describe(part.sidecar.get(), begun); !described) return described;
  means_.store.hold_part(part.seq);
  seqs_.push_back(part.seq);
  keep_symbols(*context, contents);  // if this flightd is killed, the next one cannot read them any more

  PartStart start;
  start.data = std::move(files.data);
  start.journal = std::move(files.journal);
  start.more = std::move(files.more);
  start.events = rings_.events;
  for (std::size_t i = 0; i < rings_.rings.size(); ++i) start.channels.push_back(rings_.channel_of(i));
  start.features = context->features(clock.pair_at(monotonic_now()));
  start.more_build_ids = [context] { return context->more_build_ids(); };
  start.prologue = context->prologue(std::move(whole.state));
  start.sideband_from_ns = whole.at_ns;
  if (budget_) {
    start.most_bytes = std::min(part_bytes_, budget_->left_bytes);
    enough_bytes_ = writer_->progress().bytes + budget_->left_bytes;
  }
  std::optional<PartWriter::PartEnd> before;
  if (part_number_ > 0) before = end_of(open_.back().seq, open_.back().context);
  ++part_number_;
  {
    const std::lock_guard lock(mutex_);
    contexts_[part_number_] = std::move(context);
    if (id_.empty()) id_ = contents.id;
  }
  open_.push_back(std::move(part));
  writer_->begin(std::move(start), std::move(before));
  return {};
}

Result<void> RunningRecording::duplicate_files(const PartFiles& files, OpenPart& part) {
  const auto again = [](const UniqueFd& file) { return UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0)); };
  part.data_again = again(files.data);
  bool all = static_cast<bool>(part.data_again);
  for (const UniqueFd& file : files.more) {
    if (!all) break;
    all = static_cast<bool>(part.more_again.emplace_back(again(file)));
  }
  if (!all) return sys_error(errno, "duplicate the descriptor of a part");
  return {};
}

void RunningRecording::keep_symbols(const PartContext& context, const Sidecar& contents) const {
  const KernelSymbols& symbols = context.symbols();
  if (symbols.frame == nullptr || !contents.kallsyms || contents.kallsyms->empty()) return;
  if (auto kept = keep_kallsyms(files_.folder(), *contents.kallsyms, *symbols.frame); !kept)
    callbacks_.warn(kept.error());
}

PartWriter::PartEnd RunningRecording::end_of(std::uint64_t seq, std::shared_ptr<PartContext> context) {
  PartWriter::PartEnd out;
  out.features = [this, context = std::move(context)] { return last_features(*context); };
  out.ended = [this, seq](Result<void> outcome, PartFacts facts) {
    {
      const std::lock_guard lock(mutex_);
      ended_.push_back({.seq = seq, .outcome = std::move(outcome), .facts = std::move(facts)});
    }
    wake_.notify_one();
  };
  return out;
}

// The next part begins at the floor of the next round: no record of it is older (libcore/stream/round.hpp).
std::optional<RecordingEnd> RunningRecording::switch_part() {
  const auto refused = prepare_part();
  if (refused && *refused) return refused.value();
  Result<void> begun;
  if (refused)
    begun = begin_part(floor_ns());
  else
    begun = propagate(refused.error());
  switch_again_ns_ = clock_.now() + kSwitchAgainNs;
  if (begun) return std::nullopt;
  // The part goes on until there is a broker again that can make files, or the disk answers.
  if (may_begin_later(begun.error())) return std::nullopt;
  warnings_.push_back(begun.error().what);
  return RecordingEnd::disk;
}

// No record of a later round is older.
EventTime RunningRecording::floor_ns() const {
  const std::lock_guard lock(mutex_);
  return newest_before_ns_;
}

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

// A worker's thread.
void RunningRecording::take_round(Round round) {
  const bool has_records =
      std::any_of(round.rings.begin(), round.rings.end(), [](const RingRound& ring) { return !ring.blocks.empty(); });
  if (has_records) {
    const std::lock_guard lock(mutex_);
    newest_before_ns_ = std::exchange(newest_ns_, round.newest_ns);
  }
  writer_->write(std::move(round));
}

}  // namespace flight::daemon
