// SPDX-License-Identifier: Apache-2.0
#include "libcore/profile/sched_tape.hpp"

#include <algorithm>
#include <tuple>

namespace flight {
namespace {

bool is_earlier(const SchedRecord& a, const SchedRecord& b) {
  return std::tie(a.time_ns, a.cpu, a.tid) < std::tie(b.time_ns, b.cpu, b.tid);
}

}  // namespace

void SchedTape::add(const SchedRecord& record) {
  if (cut_ns_ != 0 && record.time_ns <= cut_ns_) {
    ++left_out_;
    return;
  }
  records_.push_back(record);
  if (records_.size() >= most_ + most_ / 4 + 1) cut();
}

void SchedTape::cut() {
  if (records_.size() <= most_) return;
  const auto kept = records_.end() - static_cast<std::ptrdiff_t>(most_);
  std::nth_element(records_.begin(), kept, records_.end(), is_earlier);
  for (auto record = records_.begin(); record != kept; ++record) cut_ns_ = std::max(cut_ns_, record->time_ns);
  left_out_ += std::erase_if(records_, [this](const SchedRecord& record) { return record.time_ns <= cut_ns_; });
}

void SchedTape::close() {
  cut();
  if (!std::is_sorted(records_.begin(), records_.end(), is_earlier))
    std::sort(records_.begin(), records_.end(), is_earlier);
}

}  // namespace flight
