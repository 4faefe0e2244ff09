// SPDX-License-Identifier: Apache-2.0
// The process tracker's checkpoint: the data about exited processes for the next flightd of this boot, in a file of
// the runtime directory, which is in memory. Its one rule: a record is in the file before its ring may overwrite it.
// It also has the history of the wall clock (clock_history.hpp), in records of a type of their own.
//
//   tracker.checkpoint   header │ clock │ the process tracker as it was │ drained since: raw perf records, clock
//
// When the records have grown to the size of the checkpoint (least_growth_bytes to most_growth_bytes), a new file
// replaces it under the same name: one file is always complete up to its last write. Two halves that are used in turn
// would not work: state in the older half that is still needed would have to be copied. No sync: the file survives the
// death of a process, not of the machine. One thread at a time; it waits for the directory's file system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/clock_history.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

struct CheckpointLimits {
  std::size_t state_bytes = 4U << 20U;  // of a checkpoint, without the process tracker's log, which has its own limit
  std::size_t least_growth_bytes = 1U << 20U;
  std::size_t most_growth_bytes = 2U << 20U;
  EventTime retry_ns = 10'000'000'000;  // after an error

  [[nodiscard]] static CheckpointLimits of(std::uint64_t beside_rings_bytes) {
    const auto most = static_cast<std::size_t>(beside_rings_bytes / 24);
    return {.state_bytes = 2 * most,
            .least_growth_bytes = most < (1U << 20U) ? most : 1U << 20U,
            .most_growth_bytes = most};
  }
};

// The data of an earlier flightd.
struct CheckpointContents {
  std::string records;             // empty: there are none of this boot
  TrackerLosses losses;            // what the earlier tracker had dropped
  bool found = false;              // there is a checkpoint of this boot
  bool complete = true;            // false: writing it failed
  std::vector<ClockTriple> clock;  // for ClockHistory::restore(); empty in a checkpoint of an older flightd
};

class CheckpointFile {
 public:
  static constexpr std::string_view kName = "tracker.checkpoint";
  static constexpr std::string_view kNewName = "tracker.checkpoint.new";
  static constexpr std::size_t kMaxFileBytes = 64U << 20U;
  // After this many reads without a new checkpoint it is ignored: it may be the cause of the crashes.
  static constexpr std::uint32_t kMaxReadings = 5;

  // All triples of the clock. It is called once for each new file, on the thread of the call that writes the file.
  // An empty function: the new file has none.
  using ClockSource = std::function<std::vector<ClockTriple>()>;

  // Does nothing before the first call.
  CheckpointFile(std::string folder, std::string boot_id, CheckpointLimits limits = {});

  // Returns the records for ProcessTracker::replay(), and counts the read. Empty if there is no file, or one of
  // another boot or layout. An error if the file cannot be trusted (not a regular file, another owner, writable for
  // others, too large, not a checkpoint, read kMaxReadings times); the text gives the reason and says that names are
  // missing.
  [[nodiscard]] Result<CheckpointContents> read();

  // The following return an error once, and again only after a success; meanwhile trouble() has its text. Replaces the
  // file by a new one with everything in `tracker` and in `clock`.
  [[nodiscard]] Result<void> begin(const ProcessTracker& tracker, EventTime now_ns, const ClockSource& clock = {});
  // Appends drained `records`, which are added to the process tracker right after this. After an error nothing is
  // written until the next begin().
  [[nodiscard]] Result<void> append(const ProcessTracker& tracker, std::span<const std::byte> records);
  // Appends triples that are new since begin().
  [[nodiscard]] Result<void> append_clock(std::span<const ClockTriple> triples);
  // Calls begin() if it is due: the file has grown or was removed, or limits.retry_ns have passed since an error.
  [[nodiscard]] Result<void> keep_up(const ProcessTracker& tracker, EventTime now_ns, const ClockSource& clock = {});

  // The size of the file.
  [[nodiscard]] std::size_t bytes() const { return file_ ? checkpoint_bytes_ + grown_bytes_ : 0; }
  // Why no complete checkpoint exists; empty: it exists.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  [[nodiscard]] Result<void> write_new(const ProcessTracker& tracker, const ClockSource& clock);
  [[nodiscard]] Result<void> write(std::span<const std::byte> bytes);
  [[nodiscard]] Result<void> failed(const Error& error);
  void mark_incomplete() const;
  [[nodiscard]] bool is_gone() const;
  // Appends the state of processes that are in no checkpoint and exit in `records`.
  void append_ending(const ProcessTracker& tracker, std::span<const std::byte> records, RecordBuffer& out);

  std::string folder_, boot_id_;
  CheckpointLimits limits_;
  UniqueFd file_;  // invalid: not begun, or an error
  std::size_t checkpoint_bytes_ = 0, grown_bytes_ = 0;
  EventTime tried_ns_ = 0;
  std::unordered_set<std::uint32_t> unwritten_;  // as in CheckpointOmissions
  std::string trouble_;
};

}  // namespace flight
