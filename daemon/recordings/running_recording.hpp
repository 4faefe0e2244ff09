// SPDX-License-Identifier: Apache-2.0
// One recording that is running: reads the rings of its channels, goes on from the held past, and writes parts into the
// store until it ends. A thread of its own coordinates; it waits for the broker, the recorder and the disk, and nothing
// that reads, compresses or writes waits for it:
//
//   rings ══▶ StreamWorkers ── rounds ──▶ PartWriter ══▶ part │ part │ part          this thread: begins and commits
//              ▲ tick                        ▲ sideband                                parts, once a second progress
//           RecorderThread ─────────────────┘
//
// A part ends at its limit, and the next one begins between two rounds, so nothing is missing at the seam. A reload
// that changes a channel ends the part as well: other workers go on where the first ones ended. Memory is bounded by
// the pool of blocks, however slow the disk is: while the pool is full, records become a hole.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/recorder/recorder_thread.hpp"
#include "daemon/recordings/part_facts.hpp"
#include "daemon/recordings/part_store.hpp"
#include "daemon/recordings/recorded_rings.hpp"
#include "daemon/store/store_service.hpp"
#include "libcore/base/waiting_clock.hpp"
#include "libcore/control/record_messages.hpp"
#include "libcore/stream/block_pool.hpp"
#include "libcore/stream/part_writer.hpp"
#include "libcore/stream/stream_workers.hpp"

namespace flight::daemon {

// Why a recording ended. asked: its time was over, somebody stopped it, its client went away, or flightd stopped.
enum class RecordingEnd : std::uint8_t { asked, max_size, killed, disk, reload, budget };
[[nodiscard]] std::string_view to_string(RecordingEnd end);

struct RecordingOrder {
  SidecarRequest who;      // includes the reason
  EventTime asked_ns = 0;  // when it was asked for: the end of the held past, however long the beginning takes
  EventTime since_ns = 0;  // what the rings hold of the time since then comes first; 0: nothing, it begins at start()
  bool all_since = false;  // true: warn if anything of that time is missing; false: only from one second on
  EventTime for_ns = 0;    // 0: until it is stopped
  std::uint64_t max_bytes = 0, part_bytes = 0;
  std::vector<std::string> channels;  // empty: all
  std::string workers = "cpu";        // record.workers
  bool directory = false;             // each part is a data directory, with a file for each worker
  int level = 1;                      // of zstd; 0: no compression
};

struct RecordingOutcome {
  // ENODATA: nothing is recorded. EINVAL: no such channel. ENOSPC …: the first part was not written.
  Result<RecordResult> result;
  std::vector<std::uint64_t> unfinished;  // parts that could not be written whole, for recover_part()
};

class RunningRecording {
 public:
  struct Means {
    RecorderThread& recorder;
    StoreService& store;
    const HostFacts& host;
  };
  // All of them on the recording's thread.
  struct Callbacks {
    std::function<void(const std::string& id)> begun;                                     // at most once
    std::function<void(const std::string& id, const RecordProgress& progress)> progress;  // once a second
    // Once, at last.
    std::function<void(const RecordingOutcome& outcome)> ended;
    std::function<void(const Error& error)> warn;
  };

  // `clock`: of its waits: its end, its progress, and when it tries something again. The times of records are never by
  // it.
  [[nodiscard]] static Result<std::unique_ptr<RunningRecording>> start(
      const Means& means, RecordingOrder order, Callbacks callbacks,
      const WaitingClock& clock = WaitingClock::monotonic());
  RunningRecording(const RunningRecording&) = delete;
  RunningRecording& operator=(const RunningRecording&) = delete;
  ~RunningRecording();  // stop(asked), and waits

  // Any thread; never waits. The first reason counts.
  void stop(RecordingEnd why);
  // Any thread. It ends at its time, but not before `until_ns` of its clock. False: it ends already.
  [[nodiscard]] bool go_on_until(EventTime until_ns);
  // Any thread. Of its first part; empty: it has not begun.
  [[nodiscard]] std::string id() const;

 private:
  struct OpenPart {
    std::uint64_t seq = 0, number = 0;
    UniqueFd folder, sidecar;          // as in PartFiles
    UniqueFd data_again;               // to finish the part if the writer could not
    std::vector<UniqueFd> more_again;  // the same, of a directory
    std::shared_ptr<PartContext> context;
    SnapshotName name;
    Sidecar contents;
    EventTime begun_ns = 0;
  };
  struct CommittedPart {
    SnapshotName name;
    Sidecar contents;
  };
  struct EndedPart {
    std::uint64_t seq = 0;
    Result<void> outcome;
    PartFacts facts;
  };

  RunningRecording(const Means& means, RecordingOrder order, Callbacks callbacks, const WaitingClock& clock);
  void run();
  [[nodiscard]] Result<void> begin();
  void give_up(const Error& error);
  void wait(EventTime until_ns);
  [[nodiscard]] std::optional<RecordingEnd> look(EventTime now_ns);
  [[nodiscard]] bool is_over(EventTime now_ns);
  [[nodiscard]] EventTime ends_ns() const;  // by clock_; under mutex_
  void finish(RecordingEnd end);
  void free_memory();
  [[nodiscard]] RecordProgress progress(EventTime now_ns) const;

