// SPDX-License-Identifier: Apache-2.0
#include "libcore/capture/capture.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace flight {
namespace {

// How long a paused ring's head must stand still before it is believed: PERF_EVENT_IOC_PAUSE_OUTPUT does not wait for a
// writer on another CPU that has already passed the check (kernel/events/ring_buffer.c).
constexpr EventTime kStableNs = 2'000;
constexpr EventTime kMaxStableWaitNs = 100'000;

std::uint64_t stable_head(const Ring& ring) {
  const EventTime begin = monotonic_now();
  EventTime since = begin;
  std::uint64_t head = ring.head();
  for (;;) {
    const EventTime now = monotonic_now();
    const std::uint64_t again = ring.head();
    if (again != head) {
      head = again;
      since = now;
    }
    if (now - since >= kStableNs || now - begin >= kMaxStableWaitNs) return head;
  }
}

// Copies the ring addresses [from, from + count) to the same positions of `part`.
void copy_range(std::span<std::byte> part, std::span<const std::byte> ring, std::uint64_t from, std::uint64_t count) {
  const std::uint64_t size = ring.size();
  if (count >= size) {
    std::memcpy(part.data(), ring.data(), size);
    return;
  }
  const std::uint64_t begin = from & (size - 1);
  const std::uint64_t first = std::min(count, size - begin);
  std::memcpy(part.data() + begin, ring.data() + begin, first);
  std::memcpy(part.data(), ring.data(), count - first);
}

void keep_live_part(RingCapture& out, std::uint64_t size, std::uint64_t first_head, std::uint64_t last_head) {
  const std::uint64_t given_up = (first_head - last_head) + kLiveMarginBytes;
  out.head = first_head;
  // A ring in its first revolution has overwritten nothing: the walk stops at its never-written area by the head alone.
  const std::uint64_t written = std::uint64_t{0} - first_head;
  const bool overwrote = written + (first_head - last_head) + kLiveMarginBytes > size;
  out.valid_bytes = !overwrote ? size : (given_up >= size ? 0 : size - given_up);
}

void capture_ring(const Ring& ring, std::span<std::byte> part, CaptureMode mode, RingCapture& out) {
  const std::span<const std::byte> bytes = ring.bytes();
  const std::uint64_t size = bytes.size();
  out = {};
  const std::uint64_t first_head = ring.head();
  copy_range(part, bytes, 0, size);

  if (mode == CaptureMode::pause) {
    out.pause_begin_ns = monotonic_now();
    out.error_number = ring.pause();
    if (out.error_number == 0) {
      const std::uint64_t head = stable_head(ring);
      out.delta_bytes = std::min(first_head - head, size);
      copy_range(part, bytes, head, first_head - head);
      // A writer that was slower than the wait has overwritten this much of the oldest end.
      const std::uint64_t late = head - ring.head();
      out.error_number = ring.resume();
      out.pause_end_ns = monotonic_now();
      out.head = head;
      out.valid_bytes = late >= size ? 0 : size - late;
      return;
    }
    out.pause_begin_ns = 0;
  }
  keep_live_part(out, size, first_head, ring.head());
}

}  // namespace

Result<Staging> Staging::create(const std::vector<Ring>& rings) {
  std::size_t total = 0;
  for (const Ring& ring : rings) total += ring.bytes().size();
  std::string lock_error;
  Mapping memory;
  std::vector<std::span<std::byte>> parts;
  if (total > 0) {
    auto created = Mapping::create(total);
    if (!created) return wrap(created.error(), "staging for {} rings", rings.size());
    memory = std::move(*created);
    std::memset(memory.data(), 0, total);
    if (auto locked = memory.lock(); !locked) lock_error = locked.error().what;
    std::size_t at = 0;
    for (const Ring& ring : rings) {
      parts.push_back(memory.bytes().subspan(at, ring.bytes().size()));
      at += ring.bytes().size();
    }
  }
  return Staging(std::move(memory), std::move(parts), std::move(lock_error));
}

EventTime Staging::capture(const std::vector<Ring>& rings, CaptureMode mode) {
  assert(rings.size() == captures_.size());
  const EventTime frozen_ns = monotonic_now();
  for (std::size_t i = 0; i < rings.size(); ++i) capture_ring(rings[i], parts_[i], mode, captures_[i]);
  return frozen_ns;
}

RingImage Staging::image(std::size_t ring) const {
  return {.bytes = parts_[ring], .head = captures_[ring].head, .valid_bytes = captures_[ring].valid_bytes};
}

std::vector<RingImage> Staging::images() const {
  std::vector<RingImage> out;
  for (std::size_t i = 0; i < size(); ++i) out.push_back(image(i));
  return out;
}

}  // namespace flight
