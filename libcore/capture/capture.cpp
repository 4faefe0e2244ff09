// SPDX-License-Identifier: Apache-2.0
#include "libcore/capture/capture.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace flight {
namespace {

// A paused ring's head is read until it has not moved for this long: PERF_EVENT_IOC_PAUSE_OUTPUT does not wait for a
// writer on another CPU that has already passed the check (kernel/events/ring_buffer.c).
constexpr EventTime kStableNs = 2'000;
constexpr EventTime kMaxStableWaitNs = 100'000;
// Before the pause, a ring is copied again until at most this much was written meanwhile (5 us of copying), and at
// most this often.
constexpr std::size_t kMaxRounds = 4;
constexpr std::uint64_t kLittleBytes = 32U << 10U;

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

// Copies again what was written since `head`, and updates `head`. Returns the number of these bytes, at most the
// ring's size.
std::uint64_t catch_up(const Ring& ring, std::span<std::byte> part, std::uint64_t& head) {
  const std::uint64_t before = std::exchange(head, ring.head());
  const std::uint64_t bytes = std::min<std::uint64_t>(before - head, part.size());
  copy_range(part, ring.bytes(), head, bytes);
  return bytes;
}

void cut_ring(const Ring& ring, std::span<std::byte> part, std::uint64_t head, CaptureMode mode, RingCapture& out) {
  const std::uint64_t size = part.size();
  out = {};
  out.catch_up_bytes = catch_up(ring, part, head);

  if (mode == CaptureMode::pause) {
    out.pause_begin_ns = monotonic_now();
    out.error_number = ring.pause();
    if (out.error_number == 0) {
      const std::uint64_t last_head = stable_head(ring);
      out.delta_bytes = std::min(head - last_head, size);
      copy_range(part, ring.bytes(), last_head, head - last_head);
      // A writer that took longer than the wait has overwritten this much of the oldest end: it is cut off.
      const std::uint64_t late = last_head - ring.head();
      out.error_number = ring.resume();
      out.pause_end_ns = monotonic_now();
      out.head = last_head;
      out.valid_bytes = late >= size ? 0 : size - late;
      return;
    }
    out.pause_begin_ns = 0;
  }
  keep_live_part(out, size, head, ring.head());
}

}  // namespace

void keep_live_part(RingCapture& out, std::uint64_t size, std::uint64_t first_head, std::uint64_t last_head) {
  // `oldest_ns` and `torn_bytes` report what a live copy drops. The margin would be all of a 64 KiB ring, so it is at
  // most half. A ring that was completely overwritten during the copy is empty in the file.
  const std::uint64_t given_up = (first_head - last_head) + std::min(kLiveMarginBytes, size / 2);
  out.head = first_head;
  // A ring in its first revolution has overwritten nothing: the walk finds its never-written area from the head.
  const std::uint64_t written = std::uint64_t{0} - first_head;
  const bool overwrote = written + given_up > size;
  out.valid_bytes = !overwrote ? size : (given_up >= size ? 0 : size - given_up);
}

Result<Staging> Staging::create(const Rings& rings, const Staging* before) {
  std::vector<Part> parts;
  std::size_t missing = 0;
  for (const auto& ring : rings) {
    const Part* old = nullptr;
    if (before != nullptr)
      for (const Part& part : before->parts_)
        if (part.ring == ring) old = &part;
    // Not `head`: a freeze on another thread may be writing it, and each freeze sets its own.
    if (old != nullptr)
      parts.push_back({.ring = ring, .memory = old->memory, .image = old->image});
    else
      parts.push_back({.ring = ring, .memory = nullptr, .image = {}});
    if (old == nullptr) missing += ring->bytes().size();
  }
  std::string lock_error = before != nullptr ? before->lock_error_ : std::string();
  if (missing > 0) {
    auto created = Mapping::create(missing);
    if (!created) return wrap(created.error(), "staging for {} rings", rings.size());
    created->leave_out_of_core();  // rings are, too
    const auto memory = std::make_shared<const Mapping>(std::move(*created));
    std::memset(memory->data(), 0, missing);
    if (auto locked = memory->lock(); !locked) lock_error = locked.error().what;
    std::size_t at = 0;
    for (Part& part : parts) {
      if (part.memory) continue;
      part.memory = memory;
      part.image = memory->bytes().subspan(at, part.ring->bytes().size());
      at += part.image.size();
    }
  }
  return Staging(std::move(parts), std::move(lock_error));
}

std::uint64_t Staging::bytes() const {
  std::uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.image.size();
  return sum;
}

void Staging::copy_ahead() {
  for (Part& part : parts_) {
    part.head = part.ring->head();
    copy_range(part.image, part.ring->bytes(), 0, part.image.size());
  }
  // Large rings may have received much data meanwhile. Each round is shorter than the previous one, unless the rings
  // are written faster than they can be copied, or the CPU is busy.
  for (std::size_t round = 0; round < kMaxRounds; ++round) {
    std::uint64_t most = 0;
    for (Part& part : parts_) most = std::max(most, catch_up(*part.ring, part.image, part.head));
    if (most <= kLittleBytes) break;
  }
}

void Staging::cut(CaptureMode mode) {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    cut_ring(*parts_[i].ring, parts_[i].image, parts_[i].head, mode, captures_[i]);
}

void Staging::wipe() {
  for (const Part& part : parts_) std::memset(part.image.data(), 0, part.image.size());
  captures_.assign(captures_.size(), RingCapture());
}

RingImage Staging::image(std::size_t ring) const {
  return {.bytes = parts_[ring].image, .head = captures_[ring].head, .valid_bytes = captures_[ring].valid_bytes};
}

std::vector<RingImage> Staging::images() const {
  std::vector<RingImage> out;
  for (std::size_t i = 0; i < size(); ++i) out.push_back(image(i));
  return out;
}

}  // namespace flight
