// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/page_samples.hpp"

#include <algorithm>

namespace flight {

PageSamples::PageSamples(std::size_t most_samples, std::size_t most_threads)
    : most_samples_(most_samples), most_threads_(most_threads), threads_(1) {}

void PageSamples::add(const CountedSample& sample) {
  if (samples_.size() >= most_samples_) {
    ++left_out_;
    return;
  }
  samples_.push_back({.time_ns = sample.time_ns,
                      .weight = sample.weight,
                      .node = sample.node,
                      .thread = thread_of(sample),
                      .cpu = sample.cpu});
}

// 0: there are too many.
std::uint32_t PageSamples::thread_of(const CountedSample& sample) {
  const auto key = std::tuple(sample.pid, sample.process, sample.tid, sample.unit);
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  if (threads_.size() > most_threads_) return 0;
  const auto number = static_cast<std::uint32_t>(threads_.size());
  threads_.push_back(
      {.known = true, .pid = sample.pid, .tid = sample.tid, .process = sample.process, .unit = sample.unit});
  numbers_.emplace(key, number);
  return number;
}

void PageSamples::arrange() {
  std::stable_sort(samples_.begin(), samples_.end(),
                   [](const Sample& a, const Sample& b) { return a.time_ns < b.time_ns; });
}

}  // namespace flight
