// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/snapshot.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libcore/base/file_calls.hpp"
#include "libcore/base/steps.hpp"
#include "libcore/base/units.hpp"
#include "libcore/base/version.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/snapshot/clock_steps.hpp"
#include "libcore/snapshot/commit.hpp"
#include "libcore/snapshot/data_stream.hpp"
#include "libcore/snapshot/empty_chains.hpp"
#include "libcore/snapshot/exits.hpp"
#include "libcore/snapshot/fit.hpp"
#include "libcore/snapshot/kernel_strays.hpp"
#include "libcore/snapshot/kernel_window.hpp"
#include "libcore/snapshot/merge.hpp"
#include "libcore/snapshot/needed_forks.hpp"
#include "libcore/snapshot/recorded_cpus.hpp"
#include "libcore/snapshot/relabel.hpp"
#include "libcore/snapshot/symbol_ends.hpp"
#include "libcore/snapshot/top.hpp"
#include "libcore/snapshot/unknown_cgroups.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"

namespace flight {
namespace {

constexpr std::uint32_t kMaxRatio = 1'000'000;

std::uint64_t micros(EventTime from_ns, EventTime to_ns) { return to_ns > from_ns ? (to_ns - from_ns) / 1000 : 0; }

// Calls `visit` with each record and what is behind it; the first error ends it.
template <typename Visit>
Result<void> for_each_record(std::span<const std::byte> records, Visit&& visit) {
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (Result<void> visited = visit(record, records); !visited) return visited;
  }
  return {};
}

Result<void> stream_records(DataStream& stream, const Selection& selection, const TrackerExport& sideband,
                            const std::vector<KernelMap>& kernel_maps, EmptyChains& chains,
                            const OnProgress& progress) {
  RecordBuffer kernel;
  append_kernel_maps(kernel, kernel_maps);
  const auto append = [&](std::span<const std::byte> record, std::span<const std::byte>) {
    return stream.append(record);
  };
  if (auto appended = for_each_record(kernel, append); !appended) return appended;
  const NeededForks forks(sideband.prologue);
  const auto append_needed = [&](std::span<const std::byte> record, std::span<const std::byte> rest) -> Result<void> {
    return forks.has(record, rest) ? stream.append(record) : Result<void>();
  };
  if (auto appended = for_each_record(sideband.prologue, append_needed); !appended) return appended;
  std::vector<std::byte> init;
  append_finished_init(init);
  if (auto marked = stream.marker(init); !marked) return marked;

  std::uint64_t total = 1;
  for (const RingSelection& ring : selection.rings) total += ring.last - ring.first;
  std::uint64_t done = 0;
  const std::uint64_t step = std::max<std::uint64_t>(total / 20, 50'000);
  auto merged = merge_records(selection, sideband.log, [&](std::span<const std::byte> record) -> Result<void> {
    if (++done % step == 0) progress("writing", static_cast<unsigned>(std::min<std::uint64_t>(done * 100 / total, 99)));
    return stream.append(chains.fill(record));
  });
  if (!merged) return merged;
  return stream.round();
}

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
struct Part {
  Selection selection;
  TrackerExport sideband;
  KernelWindow kernel;
  EventTime merge_begin_ns = 0, write_begin_ns = 0;
  std::uint64_t raw_bytes = 0, plain_chunks = 0, file_bytes = 0;
  EventTime left_out_ns = 0;  // of the window, because the file would be too large
  bool synced = false;        // the file; false: its file system cannot do it
  bool compressed = false;    // with zstd
  std::string zstd_refused;   // why not, or not all of it, although it was wanted
};

Result<void> write_data(Part& part, const SnapshotOrder& order, const RecordingFacts& recording,
                        const CaptureFacts& capture, const SnapshotOutput& output, WorkerPool& workers,
                        StreamMemory& memory, const OnProgress& progress) {
  EmptyChains chains(recording.manifest, recording.events);
  std::vector<FileEvent> events = file_events(recording.manifest);
  chains.mark(events);
  sort_for_readers(events);
  auto writer = FileWriter::create(output.data.get(), std::move(events));
  if (!writer) return propagate(writer.error());
  writer->limit(order.max_bytes);
  const int level = order.compression == "none" ? 0 : order.compression_level;
  {
    DataStream stream(*writer, workers, memory, level);
    progress("writing", 0);
    auto streamed = stream_records(stream, part.selection, part.sideband, part.kernel.maps, chains, progress);
    auto closed = stream.close();
    part.raw_bytes = stream.raw_bytes();
    part.compressed = stream.compresses();
    part.zstd_refused = stream.refused();
    part.plain_chunks = stream.plain_chunks();
    if (!streamed || !closed) return propagate(streamed ? closed.error() : streamed.error());
  }
  after_step(Step::streamed);
  part.write_begin_ns = monotonic_now();
  Features features = file_features(recording.host, recording.manifest, part.kernel.maps, part.sideband.build_ids,
                                    capture.clock.pair_at(part.selection.end_ns));
  features.sample_time = part.selection.samples > 0
                             ? std::pair(part.selection.first_sample_ns, part.selection.last_sample_ns)
                             : std::pair(capture.frozen_ns, capture.frozen_ns);
  if (part.compressed) {
    const std::uint64_t ratio = part.raw_bytes / std::max<std::uint64_t>(writer->data_bytes(), 1);
    features.compressed =
        CompressedFeature{.level = static_cast<std::uint32_t>(level),
                          .ratio = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(ratio, 1, kMaxRatio)),
                          .mmap_bytes = static_cast<std::uint32_t>(kMaxExpandedBytes)};
  }
  progress("syncing", 99);
  if (auto finished = writer->finish(features); !finished) return finished;
  part.file_bytes = writer->file_bytes();
  if (order.max_bytes != 0 && part.file_bytes > order.max_bytes)
    return fail(std::errc::file_too_large, "the file has {} bytes", part.file_bytes);
  after_step(Step::finished);
  // Here, because NFS reports a full disk or quota only now.
  const auto synced = sync_data_now(output.data.get());
  if (!synced) return propagate(synced.error());
  part.synced = *synced;
  after_step(Step::data_synced);
  return {};
}

// Once more if the disk or a quota is full and older snapshots made room.
Result<void> write_data_with_room(Part& part, const SnapshotOrder& order, const RecordingFacts& recording,
                                  const CaptureFacts& capture, const SnapshotOutput& output, WorkerPool& workers,
                                  StreamMemory& memory, const OnProgress& progress) {
  auto written = write_data(part, order, recording, capture, output, workers, memory, progress);
  if (written || !order.make_room || !is_full(written.error().errno_value())) return written;
  struct stat info {};
  const int file = output.data.get();
  if (::fstat(file, &info) != 0 || ::ftruncate(file, 0) != 0) return written;
  if (!order.make_room(static_cast<std::uint64_t>(info.st_size))) return written;
  return write_data(part, order, recording, capture, output, workers, memory, progress);
}

// Writes the requested window, or as much of its newest part as fits.
Result<Part> write_part(const SnapshotOrder& order, const RecordingFacts& recording, const CaptureFacts& capture,
                        const SnapshotOutput& output, const TrackerQuery& tracker, WorkerPool& workers,
                        StreamMemory& memory, const OnProgress& progress) {
  WindowRequest window = order.window;
  EventTime wanted_begin_ns = 0;
  for (int attempt = 1;; ++attempt) {
    progress("walking", 0);
    Part part;
    part.selection =
        select(capture.staging.images(), recording.manifest, recording.channel_rings, recording.events, window,
               capture.frozen_ns, capture.blackouts, workers,
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
    if (auto log = exits_behind_samples(part.sideband.log, part.sideband.gaps, selection, recording.events, workers))
      part.sideband.log = std::move(*log);
    part.merge_begin_ns = monotonic_now();
    auto written = write_data_with_room(part, order, recording, capture, output, workers, memory, progress);
    if (attempt == 1) wanted_begin_ns = selection.begin_ns;
    part.left_out_ns = selection.begin_ns - std::min(wanted_begin_ns, selection.begin_ns);
    if (written) return part;
    const bool too_large = order.max_bytes != 0 && written.error().errno_value() == EFBIG;
    if (!too_large) return wrap(written.error(), "write {}/{}", output.folder, output.data_name);
    const std::uint64_t all_bytes = part.sideband.prologue.size() + part.sideband.log.size() + record_bytes(selection);
    const auto begin_ns = begin_that_fits(selection, part.raw_bytes, all_bytes);
    if (!begin_ns || attempt == kMaxFits)
      return fail(std::errc::file_too_large, "write {}/{}: even the newest {} exceed store.max_snapshot, {}; raise it",
                  output.folder, output.data_name,
                  format_duration(std::chrono::nanoseconds(selection.end_ns - selection.begin_ns)),
                  format_bytes(order.max_bytes));
    window.begin_ns = *begin_ns;
    if (::ftruncate(output.data.get(), 0) != 0)
      return sys_error(errno, "begin {}/{} again", output.folder, output.data_name);
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
  if (std::string cgroups = warn_of_cgroups(selection, sideband); !cgroups.empty())
    sidecar.warnings.push_back(std::move(cgroups));
  sidecar.notes = order.notes;
  sidecar.notes.insert(sidecar.notes.end(), sideband.notes.begin(), sideband.notes.end());
  sidecar.notes.insert(sidecar.notes.end(), part->kernel.notes.begin(), part->kernel.notes.end());
  if (recording.host.own_pid_namespace)
    sidecar.notes.push_back(fmt::format(
        "flightd runs in a container (a PID namespace of its own): all processes outside have the pid 0 and "
        "the name \"{}\", or \"{}\" where a sample shows that they are not idle; see `flightctl doctor`",
        kOutsideOrIdle, kOutsideName));
  if (std::string owner = owner_warning(output.data.get()); !owner.empty())
    sidecar.warnings.push_back(std::move(owner));
  if (part->plain_chunks > 0)
    sidecar.warnings.push_back(fmt::format("zstd failed on {}, stored without compression: {}",
                                           counted(part->plain_chunks, "chunk"), part->zstd_refused));
  else if (!part->zstd_refused.empty())
    sidecar.warnings.push_back(fmt::format("{}: stored without compression", part->zstd_refused));
  if (part->left_out_ns > 0)
    sidecar.warnings.push_back(
        fmt::format("its oldest {} are missing: otherwise it would be larger than store.max_snapshot, {}",
                    format_duration(std::chrono::nanoseconds(part->left_out_ns)), format_bytes(order.max_bytes)));
  sidecar.id = fmt::format("{}", output.seq);
  sidecar.path = output.folder + "/" + name.data_file();
  sidecar.compression = part->compressed ? "zstd" : "none";
  sidecar.size_bytes = part->file_bytes;
  sidecar.raw_bytes = part->raw_bytes;
  sidecar.rings = ring_rows(recording, capture, selection);
  describe_capture(sidecar, capture, selection);
  describe_clock(sidecar, capture.clock);
  sidecar.tracker = {.processes = sideband.stats.processes,
                     .exited = sideband.stats.exited,
                     .stale = sideband.stats.stale,
                     .evicted = sideband.stats.evicted,
                     .lost = sideband.stats.lost,
                     .unsure = sideband.stats.unsure};
  sidecar.compared = selection.compared;
  describe_cpus(recording.manifest, sidecar);
  Ranking ranking = rank(selection, recording.manifest, recording.channel_rings, recording.events, sideband,
                         recording.host.own_pid_namespace);
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
                        .merge = micros(part->merge_begin_ns, part->write_begin_ns),
                        .write = micros(part->write_begin_ns, end_ns),
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
  if (order.synced) order.synced(part->synced && *committed && synced.value_or(true));
  return sidecar;
}

}  // namespace flight
