// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/history.hpp"

#include <algorithm>

namespace flight::daemon {
namespace {

constexpr std::size_t kMaxNotes = 512;

}  // namespace

void History::note(EventTime now_ns, std::uint64_t head) {
  // A ring begins at 0. Without this note, a ring that was overwritten before its first note would seem never
  // overwritten.
  if (notes_.empty() && enabled_ns_ != 0) notes_.push_back({enabled_ns_, 0});
  notes_.push_back({now_ns, head});
  // Only the newest overwritten note is useful: later records may still be in the ring.
  std::size_t overwritten = 0;
  while (overwritten + 1 < notes_.size() && notes_[overwritten + 1].head - head >= ring_bytes_) ++overwritten;
  notes_.erase(notes_.begin(), notes_.begin() + static_cast<std::ptrdiff_t>(overwritten));
  if (notes_.size() > kMaxNotes) thin();
}

// Removes every second note of the older half: a quiet ring reaches back for hours and needs less accuracy there.
void History::thin() {
  std::vector<Note> kept;
  kept.reserve(kMaxNotes);
  for (std::size_t i = 0; i < notes_.size(); ++i)
    if (i >= notes_.size() / 2 || i % 2 == 0) kept.push_back(notes_[i]);
  notes_ = std::move(kept);
}

EventTime History::oldest_bound_ns() const {
  if (notes_.empty() || notes_.front().head - notes_.back().head < ring_bytes_) return enabled_ns_;
  return notes_.front().time_ns;
}

EventTime History::oldest_ns() const {
  if (notes_.empty() || notes_.front().head - notes_.back().head < ring_bytes_) return enabled_ns_;
  const Note& before = notes_.front();
  const Note& after = notes_[std::min<std::size_t>(1, notes_.size() - 1)];
  const std::uint64_t span_bytes = before.head - after.head;
  if (span_bytes == 0) return after.time_ns;
  const std::uint64_t gone = before.head - notes_.back().head - ring_bytes_;
  const double share = std::min(1.0, static_cast<double>(gone) / static_cast<double>(span_bytes));
  return before.time_ns + static_cast<EventTime>(share * static_cast<double>(after.time_ns - before.time_ns));
}

double History::bytes_per_second(double seconds) const {
  if (notes_.size() < 2) return 0;
  const Note& last = notes_.back();
  const auto from = static_cast<EventTime>(seconds * 1e9);
  auto first =
      std::find_if(notes_.begin(), notes_.end(), [&](const Note& note) { return note.time_ns + from >= last.time_ns; });
  if (first == notes_.end() - 1) --first;
  const double elapsed = static_cast<double>(last.time_ns - first->time_ns) / 1e9;
  return elapsed <= 0 ? 0 : static_cast<double>(first->head - last.head) / elapsed;
}

}  // namespace flight::daemon