  // running_rings.cpp
  [[nodiscard]] Result<void> start_workers(const RingPositions& read_to, EventTime since_ns, bool past);
  // `others_follow`: as in StreamWorkers::finish.
  void end_workers(bool others_follow = false);
  void report_pauses(EventTime now_ns, bool last);
  [[nodiscard]] std::optional<RecordingEnd> follow_attached();
  // True if a part could not be begun because nobody makes its files now: the broker died, or the disk hangs. The next
  // broker can make them, and a disk may answer again.
  [[nodiscard]] bool may_begin_later(const Error& error) const;

  // Snapshots are not deleted for more than that at once, however large a part may become.
  static constexpr std::uint64_t kRoomAtOnceBytes = 64U << 20U;

  // running_parts.cpp
  // Asks for the space and the files of the next part. `budget`: the store has none for it.
  [[nodiscard]] Result<std::optional<RecordingEnd>> prepare_part();
  // With these files.
  [[nodiscard]] Result<void> begin_part(EventTime since_ns);
  [[nodiscard]] Result<void> begin_part(PartFiles files, EventTime since_ns);
  [[nodiscard]] static Result<void> duplicate_files(const PartFiles& files, OpenPart& part);
  [[nodiscard]] PartWriter::PartEnd end_of(std::uint64_t seq, std::shared_ptr<PartContext> context);
  [[nodiscard]] std::optional<RecordingEnd> switch_part();
  [[nodiscard]] EventTime floor_ns() const;
  // The kernel's symbols of this part, beside the snapshots.
  void keep_symbols(const PartContext& context, const Sidecar& contents) const;
  void take_round(Round round);

  // running_ends.cpp
  void commit_ended();
  // `holes_known`: as in SidecarRecord.
  void commit(OpenPart part, const PartFacts& facts, bool holes_known);
  [[nodiscard]] std::vector<std::string> gaps_until(EventTime until_ns);
  void rescue(OpenPart part, const Error& error, PartFacts facts);
  void describe_last_again();

  // running_names.cpp; on the writer's thread.
  [[nodiscard]] RecordBuffer sideband(EventTime after_ns, EventTime until_ns);
  [[nodiscard]] Features last_features(PartContext& context);
  const Result<KnownFiles>& files_now();

  const Means means_;
  const RecordingOrder order_;
  const Callbacks callbacks_;
  const WaitingClock& clock_;

  // Only the recording's thread uses these, unless their own headers permit other threads. The writer and the workers
  // hold blocks of the pool, so it is declared before them.
  PartStore files_;
  RecordedRings rings_;
  std::vector<PlannedWorker> plan_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<PartWriter> writer_;
  std::unique_ptr<StreamWorkers> workers_;
  std::uint64_t stream_ = 0;                       // RecorderThread::add_stream(); 0: none
  std::uint64_t part_bytes_ = 0;                   // limit of a part
  std::optional<StoreService::PartLimit> budget_;  // of the part that was begun last; nullopt: not known
  std::optional<std::uint64_t> begun_free_bytes_;  // of the file system
  std::uint64_t enough_bytes_ = UINT64_MAX;        // then the newest part has what the budget left for it
  std::optional<PartFiles> next_;                  // of prepare_part()
  std::deque<OpenPart> open_;                      // begun, and not committed
  std::uint64_t part_number_ = 0;
  std::vector<std::uint64_t> seqs_;        // of all parts
  std::vector<std::uint64_t> unfinished_;  // of those whose files are left
  std::vector<std::string> finished_, paths_, warnings_;
  std::optional<CommittedPart> committed_;  // the last one
  std::uint64_t lost_behind_ = 0;           // events in the parts behind it that had no round
  EventTime since_ns_ = 0, paused_until_ns_ = 0;
  EventTime gaps_said_ns_ = 0;  // gaps before are in the sidecars of earlier parts
  // These are by clock_:
  EventTime running_since_ns_ = 0;        // the export and the files before may take seconds
  EventTime switch_again_ns_ = 0;         // not before
  std::shared_ptr<Attached> unfollowed_;  // newer rings, with which no part could begin yet
  EventTime follow_again_ns_ = 0;         // of these: not before
  std::optional<RecordingEnd> end_;
  std::optional<Error> failure_;  // why a part could not be written

  // Only the writer's thread uses these:
  EventTime wait_again_ns_ = 0, files_again_ns_ = 0;  // not before, by clock_
  std::optional<Result<KnownFiles>> known_files_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Under mutex_:
  std::string id_;
  std::optional<RecordingEnd> asked_;
  EventTime until_ns_ = 0;  // of go_on_until(), by clock_
  bool over_ = false;
  bool news_ = false;
  std::deque<EndedPart> ended_;
  std::map<std::uint64_t, std::shared_ptr<PartContext>> contexts_;  // by the part's number, from 1
  EventTime newest_ns_ = 0, newest_before_ns_ = 0;  // of the last round with records, and the one before

  std::thread thread_;  // of start() and the destructor
};

}  // namespace flight::daemon
