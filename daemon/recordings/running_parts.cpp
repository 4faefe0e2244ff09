// SPDX-License-Identifier: Apache-2.0
// The parts of a running recording: how each begins. What becomes of them is in running_ends.cpp.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/recordings/running_recording.hpp"
#include "daemon/snapshots/names.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight::daemon {
namespace {

// Between two parts. Each costs an export, three files, three fsync(2) and a vacuum.
constexpr EventTime kSwitchAgainNs = 1'000'000'000;
constexpr std::uint64_t kLeastLeftBytes = 1U << 20U;  // of the budget, to begin a part

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
