// SPDX-License-Identifier: Apache-2.0
// Samples with their times, by thread. Bounded: samples over the limit are left out and counted, and threads over the
// limit are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "libcore/profile/profile.hpp"

namespace flight {

class TimedSamples {
 public:
  static constexpr std::size_t kMostSamples = 2U << 20U, kMostThreads = 1U << 16U;

  struct Sample {
    EventTime time_ns = 0;
    std::uint64_t weight = 0;
    std::uint32_t node = 0, thread = 0;
  };
  struct Thread {
    bool known = false;  // false: several, over a limit
    // Texts as in CountedSample; the unit is the newest one.
    std::uint32_t pid = 0, tid = 0, process = 0, unit = 0;
    std::uint64_t samples = 0;
    std::uint32_t node = 0;  // of its newest sample: for its name
    EventTime node_ns = 0;
  };

  explicit TimedSamples(std::size_t most_samples = kMostSamples, std::size_t most_threads = kMostThreads);
  void add(const CountedSample& sample);

  // Sorts the threads by their numbers of samples, most first, and makes one of those over `most_threads`, which is the
  // last; and the samples by thread, then by time. Call it once, after the last sample.
  void arrange(std::size_t most_threads);

  [[nodiscard]] const std::vector<Thread>& threads() const { return threads_; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  [[nodiscard]] std::uint32_t thread_of(const CountedSample& sample);

  std::size_t most_samples_, most_threads_;
  std::vector<Sample> samples_;
  std::vector<Thread> threads_;  // until arrange() the first is of those over the limit
  // By pid, process and tid: a number can be used again.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> numbers_;
  std::uint64_t left_out_ = 0;
};

}  // namespace flight
