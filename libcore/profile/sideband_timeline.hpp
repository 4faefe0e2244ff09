// SPDX-License-Identifier: Apache-2.0
// The sideband of one file in the order of time, and what follows from it for each sample: the mappings and the names
// that hold then. Records of time 0 come first, in the file's order: perf acts on them at once. Of a record and a
// sample of the same time the record comes first, as in flightd's files.
//
// The order of the records in the file is of no importance, nor is that of the samples: a data directory has the
// sideband in one file and the samples in others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/profile/address_spaces.hpp"
#include "libcore/profile/task_names.hpp"
#include "libcore/sideband/process_tracker.hpp"

namespace flight {

class SidebandTimeline {
 public:
  static constexpr std::size_t kMostBytes = 64U << 20U;  // of the records that are kept

  // `texts` must outlive it.
  explicit SidebandTimeline(Texts& texts, std::size_t most_bytes = kMostBytes)
      : most_bytes_(most_bytes), tasks_(texts) {}

  // Any record but a SAMPLE. Of types that say nothing about processes or code, nothing is kept.
  void add(std::span<const std::byte> record);
  // After the last record; before it, nothing below is known.
  void close();

  [[nodiscard]] SidebandPosition position_at(EventTime time_ns) const;
  [[nodiscard]] AddressSpaces& spaces() { return spaces_; }
  [[nodiscard]] TaskNames& tasks() { return tasks_; }
  // For Lives: `prologue` and `log`.
  [[nodiscard]] const TrackerExport& records() const { return records_; }

  [[nodiscard]] std::uint64_t malformed() const { return malformed_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }  // over the limit

 private:
  struct Place {
    EventTime time_ns = 0;
    std::uint32_t offset = 0, bytes = 0;  // in the log
  };
  void sort_log();
  void apply(std::span<const std::byte> records);

  std::size_t most_bytes_;
  TrackerExport records_;
  std::vector<Place> log_;  // after close() ascending in time
  SidebandPosition next_ = 1, log_begin_ = 1;
  AddressSpaces spaces_;
  TaskNames tasks_;
  std::uint64_t malformed_ = 0, left_out_ = 0;
};

}  // namespace flight
