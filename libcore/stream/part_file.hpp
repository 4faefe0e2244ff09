// SPDX-License-Identifier: Apache-2.0
// One part of a recording that is being written: a perf.data file of its own.
//
//   | header, attrs | prologue | round: sideband, blocks by CPU, FINISHED_ROUND | round … |  features, when it ends
//                                                                            journal: an entry after each round
//
// Or it is a data directory: the file above is `data`, without blocks and without FINISHED_ROUND, since perf sorts what
// a directory has as a whole; the blocks are in data.0, data.1 …, a file for each worker.
//
// The file and its journal are such that recover() can finish it whenever its writer is killed. If the disk refuses
// something, the round is cut off again, and nothing more is written: finish() can still make a whole file of the
// rounds before. If it refuses fdatasync(2), it is not known how much of the rounds since the last sync is on the
// disk: all of these are cut off. One thread at a time, the writer's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/perfdata/features.hpp"
#include "libcore/perfdata/writer.hpp"
#include "libcore/stream/bare_files.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/journal.hpp"
#include "libcore/stream/round.hpp"

namespace flight {

// The records about processes and code with times in (from_ns, until_ns], in order. They are not asked for again, so it
// waits until the rings of the sideband have been drained once more: PartWriter calls it when until_ns is kSettleNs
// ago, and then they hold all of these records. It may add older ones that it has only now; perf's order (round.hpp)
// allows those that are not older than from_ns of the call before.
using SidebandSource = std::function<RecordBuffer(EventTime from_ns, EventTime until_ns)>;

struct PartStart {
  UniqueFd data, journal;               // empty files
  std::vector<UniqueFd> more{};         // the same, of a directory: data.0, data.1 … by worker; none: it is one file
  std::vector<FileEvent> events;        // all whose records rings, prologue and sideband have
  Features features;                    // as they are known now, for recover(); COMPRESSED and SAMPLE_TIME are added
  std::vector<std::string> channels{};  // of the rings, by number: for the holes in the journal
  // Called with each round, behind its sideband: those that `features` does not have, each once. None: there are none.
  std::function<std::vector<FileBuildId>()> more_build_ids{};
  RecordBuffer prologue;           // the process tracker's whole state, as perf must know it before the first sample
  EventTime sideband_from_ns = 0;  // the prologue's moment: at most the time of the first record
  std::optional<std::uint64_t> most_bytes{};                   // of this part, if less than PartLimits::file_bytes
  std::function<Result<bool>(int file)> sync = sync_data_now;  // of the data; tests have their own
};

struct PartLimits {
  std::uint64_t file_bytes = 64U << 20U;     // on the disk
  std::uint64_t expanded_bytes = 1U << 30U;  // perf keeps all of it in memory
  std::uint64_t rounds = 1U << 20U;          // a journal of 48 MiB, besides its facts: fewer of a directory
};

struct PartFacts {
  static constexpr std::size_t kMaxHoles = kMaxListedHoles;
  struct RingHole {
    std::size_t ring = 0;
    int cpu = 0;
    Hole hole;
  };

  std::uint64_t file_bytes = 0, expanded_bytes = 0;
  std::uint64_t events = 0;  // samples of rings that are in the file
  std::uint64_t rounds = 0;
  EventTime first_ns = 0, newest_ns = 0;          // of the records of rings; 0: there is none
  std::uint64_t lost_events = 0, lost_bytes = 0;  // of all holes
  std::vector<RingHole> holes;
  std::uint64_t holes_left_out = 0;  // above kMaxHoles; they are counted above
};

class PartFile {
 public:
  // Writes header, attrs and prologue. `chunks` has begun, at the level of the workers'; it must outlive the part, and
  // is not used by others.
  [[nodiscard]] static Result<PartFile> create(PartStart start, Chunks& chunks);

  // The records of a round that is not in the file afterwards become holes with the cause `disk`. Returns the disk's
  // error, and the same for all later rounds.
  [[nodiscard]] Result<void> write(const Round& round, const SidebandSource& sideband);
  // fdatasync(2) of the data, then of the journal. An error is that of all later rounds, too. The kernel reports it
  // only once, and then takes the pages for written: after an error of the data, the records of all rounds since the
  // last sync() become holes with the cause `disk`.
  [[nodiscard]] Result<void> sync();
  // Rounds were written since sync().
  [[nodiscard]] bool is_unsynced() const { return !unsynced_.empty(); }
  // Syncs, cuts off what is not in whole rounds, appends the features, mends the header, and syncs these. After an
  // error it can be tried again, except if that was the last step.
  [[nodiscard]] Result<void> finish(Features features);

  [[nodiscard]] const PartFacts& facts() const { return facts_; }
  // A part has at least one round, and at least as much of rounds as of the prologue: on a machine with many processes
  // the prologue alone may be larger than a limit, and each part begins with one. The journal's entries of a directory
  // are longer, and it has notes, too.
  [[nodiscard]] bool is_full(const PartLimits& limits) const {
    if (facts_.rounds == 0) return false;
    return facts_.file_bytes >= std::max(limits.file_bytes, 2 * begun_.file_bytes) ||
           facts_.expanded_bytes >= std::max(limits.expanded_bytes, 2 * begun_.expanded_bytes) ||
           journal_.bytes() >= limits.rounds * kJournalEntryBytes;
  }

 private:
  // The file after a round.
  struct Mark {
    std::uint64_t data_bytes = 0, expanded_bytes = 0, events = 0, rounds = 0;
    EventTime first_ns = 0, newest_ns = 0;
    Journal::Mark journal{};
    std::vector<std::uint64_t> more_bytes{};  // of a directory: of data.0, data.1 …
  };

  PartFile(PartStart start, FileWriter writer, Journal journal, Chunks& chunks);
  [[nodiscard]] Result<void> write_round(const Round& round, const SidebandSource& sideband);
  void pack(std::span<const std::byte> records);
  void put_chunk();
  void write_out();
  void go_to(const Mark& mark);
  [[nodiscard]] JournalNotes notes_for_journal() const;
  void lose(const Round& round);
  void lose_unsynced();
  void add_hole(std::size_t ring, int cpu, const Hole& hole);

  UniqueFd data_;
  std::function<Result<bool>(int file)> sync_;
  FileWriter writer_;
  BareFiles bare_;
  Journal journal_;
  std::vector<std::string> channels_;
  std::function<std::vector<FileBuildId>()> more_build_ids_;
  std::size_t journaled_holes_ = 0;       // so many of facts_.holes are in the journal,
  std::uint64_t journaled_left_out_ = 0;  // and of those that are not listed
  Chunks* chunks_;
  std::size_t enough_ = kFirstChunkBytes;  // of a chunk of the sideband
  EventTime sideband_ns_;                  // it is in the file up to here
  std::vector<std::byte> waiting_;         // bytes for the file, whole records
  std::uint64_t expanded_bytes_ = 0;       // with what is waiting
  Result<void> outcome_;                   // of the disk
  Result<void> finished_;                  // of the last step of finish()
  Mark written_;                           // after the last round that stays in the file
  Mark synced_;                            // as of the last sync(); in the beginning nothing is on the disk for sure
  std::vector<PartFacts::RingHole> unsynced_;  // what was written since then, of each ring as one hole
  PartFacts facts_;
  PartLimits begun_;  // what header, attrs and prologue have
};

}  // namespace flight
