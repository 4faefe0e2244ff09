// SPDX-License-Identifier: Apache-2.0
// What a running recording writes about processes and files: the sideband of each round, with the build-ids that are
// known then, and when a part ends, those that were read since.
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "daemon/recordings/running_recording.hpp"
#include "daemon/snapshots/names.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/perf/record.hpp"

namespace flight::daemon {
namespace {

constexpr EventTime kAskAgainNs = 1'000'000'000;
// While records are lost again and again, not each round waits for a scan: its blocks are in the pool meanwhile.
constexpr EventTime kWaitAgainNs = 5'000'000'000;

bool has_mappings(std::span<const std::byte> records) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    if (load<perf_event_header>(record.data()).type == PERF_RECORD_MMAP2) return true;
    records = records.subspan(record.size());
  }
  return false;
}

}  // namespace

const Result<KnownFiles>& RunningRecording::files_now() {
  known_files_ = ask_for_files(means_.recorder);
  files_again_ns_ = clock_.now() + kAskAgainNs;
  return *known_files_;
}

// Called when no older record than until_ns can come any more.
RecordBuffer RunningRecording::sideband(EventTime after_ns, EventTime until_ns) {
  std::shared_ptr<PartContext> context;
  const std::uint64_t number = writer_->progress().parts;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = contexts_.find(number); known != contexts_.end()) context = known->second;
  }
  FileNames none;
  FileNames& names = context ? context->names() : none;
  const EventTime asked_ns = clock_.now();
  auto [state, whole] = means_.recorder.sideband_between(after_ns, until_ns, names, asked_ns >= wait_again_ns_);
  if (names.all_lost) wait_again_ns_ = asked_ns + kWaitAgainNs;
  if (!context) return std::move(state.log);
  const EventTime now_ns = clock_.now();
  context->warn(state.warnings);
  if (whole || has_mappings(state.log)) {
    // The broker's thread has others to serve, and a machine may map files all the time. What was mapped since then is
    // looked at again when the part ends.
    const bool is_due = !known_files_ || now_ns >= files_again_ns_;
    const Result<KnownFiles>& known = is_due ? files_now() : *known_files_;
    name_files(means_.recorder, known, state,
               [&context](const NamedMapping& mapping) { context->unread().note(mapping); });
    context->add_build_ids(state.build_ids);
  }
  return context->records_of(std::move(state));
}

// Asks the broker now. For what it does not know yet, it reads files as for a snapshot, within its share of a CPU.
Features RunningRecording::last_features(PartContext& context) {
  const UnreadFiles& unread = context.unread();
  const Result<KnownFiles> nothing = KnownFiles();
  const Result<KnownFiles>& known = unread.empty() ? nothing : files_now();
  const UnreadFiles::Found found = unread.look_again(known ? *known : *nothing);
  FileMessages messages = messages_of(means_.recorder, known, found.named);
  if (unread.too_many())
    messages.notes.push_back(fmt::format(
        "more than {} files had no build-id when they were mapped: the others were not looked at again when this part "
        "ended",
        UnreadFiles::kMaxFiles));
  context.add_build_ids(found.build_ids);
  context.end_with({.warnings = std::move(messages.warnings),
                    .notes = std::move(messages.notes),
                    .late_build_ids = found.build_ids.size()});
  return context.features(means_.recorder.clock().history().pair_at(monotonic_now()));
}

}  // namespace flight::daemon
