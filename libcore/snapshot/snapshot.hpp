// SPDX-License-Identifier: Apache-2.0
// The pipeline after the freeze: images -> walk -> window -> sideband -> merge -> compress -> write -> commit. Runs on
// the snapshot worker and the workers, never on the event loop.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock_history.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/config/config.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/snapshot/stream_memory.hpp"
#include "libcore/snapshot/worker_pool.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// The recording of the images; constant between two attaches.
struct RecordingFacts {
  const Manifest& manifest;
  const std::vector<std::size_t>& channel_rings;  // manifest.rings index of each staged ring
  const EventTable& events;
  const HostFacts& host;
  const KernelNames& kernel;
  std::string kallsyms;  // the file in the store with this kernel's symbols; empty: there is none
};

// One finished capture.
struct CaptureFacts {
  const Staging& staging;
  EventTime frozen_ns = 0;
  EventTime recorded_until_ns = UINT64_MAX;  // since when nothing was recorded: paused, or no broker; UINT64_MAX: never
  CaptureMode mode = CaptureMode::pause;
  const BlackoutLog& blackouts;     // of earlier captures and this one
  std::vector<std::uint64_t> lost;  // of this capture's blackout, by staged ring
  bool lost_exact = true;
  ClockHistory clock = ClockHistory(ClockPair::now());  // until the freeze
};

struct SnapshotOrder {
  std::string trigger = "manual";
  bool test = false;  // as in the sidecar
  std::string reason;
  std::string recording;                  // as in the sidecar
  std::optional<SidecarFired> fired;      // of an automatic trigger
  std::optional<SidecarMetrics> metrics;  // at the freeze
  std::vector<SidecarRequest> requests;
  WindowRequest window;
  EventTime requested_ns = 0;        // when the first request was made
  std::vector<Pause> pauses;         // as in Selection
  std::string compression = "zstd";  // or "none"
  int compression_level = 1;
  // Size limit of the file (store.max_snapshot): if it is exceeded, the oldest part of the window is left out. 0: no
  // limit.
  std::uint64_t max_bytes = 0;
  // Called if the disk or a quota is full, which may be reported only when the data or the sidecar is synced. The file
  // was emptied, and `needed_bytes` more must be free for it, as far as is known. True: there is room now, write it
  // again. Empty: never.
  std::function<bool(std::uint64_t needed_bytes)> make_room;
  // Called when it is written. False: the file system cannot sync its files or its directory. Empty: never.
  std::function<void(bool)> synced;
  std::vector<std::string> warnings;  // known before: staging not locked, tracker stale …
  std::vector<std::string> errors;    // the same
  std::vector<std::string> notes;
};

// The output: two empty .partial files in `folder`, renamed by the commit. The data may be a data directory, which is
// then called data_name: `data` is its file of that name, `more` are the others.
struct SnapshotOutput {
  UniqueFd data, sidecar;
  std::string data_name, sidecar_name;  // of the .partial files
  std::string folder;
  std::uint64_t seq = 0;
  std::vector<UniqueFd> more{};  // data.0, data.1 …; none: the data is a file
};

// `pids` and `cgroups`: those with samples.
using TrackerQuery =
    std::function<TrackerExport(EventTime begin_ns, EventTime end_ns, const std::unordered_set<std::uint32_t>& pids,
                                const std::unordered_set<std::uint64_t>& cgroups)>;
using OnProgress = std::function<void(std::string_view step, unsigned percent)>;

// `tracker` is called for each window that is tried. On success both files have their final names and are durable. On
// an error (disk full, I/O error) neither has; the .partial files are unlinked. The error contains the errno.
[[nodiscard]] Result<Sidecar> write_snapshot(const SnapshotOrder& order, const RecordingFacts& recording,
                                             const CaptureFacts& capture, SnapshotOutput output,
                                             const TrackerQuery& tracker, WorkerPool& workers, StreamMemory& memory,
                                             const OnProgress& progress);

// The text of /proc/kallsyms as one zstd frame: a tenth of its 10 MB, so it can be kept in memory until a snapshot
// needs it.
[[nodiscard]] Result<std::vector<std::byte>> pack_kallsyms(std::string_view text);
// Writes such a frame beside the snapshots as `file` (kallsyms_file()), once, 0640. False: it exists already.
// Any thread.
[[nodiscard]] Result<bool> keep_kallsyms(const std::string& folder, const std::string& file,
                                         std::span<const std::byte> frame);

}  // namespace flight
