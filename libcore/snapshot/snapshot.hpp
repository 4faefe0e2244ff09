// SPDX-License-Identifier: Apache-2.0
// The pipeline behind the freeze: images -> walk -> window -> sideband -> merge -> compress -> write -> commit.
// Runs on the snapshot worker, with the crew; nothing of it on the event loop.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/config/config.hpp"
#include "libcore/sideband/ledger.hpp"
#include "libcore/snapshot/crew.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/store/names.hpp"
#include "libcore/store/sidecar.hpp"

namespace flight {

// The recording that the images come from; constant between two attaches.
struct RecordingFacts {
  const Manifest& manifest;
  const std::vector<std::size_t>& channel_rings;  // manifest.rings index of each staged ring
  const EventTable& events;
  const HostFacts& host;
};

// One capture, done.
struct CaptureFacts {
  const Staging& staging;
  EventTime frozen_ns = 0;
  EventTime recorded_until_ns = UINT64_MAX;  // earlier: recording was paused, or the broker gone, at the freeze
  CaptureMode mode = CaptureMode::pause;
  const BlackoutLog& blackouts;     // earlier captures' and this one's
  std::vector<std::uint64_t> lost;  // of this capture's blackout, by staged ring
  bool lost_exact = true;
};

struct SnapshotOrder {
  std::string trigger = "manual";
  std::string reason;
  std::optional<SidecarFired> fired;      // of an automatic trigger
  std::optional<SidecarMetrics> metrics;  // as of the freeze
  std::vector<SidecarRequest> requests;
  WindowRequest window;
  EventTime requested_ns = 0;        // when the first asker asked
  std::string compression = "zstd";  // or "none"
  int compression_level = 1;
  // Of the file (store.max_snapshot): of a larger one the oldest part of the window is left out. 0: no limit.
  std::uint64_t max_bytes = 0;
  std::vector<std::string> warnings;  // known before: staging not locked, ledger stale …
};

// Where it goes: two empty .partial files in `folder`, renamed by the commit.
struct SnapshotOutput {
  UniqueFd data, sidecar;
  std::string data_name, sidecar_name;  // of the .partial files
  std::string folder;
  std::uint64_t seq = 0;
};

using LedgerQuery =
    std::function<LedgerExport(EventTime begin_ns, EventTime end_ns, std::unordered_set<std::uint32_t> pids)>;
using OnProgress = std::function<void(std::string_view step, unsigned percent)>;

// `ledger` is asked again for each window that is tried. On success both files have their final names and are durable.
// On an error (disk full, I/O error) neither has; the .partial files are unlinked. The error carries the errno.
[[nodiscard]] Result<Sidecar> write_snapshot(const SnapshotOrder& order, const RecordingFacts& recording,
                                             const CaptureFacts& capture, SnapshotOutput output,
                                             const LedgerQuery& ledger, Crew& crew, const OnProgress& progress);

// /proc/kallsyms' text as one zstd frame: a tenth of its 10 MB, so it can be kept in memory until a snapshot needs it.
[[nodiscard]] Result<std::vector<std::byte>> pack_kallsyms(std::string_view text);
// Keeps this boot's kernel symbols beside the snapshots, once: kallsyms-BOOTID.zst, 0640. False: it is there already.
[[nodiscard]] Result<bool> keep_kallsyms(const std::string& folder, const std::string& boot_id,
                                         std::span<const std::byte> frame);

}  // namespace flight
