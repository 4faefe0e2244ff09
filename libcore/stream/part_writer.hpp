// SPDX-License-Identifier: Apache-2.0
// The file sink: a thread that writes rounds to the part that is open, and opens and ends parts in between.
//
//   write(round) ─▶ [ round 7 | round 8 | end, begin | round 9 ] ─▶ thread: PartFile
//
// No caller waits for the disk. The queue is bounded by the bytes of the pool, which has the blocks of its rounds, and
// by kMaxQueuedRounds: above that a round is joined with the last one. What is queued between two parts is in the order
// of the calls, so there is no gap at the seam. The thread waits until the sideband of a round is complete; the next
// round does not begin before that. A part is synced every 5 s while rounds come, so that a power cut costs no more; on
// an idle machine the thread sleeps. lower_this_thread().
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"
#include "libcore/stream/chunks.hpp"
#include "libcore/stream/part_file.hpp"
#include "libcore/stream/round.hpp"

namespace flight {

// The state of the part that was begun last, and the sums over all parts.
struct PartProgress {
  std::uint64_t parts = 0;
  bool full = false;    // the last one should end: PartLimits
  std::string trouble;  // why nothing more is written to it; empty: all is well
  std::uint64_t bytes = 0, expanded_bytes = 0;
  std::uint64_t events = 0, lost_events = 0, lost_bytes = 0;  // in the files and not
};

class PartWriter {
 public:
  static constexpr std::size_t kMaxQueuedRounds = 16;
  static constexpr std::chrono::seconds kSyncEvery{5};

  struct Settings {
    int level = 1;  // of zstd, as of the workers; 0: no compression
    PartLimits limits;
    SidebandSource sideband;            // called on the writer's thread, at the earliest kSettleNs after the round
    std::function<void()> on_progress;  // on the same thread, after each part and round; it must not wait
    std::function<EventTime()> clock = monotonic_now;  // the same thread; tests have their own
    std::chrono::nanoseconds sync_every = kSyncEvery;  // the same
  };
  // Called on the writer's thread when a part is written, features and header, too, and synced; or with the error of
  // finish(), or that of begin(): then it has no file.
  using Ended = std::function<void(Result<void> outcome, PartFacts facts)>;
  struct PartEnd {
    std::function<Features()> features;  // called on the writer's thread when the part has all its rounds
    Ended ended;
  };

  [[nodiscard]] static Result<std::unique_ptr<PartWriter>> start(Settings settings);
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;
  // Writes what is queued. A part that is still open is left as it is, with its journal: recover() finishes it.
  ~PartWriter();

  // Any thread; none of them waits. Rounds without an open part are lost, and counted.
  void write(Round round);
  // Begins a part; the one before must have been ended, or ends here (`before`): then no round comes between the two.
  // If it cannot be begun, that is its error when it ends.
  void begin(PartStart start, std::optional<PartEnd> before = std::nullopt);
  void end(PartEnd end);

  [[nodiscard]] PartProgress progress() const;

 private:
  using Item = std::variant<Round, PartStart, PartEnd>;
  PartWriter(Settings settings, Chunks chunks) : settings_(std::move(settings)), chunks_(std::move(chunks)) {}
  void run();
  void handle(Round& round);
  void handle(PartStart& start);
  void handle(PartEnd& end);
  [[nodiscard]] RecordBuffer settled_sideband(EventTime from_ns, EventTime until_ns) const;
  void sync_if_due();
  void add(PartProgress& to) const;
  void note_progress();

  const Settings settings_;

  // Only the writer's thread uses these:
  Chunks chunks_;
  PartLimits limits_;  // of the part that was begun last
  std::optional<PartFile> part_;
  Result<void> outcome_;    // of the part that was begun last
  PartFacts without_file_;  // what was lost since the last part ended, where there is no file
  PartProgress before_;     // of the parts that ended
  std::chrono::steady_clock::time_point synced_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  // Under mutex_:
  std::deque<Item> queue_;
  std::size_t rounds_ = 0;  // in queue_
  PartProgress progress_;
  bool stopping_ = false;

  std::thread thread_;  // of start() and the destructor
};

}  // namespace flight
