// SPDX-License-Identifier: Apache-2.0
// What the file and the sidecar of one part say besides its records.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/recorder/kernel_symbols.hpp"
#include "daemon/recordings/recorded_rings.hpp"
#include "daemon/recordings/unread_files.hpp"
#include "libcore/base/clock_history.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/snapshot/kernel_window.hpp"
#include "libcore/store/sidecar.hpp"
#include "libcore/stream/part_file.hpp"

namespace flight::daemon {

// The facts of one part. The recording's thread and the writer's thread share them; the writer's thread adds the names
// and the build-ids that come with the sideband.
class PartContext {
 public:
  PartContext(RecordedRings rings, std::shared_ptr<const KernelSymbols> symbols, KernelWindow kernel, HostFacts host)
      : rings_(std::move(rings)), symbols_(std::move(symbols)), kernel_(std::move(kernel)), host_(std::move(host)) {}

  [[nodiscard]] const RecordedRings& rings() const { return rings_; }
  [[nodiscard]] const KernelSymbols& symbols() const { return *symbols_; }
  [[nodiscard]] const KernelWindow& kernel() const { return kernel_; }
  [[nodiscard]] const HostFacts& host() const { return host_; }

  // The first records of the file, from the tracker's whole state.
  [[nodiscard]] RecordBuffer prologue(TrackerExport state) const;
  // The same for the records of a round, from a log with build-ids; a state in between, which has times, is before it.
  [[nodiscard]] RecordBuffer records_of(TrackerExport state) const;
  // Any thread: what the sidecar says about names, each text once, at most kMaxWarnings of them.
  static constexpr std::size_t kMaxWarnings = 16;
  void warn(const std::vector<std::string>& warnings);
  [[nodiscard]] std::vector<std::string> warnings() const;
  // Until the part is given to the writer, the recording's thread; then the writer's.
  [[nodiscard]] UnreadFiles& unread() { return unread_; }
  // The same.
  [[nodiscard]] FileNames& names() { return names_; }
  // Any thread: what the sidecar says about files without a build-id when the part has ended, besides warnings().
  struct FileTexts {
    std::vector<std::string> warnings, notes;
    std::size_t late_build_ids = 0;  // number of those that only the file's BUILD_ID section has
  };
  void end_with(FileTexts texts);
  [[nodiscard]] FileTexts file_texts() const;
  // Any thread: files that were mapped.
  void add_build_ids(const std::vector<TrackerExport::UserBuildId>& found);
  [[nodiscard]] Features features(const ClockPair& clock);
  // Any thread: those that were added since the last call of this or of features().
  [[nodiscard]] std::vector<FileBuildId> more_build_ids();

  // What is known when the part begins; `size_bytes` and all times come later.
  [[nodiscard]] Sidecar begun() const;

 private:
  void fit(TrackerExport& state) const;

  const RecordedRings rings_;
  const std::shared_ptr<const KernelSymbols> symbols_;
  const KernelWindow kernel_;
  const HostFacts host_;
  UnreadFiles unread_;
  FileNames names_;
  mutable std::mutex mutex_;
  FileTexts file_texts_;                               // under mutex_
  std::vector<std::string> warnings_;                  // under mutex_
  std::vector<TrackerExport::UserBuildId> build_ids_;  // under mutex_
  std::set<std::string> listed_;                       // their names and ids; under mutex_
  std::size_t taken_ids_ = 0;                          // so many of build_ids_ were taken; under mutex_
};

// `more` after those of `out`.
void append_texts(std::vector<std::string>& out, const std::vector<std::string>& more);

[[nodiscard]] SidecarHole sidecar_hole(std::string channel, int cpu, const Hole& hole);

// Fills in what the finished file has: its size, its window, its holes, beside those that `out` has already. `at_ns`:
// the window of a part without records.
void describe_part(Sidecar& out, const PartFacts& facts, const RecordedRings& rings, const ClockHistory& clock,
                   EventTime at_ns);

}  // namespace flight::daemon
