// SPDX-License-Identifier: Apache-2.0
// The switches and wake-ups of one file in the order of time, 40 bytes each. The file may have them in any order: a
// data directory has a file for each worker, and a recording its rings one after the other. Bounded: if there are too
// many, the oldest are left out, of all CPUs to the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "libcore/base/clock.hpp"

namespace flight {

struct SchedRecord {
  EventTime time_ns = 0;
  std::uint32_t cpu = 0;                  // of a wake-up: where the thread is going to run
  std::uint32_t tid = 0;                  // of the thread that leaves the CPU, or wakes up; 0: an idle task
  std::uint32_t next_tid = 0;             // of a switch: who gets the CPU
  std::uint32_t pid = 0;                  // of the process of `tid`; 0: unknown
  std::uint32_t name = 0, next_name = 0;  // as in SchedEvents
  std::uint16_t state = 0;                // of a switch: prev_state of the kernel
  bool is_wakeup = false;
};
static_assert(sizeof(SchedRecord) == 40);

class SchedTape {
 public:
  static constexpr std::size_t kMostRecords = 1U << 21U;

  explicit SchedTape(std::size_t most = kMostRecords) : most_(most) {}

  void add(const SchedRecord& record);
  // After the last record; before it, nothing below is known.
  void close();

  [[nodiscard]] const std::vector<SchedRecord>& records() const { return records_; }
  // From when on all records are there; 0: from the begin of the file.
  [[nodiscard]] EventTime begin_ns() const { return cut_ns_ == 0 ? 0 : cut_ns_ + 1; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  void cut();

  std::size_t most_;
  std::vector<SchedRecord> records_;
  EventTime cut_ns_ = 0;  // records up to this time are left out
  std::uint64_t left_out_ = 0;
};

}  // namespace flight
