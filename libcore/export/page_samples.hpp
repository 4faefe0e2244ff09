// SPDX-License-Identifier: Apache-2.0
// Samples with their times and CPUs, for the page: none is left out, up to a limit that a snapshot hardly has. A thread
// is apart from the same thread in another unit; those over a limit are one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "libcore/profile/profile.hpp"

namespace flight {

class PageSamples {
 public:
  static constexpr std::size_t kMostSamples = 4U << 20U, kMostThreads = 1U << 16U;

  struct Sample {
    EventTime time_ns = 0;
    std::uint64_t weight = 0;
    std::uint32_t node = 0, thread = 0, cpu = 0;
  };
  struct Thread {
    bool known = false;  // false: several, over the limit
    // Texts as in CountedSample.
    std::uint32_t pid = 0, tid = 0, process = 0, unit = 0;
  };

  explicit PageSamples(std::size_t most_samples = kMostSamples, std::size_t most_threads = kMostThreads);
  void add(const CountedSample& sample);
  // Sorts the samples by time. Call it once, after the last one.
  void arrange();

  [[nodiscard]] const std::vector<Thread>& threads() const { return threads_; }  // the first is of those over the limit
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }

 private:
  [[nodiscard]] std::uint32_t thread_of(const CountedSample& sample);

  std::size_t most_samples_, most_threads_;
  std::vector<Sample> samples_;
  std::vector<Thread> threads_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> numbers_;
  std::uint64_t left_out_ = 0;
};

}  // namespace flight
