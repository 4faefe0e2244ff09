// SPDX-License-Identifier: Apache-2.0
#include "libcore/export/timed_samples.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace flight {

TimedSamples::TimedSamples(std::size_t most_samples, std::size_t most_threads)
    : most_samples_(most_samples), most_threads_(most_threads), threads_(1) {}

void TimedSamples::add(const CountedSample& sample) {
  if (samples_.size() >= most_samples_) {
    ++left_out_;
    return;
  }
  const std::uint32_t number = thread_of(sample);
  Thread& thread = threads_[number];
  ++thread.samples;
  if (sample.time_ns >= thread.node_ns) {
    thread.node = sample.node;
    thread.node_ns = sample.time_ns;
    thread.unit = sample.unit;
  }
  samples_.push_back({.time_ns = sample.time_ns, .weight = sample.weight, .node = sample.node, .thread = number});
}

// 0: there are too many.
std::uint32_t TimedSamples::thread_of(const CountedSample& sample) {
  const auto key = std::tuple(sample.pid, sample.process, sample.tid);
  const auto known = numbers_.find(key);
  if (known != numbers_.end()) return known->second;
  if (threads_.size() > most_threads_) return 0;
  const auto number = static_cast<std::uint32_t>(threads_.size());
  threads_.push_back({.known = true, .pid = sample.pid, .tid = sample.tid, .process = sample.process});
  numbers_.emplace(key, number);
  return number;
}

void TimedSamples::arrange(std::size_t most_threads) {
  std::vector<std::uint32_t> order(threads_.size() - 1);
  std::iota(order.begin(), order.end(), 1U);
  std::stable_sort(order.begin(), order.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return threads_[a].samples > threads_[b].samples; });
  order.resize(std::min(order.size(), most_threads));
  std::vector<Thread> arranged;
  // Those that are not in `order` become the last one.
  std::vector<std::uint32_t> number(threads_.size(), static_cast<std::uint32_t>(order.size()));
  for (const std::uint32_t old : order) {
    number[old] = static_cast<std::uint32_t>(arranged.size());
    arranged.push_back(threads_[old]);
  }
  Thread others;
  for (Sample& sample : samples_) {
    sample.thread = number[sample.thread];
    if (sample.thread == order.size()) ++others.samples;
  }
  if (others.samples > 0) arranged.push_back(others);
  threads_ = std::move(arranged);
  numbers_ = {};
  std::stable_sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) {
    return a.thread != b.thread ? a.thread < b.thread : a.time_ns < b.time_ns;
  });
}

}  // namespace flight
