// SPDX-License-Identifier: Apache-2.0
// Between the reader of a ring and the filters: finds the time and the event of each record, counts it, and passes runs
// of records on. What perf could not read is dropped and counted (unknown ids, types newer than the oldest supported
// perf), as in snapshots. But an id that is larger than all known ones may be that of an event that was opened a moment
// ago: the events of a CPU that returns write into its old ring before anybody knows them. Such records are left in the
// ring, for the workers that know them. Records older than the round's floor (round.hpp) become a hole with the cause
// `late`; what was overwritten becomes a hole when the next record is known, and so does a pause of the ring, from its
// LOST record. The worker's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record.hpp"
#include "libcore/stream/ring_reader.hpp"
#include "libcore/stream/sink.hpp"

namespace flight {

class RingIntake : public RingReader::Sink {
 public:
  // `ring`: its number among the worker's. `begin_ns`: when the recording began, for a hole before the first record.
  // Records before `since_ns` are not wanted: no hole. `all_since`: all later ones are, also those that were
  // overwritten before the reader began. `events` and `next` must outlive it.
  RingIntake(std::size_t ring, const EventTable& events, StreamSink& next, EventTime begin_ns, EventTime since_ns,
             bool all_since = false);

  // Records of newer events are left in the ring for so long, once; later ones are dropped. They can be of another
  // program, too: for a software event that several programs count, the kernel gives all samples the id of the newest.
  static constexpr EventTime kKnownWithinNs = 10'000'000'000;

  // Before a look at `now_ns`: the floor of its round. nullopt: records of newer events are dropped at once.
  void begin(EventTime floor_ns, std::optional<EventTime> now_ns = std::nullopt);
  void records(std::span<const std::byte> records) override;
  [[nodiscard]] std::size_t left() const override { return left_bytes_; }
  // After a look: no record that it left is older; UINT64_MAX: it left none.
  [[nodiscard]] EventTime left_from_ns() const { return left_bytes_ == 0 ? UINT64_MAX : left_from_ns_; }
  void hole(std::uint64_t bytes) override { overwritten_ += bytes; }
  void past_is_cut(std::uint64_t bytes) override {
    if (all_since_) cut_ = Cut{.most_bytes = bytes, .known_bytes = 0, .until_ns = 0};
  }
  // After the last look: what was overwritten behind the last record.
  void end(EventTime now_ns);

  // Counts all records since the last call of take_counts().
  struct Counts {
    std::uint64_t events = 0, bytes = 0;
    std::uint64_t foreign = 0;
  };
  [[nodiscard]] Counts take_counts();

 private:
  // What the intake needs of the event that an id belongs to.
  struct Known {
    std::uint64_t id = 0;
    const RecordLayout* layout = nullptr;  // none: the id is unknown
    bool filled = false;
  };
  // A run that is being collected; `end` is 0 without one.
  struct Run {
    std::size_t begin = 0, end = 0;
    std::uint64_t events = 0;
    EventTime oldest_ns = 0, newest_ns = 0;
  };
  // The bytes that the ring had overwritten before the reader was made; kept until they are reported.
  struct Cut {
    std::uint64_t most_bytes = 0;   // since the ring exists
    std::uint64_t known_bytes = 0;  // overwritten since the reader was made: a hole of the same time
    EventTime until_ns = 0;         // of the first record behind it; 0: none has come
  };
  [[nodiscard]] const RecordLayout* layout_of(std::uint64_t id);
  [[nodiscard]] bool leaves(std::span<const std::byte> record);
  [[nodiscard]] bool read_time(std::span<const std::byte> record, EventTime& time_ns);
  void take(std::span<const std::byte> records, std::size_t at, std::size_t size, EventTime time_ns);
  void note_pause(std::span<const std::byte> records, std::size_t at, std::size_t size, EventTime time_ns);
  void pass_on(std::span<const std::byte> records);
  [[nodiscard]] std::uint64_t events_in(std::uint64_t bytes) const;
  void report_overwritten(EventTime until_ns);
  void report_cut();
  void report_late();
  void note(EventTime newest_ns);

  std::size_t ring_;
  const EventTable& events_;
  StreamSink& next_;
  EventTime floor_ns_ = 0, since_ns_;
  EventTime last_ns_;  // of the newest record so far; before the first one, when the recording began
  bool all_since_;
  bool has_read_ = false;
  std::uint64_t overwritten_ = 0;                   // bytes, not reported yet
  EventTime newest_ns_ = 0, before_newest_ns_ = 0;  // of the last two records but LOST; 0: there was none
  std::optional<Cut> cut_;
  Run run_;
  Hole late_;                                     // not reported yet, if it has bytes
  std::uint64_t all_events_ = 0, all_bytes_ = 0;  // for the mean size
  Counts counts_;
  std::array<Known, 8> known_{};        // by id; a ring has few
  std::optional<EventTime> looked_ns_;  // when this look began; nullopt: it leaves nothing
  EventTime looked_before_ns_ = 0;      // when the one before began
  std::size_t left_bytes_ = 0;          // by this look
  EventTime left_since_ns_ = 0;         // when a look left something for the first time; 0: none has
  EventTime left_from_ns_ = 0;
  bool gave_up_ = false;
};

}  // namespace flight
