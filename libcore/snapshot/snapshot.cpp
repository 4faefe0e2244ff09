// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/snapshot.hpp"

#include <algorithm>
#include <cerrno>

#include "libcore/base/steps.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/version.hpp"
#include "libcore/snapshot/clock_steps.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/snapshot/exits.hpp"
#include "libcore/snapshot/fit.hpp"
#include "libcore/snapshot/kernel_strays.hpp"
#include "libcore/snapshot/kernel_window.hpp"
#include "libcore/snapshot/recorded_cpus.hpp"
#include "libcore/snapshot/relabel.hpp"
#include "libcore/snapshot/symbol_ends.hpp"
#include "libcore/snapshot/top.hpp"
#include "libcore/snapshot/unknown_cgroups.hpp"
#include "libcore/snapshot/write_data.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"

namespace flight {
namespace {

std::uint64_t micros(EventTime from_ns, EventTime to_ns) { return to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0; }

// The bytes that the copy of a running ring dropped at its oldest end.
std::uint64_t given_up_bytes(const RingImage& image) {
  const std::uint64_t held = std::min<std::uint64_t>(image.bytes.size(), std::uint64_t{0} - image.head);
  return held - std::min(held, image.valid_bytes);
}

std::vector<SidecarRing> ring_rows(const RecordingFacts& recording, const CaptureFacts& capture,
                                   const Selection& selection) {
  std::vector<SidecarRing> out;
  for (std::size_t i = 0; i < selection.rings.size(); ++i) {
    const RingSelection& ring = selection.rings[i];
    const ManifestRing& info = recording.manifest.rings[recording.channel_rings[i]];
    const RingCapture& result = capture.staging.result(i);
    SidecarRing& row = out.emplace_back();
    row.channel = info.channel;
    row.cpu = info.cpu;
    row.ring_bytes = info.ring_bytes;
    if (!ring.walk.records.empty()) {
      row.oldest_ns = ring.walk.records.front().time_ns;
      row.newest_ns = ring.walk.records.back().time_ns;
    }
    row.records = ring.last - ring.first;
    row.samples = ring.samples;
    row.record_bytes = ring.record_bytes;
    row.blackout_us = static_cast<double>(result.pause_end_ns - result.pause_begin_ns) / 1000.0;
    row.lost = i < capture.lost.size() ? capture.lost[i] : 0;
    row.torn_bytes = ring.walk.torn_bytes + given_up_bytes(ring.image);
    row.unknown_ids = ring.walk.unknown_ids;
  }
  return out;
}

// Whether the error came from the resume, not from the pause.
bool result_resumed_badly(const CaptureFacts& capture, std::size_t ring) {
  return capture.staging.result(ring).pause_end_ns != 0;
}

void describe_capture(Sidecar& out, const CaptureFacts& capture, const Selection& selection) {
  const ClockHistory& clock = capture.clock;
  out.capture = std::string(to_string(capture.mode));
  out.samples = selection.samples;
  out.window = SidecarWindow::of(selection.begin_ns, selection.end_ns, clock);
  const EventTime common_end_ns =
      std::clamp(capture.recorded_until_ns, selection.begin_ns, std::max(selection.begin_ns, selection.end_ns));
  out.common_window = SidecarWindow::of(std::min(selection.common_begin_ns, common_end_ns), common_end_ns, clock);
  for (const SidecarRing& ring : out.rings) {
    out.blackout.max_us = std::max(out.blackout.max_us, ring.blackout_us);
    out.blackout.lost += ring.lost;
  }
  out.blackout.lost_exact = capture.lost_exact;
  out.holes = selection.holes;
  for (std::size_t i = 0; i < capture.staging.size(); ++i) {
    const int refused = capture.staging.result(i).error_number;
    if (refused != 0 && result_resumed_badly(capture, i)) {
      out.errors.push_back(
          fmt::format("ring {} of channel {} could not be resumed ({}): it records nothing until "
                      "flightd is restarted",
                      i, out.rings[i].channel, std::generic_category().message(refused)));
    } else if (refused != 0)
      out.warnings.push_back(fmt::format("ring {} of channel {} could not be paused ({}) and was copied live", i,
                                         out.rings[i].channel, std::generic_category().message(refused)));
    if (selection.rings[i].image.valid_bytes == 0)
      out.warnings.push_back(
          fmt::format("ring of channel {}, CPU {}: it was overwritten faster than it could be copied live, so nothing "
                      "of its {} is in the file; use a larger ring or the capture \"pause\"",
                      out.rings[i].channel, out.rings[i].cpu, format_bytes(out.rings[i].ring_bytes)));
    if (selection.rings[i].walk.bad_records > 0)
      out.warnings.push_back(fmt::format("ring of channel {}, CPU {}: {} left out", out.rings[i].channel,
                                         out.rings[i].cpu,
                                         counted(selection.rings[i].walk.bad_records, "damaged record")));
  }
}

void describe_host(Sidecar& out, const SnapshotOrder& order, const RecordingFacts& recording) {
  out.host = clean_host(recording.host.host.hostname);
  out.boot_id = recording.manifest.boot_id;
  out.kernel = recording.host.host.os_release;
  out.kallsyms = recording.kallsyms;
  out.version = kVersion;
  out.config_digest = recording.manifest.config_digest;
  out.trigger = order.trigger;
  out.test = order.test;
  out.reason = order.reason;
  out.recording = order.recording;
  out.fired = order.fired;
  out.metrics = order.metrics;
  out.requests = order.requests;
  out.warnings = order.warnings;
  out.errors = order.errors;
}

// The result of one window.
struct WrittenPart {
  Selection selection;
  TrackerExport sideband;
  KernelWindow kernel;
  EventTime merge_begin_ns = 0;
  WrittenData data;
  EventTime left_out_ns = 0;  // of the window, because the file would be too large
};

// Writes the requested window, or as much of its newest part as fits.
Result<WrittenPart> write_part(const SnapshotOrder& order, const RecordingFacts& recording, const CaptureFacts& capture,
                               const SnapshotOutput& output, const TrackerQuery& tracker, WorkerPool& workers,
                               StreamMemory& memory, const OnProgress& progress) {
  WindowRequest window = order.window;
  EventTime wanted_begin_ns = 0;
  std::vector<WalkedRing> walked;
  for (int attempt = 1;; ++attempt) {
    progress("walking", 0);
    if (attempt == 1)
      walked = walk_rings(capture.staging.images(), recording.manifest, recording.channel_rings, recording.events,
                          capture.frozen_ns, workers);
    WrittenPart part;
    part.selection = select_from(
        std::move(walked), recording.manifest, recording.channel_rings, recording.events, window, capture.frozen_ns,
        capture.blackouts, workers,
        {.since_ns = order.fired ? order.fired->since_ns : 0, .recorded_until_ns = capture.recorded_until_ns});
    Selection& selection = part.selection;
    selection.pauses = order.pauses;
    after_step(Step::walked);
    part.sideband = tracker(selection.begin_ns, selection.end_ns, selection.pids, selection.cgroups);
    if (recording.host.own_pid_namespace)
      append_outside(part.sideband.prologue);
    else if (selection.tids.contains(UINT32_MAX))
      append_exiting(part.sideband.prologue);
    part.kernel = kernel_window(recording.kernel, selection.begin_ns, selection.end_ns);
    drop_strays(part.kernel, selection);
    fit_symbols(part.sideband.prologue, part.sideband.log, part.kernel);
    after_step(Step::exported);
    relabel(part.sideband.log, recording.manifest, recording.events);
    if (auto log = exits_behind_samples(part.sideband.log, part.sideband.gaps, selection, workers))
      part.sideband.log = std::move(*log);
    part.merge_begin_ns = monotonic_now();
    const DataToWrite what{.selection = selection,
                           .sideband = part.sideband,
                           .kernel_maps = part.kernel.maps,
                           .recording = recording,
                           .capture = capture};
    auto written = write_data(part.data, what, order, output, workers, memory, progress);
    if (attempt == 1) wanted_begin_ns = selection.begin_ns;
    part.left_out_ns = selection.begin_ns - std::min(wanted_begin_ns, selection.begin_ns);
    if (written) return part;
    const bool too_large = order.max_bytes != 0 && written.error().errno_value() == EFBIG;
    if (!too_large) return wrap(written.error(), "write {}/{}", output.folder, output.data_name);
    const std::uint64_t all_bytes = part.sideband.prologue.size() + part.sideband.log.size() + record_bytes(selection);
    const auto begin_ns = begin_that_fits(selection, part.data.raw_bytes, all_bytes);
    if (!begin_ns || attempt == kMaxFits)
      return fail(std::errc::file_too_large, "write {}/{}: even the newest {} exceed store.max_snapshot, {}; raise it",
                  output.folder, output.data_name,
                  format_duration(std::chrono::nanoseconds(selection.end_ns - selection.begin_ns)),
                  format_bytes(order.max_bytes));
    window.begin_ns = *begin_ns;
    if (auto emptied = empty_data(output); !emptied)
      return wrap(emptied.error(), "begin {}/{} again", output.folder, output.data_name);
    walked = take_walked(selection);
  }
}

}  // namespace

Result<Sidecar> write_snapshot(const SnapshotOrder& order, const RecordingFacts& recording, const CaptureFacts& capture,
                               SnapshotOutput output, const TrackerQuery& tracker, WorkerPool& workers,
                               StreamMemory& memory, const OnProgress& progress) {
  const EventTime walk_begin_ns = monotonic_now();
  PartialFiles partial(output.folder, {output.sidecar_name, output.data_name});

  auto part = write_part(order, recording, capture, output, tracker, workers, memory, progress);
  if (!part) return propagate(part.error());
  const Selection& selection = part->selection;
  const TrackerExport& sideband = part->sideband;

  const SnapshotName name{.host = clean_host(recording.host.host.hostname),
                          .time = capture.clock.wall_at(capture.frozen_ns),
                          .trigger = order.trigger,
                          .seq = output.seq};
  Sidecar sidecar;
  describe_host(sidecar, order, recording);
  // First, so that readers see which names are uncertain.
  sidecar.warnings.insert(sidecar.warnings.begin(), sideband.warnings.begin(), sideband.warnings.end());
  sidecar.warnings.insert(sidecar.warnings.end(), part->kernel.warnings.begin(), part->kernel.warnings.end());
  sidecar.notes = order.notes;
  sidecar.notes.insert(sidecar.notes.end(), sideband.notes.begin(), sideband.notes.end());
  sidecar.notes.insert(sidecar.notes.end(), part->kernel.notes.begin(), part->kernel.notes.end());
  describe_cgroups(sidecar, selection, sideband);
  if (recording.host.own_pid_namespace)
    sidecar.notes.push_back(fmt::format(
        "flightd runs in a container (a PID namespace of its own): all processes outside have the pid 0 and "
        "the name \"{}\", or \"{}\" where a sample shows that they are not idle; see `flightctl doctor`",
        kOutsideOrIdle, kOutsideName));
  if (std::string owner = owner_warning(output.data.get()); !owner.empty())
    sidecar.warnings.push_back(std::move(owner));
  if (part->data.plain_chunks > 0)
    sidecar.warnings.push_back(fmt::format("zstd failed on {}, stored without compression: {}",
                                           counted(part->data.plain_chunks, "chunk"), part->data.zstd_refused));
  else if (!part->data.zstd_refused.empty())
    sidecar.warnings.push_back(fmt::format("{}: stored without compression", part->data.zstd_refused));
  if (part->left_out_ns > 0)
    sidecar.warnings.push_back(
        fmt::format("its oldest {} are missing: otherwise it would be larger than store.max_snapshot, {}",
                    format_duration(std::chrono::nanoseconds(part->left_out_ns)), format_bytes(order.max_bytes)));
  sidecar.id = fmt::format("{}", output.seq);
  sidecar.path = output.folder + "/" + name.data_file();
  sidecar.compression = part->data.compressed ? "zstd" : "none";
  sidecar.size_bytes = part->data.file_bytes;
  sidecar.raw_bytes = part->data.raw_bytes;
  sidecar.rings = ring_rows(recording, capture, selection);
  describe_capture(sidecar, capture, selection);
  describe_clock(sidecar, capture.clock);
  sidecar.tracker = {.processes = sideband.stats.processes,
                     .exited = sideband.stats.exited,
                     .stale = sideband.stats.stale,
                     .evicted = sideband.stats.evicted,
                     .lost = sideband.stats.lost,
                     .unsure = sideband.stats.unsure};
  if (part->data.stacks.checked + part->data.stacks.unchecked > 0) sidecar.stacks = part->data.stacks;
  sidecar.compared = selection.compared;
  describe_cpus(recording.manifest, sidecar);
  Ranking ranking =
      rank(selection, recording.manifest, recording.channel_rings, sideband, recording.host.own_pid_namespace);
  sidecar.top_units = std::move(ranking.units);
  sidecar.top_programs = std::move(ranking.programs);
  sidecar.top = std::move(ranking.processes);
  sidecar.forks = std::move(ranking.forks);
  sidecar.warnings.insert(sidecar.warnings.begin() + static_cast<std::ptrdiff_t>(sideband.warnings.size()),
                          ranking.warnings.begin(), ranking.warnings.end());
  const EventTime end_ns = monotonic_now();
  sidecar.timings_us = {.queued = micros(order.requested_ns, capture.frozen_ns),
                        .freeze = 0,
                        .walk = micros(walk_begin_ns, part->merge_begin_ns),
                        .merge = micros(part->merge_begin_ns, part->data.write_begin_ns),
                        .write = micros(part->data.write_begin_ns, end_ns),
                        .total = micros(order.requested_ns, end_ns)};
  EventTime last_resume_ns = capture.frozen_ns;
  for (std::size_t i = 0; i < capture.staging.size(); ++i)
    last_resume_ns = std::max(last_resume_ns, capture.staging.result(i).pause_end_ns);
  sidecar.timings_us.freeze = micros(capture.frozen_ns, last_resume_ns);

  const auto committed = commit(output, name, to_json(sidecar), order.make_room);
  if (!committed) return propagate(committed.error());
  partial.keep();
  // Only a warning, because the snapshot is not lost: both files are complete and have their names.
  const auto synced = sync_folder(output.folder);
  if (!synced)
    sidecar.warnings.push_back(synced.error().what +
                               "; the snapshot exists, but a power failure now may remove its name");
  if (order.synced) order.synced(part->data.synced && *committed && synced.value_or(true));
  return sidecar;
}

}  // namespace flight
