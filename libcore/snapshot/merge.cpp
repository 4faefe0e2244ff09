// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/merge.hpp"

#include <algorithm>
#include <array>

#include "libcore/perf/record_build.hpp"

namespace flight {
namespace {

constexpr EventTime kAtEnd = UINT64_MAX;

// A cursor over one sorted source: the process tracker's log (raw records) or a ring's part of the window.
class Source {
 public:
  explicit Source(std::span<const std::byte> log) : log_(log) { step(); }
  explicit Source(const RingSelection& ring) : ring_(&ring), next_(ring.first) { step(); }

  [[nodiscard]] EventTime time_ns() const { return time_ns_; }
  [[nodiscard]] std::span<const std::byte> record(std::span<std::byte> scratch) const {
    return ring_ != nullptr ? record_bytes(ring_->image, ring_->walk.records[next_], scratch) : current_;
  }
  void advance() {
    if (ring_ != nullptr) {
      ++next_;
    } else {
      log_ = log_.subspan(current_.size());
    }
    step();
  }

 private:
  void step() {
    if (ring_ != nullptr) {
      time_ns_ = next_ < ring_->last ? ring_->walk.records[next_].time_ns : kAtEnd;
      return;
    }
    current_ = next_record(log_);
    const auto trailer = current_.empty() ? std::nullopt : parse_trailer(current_);
    time_ns_ = trailer ? trailer->time_ns : kAtEnd;
  }

  const RingSelection* ring_ = nullptr;
  std::size_t next_ = 0;
  std::span<const std::byte> log_, current_;
  EventTime time_ns_ = kAtEnd;
};

struct HeapEntry {
  EventTime time_ns;
  std::size_t source;
};
// A heap with the oldest on top; for equal times the source that was added first.
bool later(const HeapEntry& a, const HeapEntry& b) {
  return a.time_ns != b.time_ns ? a.time_ns > b.time_ns : a.source > b.source;
}
// The top has become later: moves it down to its place. Half the cost of std::pop_heap and std::push_heap.
void sink_top(std::vector<HeapEntry>& heap) {
  const HeapEntry sinking = heap.front();
  std::size_t at = 0;
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= heap.size()) break;
    if (child + 1 < heap.size() && later(heap[child], heap[child + 1])) ++child;
    if (!later(sinking, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = sinking;
}

}  // namespace

// All images are in memory and each ring's references are completely sorted, so the k-way merge is exact: no record
// must be held back for later ones.
Result<void> merge_records(const Selection& selection, std::span<const std::byte> tracker_log,
                           const std::function<Result<void>(std::span<const std::byte>)>& emit) {
  std::vector<Source> sources;
  sources.reserve(selection.rings.size() + 1);
  sources.emplace_back(tracker_log);
  for (const RingSelection& ring : selection.rings) sources.emplace_back(ring);

  std::vector<HeapEntry> heap;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].time_ns() != kAtEnd) heap.push_back({sources[i].time_ns(), i});
  std::make_heap(heap.begin(), heap.end(), later);

  RecordScratch scratch;
  while (!heap.empty()) {
    Source& source = sources[heap.front().source];
    if (auto emitted = emit(source.record(scratch.bytes())); !emitted) return emitted;
    source.advance();
    heap.front().time_ns = source.time_ns();
    if (heap.front().time_ns == kAtEnd) {
      heap.front() = heap.back();
      heap.pop_back();
      if (heap.empty()) break;
    }
    sink_top(heap);
  }
  return {};
}

}  // namespace flight
