// SPDX-License-Identifier: Apache-2.0
// Taking the rings' contents: pre-copy, pause, copy the delta, resume; or live, never paused.
//
//   pause:   h1 = head; copy the running ring; PAUSE; h2 = head, stable; copy [h2, h1) again; RESUME
//            A backward ring overwrites exactly the bytes it newly wrote, so the delta makes the copy equal to the
//            paused ring.
//   live:    h1 = head; copy; h2 = head; valid is [h1, h2 + size - 64 KiB): the oldest end is given up, nothing is lost
//
// Staging is allocated, touched and locked when the rings are mapped: an incident is when memory is short. Between the
// first head and the last resume nothing is allocated. One thread: the freeze thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/config/config.hpp"
#include "libcore/perf/ring_walk.hpp"
#include "libcore/recorder/rings.hpp"

namespace flight {

// A live copy gives up this much more at the oldest end, of a small ring half of it: a record that is being written
// lies below the head that was read.
inline constexpr std::uint64_t kLiveMarginBytes = 64U << 10U;

struct RingCapture {
  std::uint64_t head = 0;  // where the image begins
  std::uint64_t valid_bytes = 0;
  EventTime pause_begin_ns = 0;  // clock before PAUSE and after RESUME; 0 and 0: never paused
  EventTime pause_end_ns = 0;
  std::uint64_t delta_bytes = 0;  // copied while it was paused
  int error_number = 0;           // of PAUSE or RESUME; the image is then a live one
};

// What a live copy has that began when the head was `first_head` and after which it was `last_head`: head and
// valid_bytes of a ring of `size` bytes.
void keep_live_part(RingCapture& out, std::uint64_t size, std::uint64_t first_head, std::uint64_t last_head);

class Staging {
 public:
  // Memory for one image of each ring. `locked()` is false where mlock was refused: the reason is in lock_error(). A
  // ring that `before` has, too, shares its memory there: of the two only one may be in use.
  [[nodiscard]] static Result<Staging> create(const Rings& rings, const Staging* before = nullptr);

  // Cuts every ring. Returns frozen_ns, read before the first ring.
  EventTime capture(CaptureMode mode);

  [[nodiscard]] RingImage image(std::size_t ring) const;
  [[nodiscard]] std::vector<RingImage> images() const;
  [[nodiscard]] const RingCapture& result(std::size_t ring) const { return captures_[ring]; }
  [[nodiscard]] std::size_t size() const { return captures_.size(); }
  [[nodiscard]] std::uint64_t bytes() const;
  [[nodiscard]] bool locked() const { return lock_error_.empty(); }
  [[nodiscard]] const std::string& lock_error() const { return lock_error_; }

 private:
  struct Part {
    std::shared_ptr<const Ring> ring;
    std::shared_ptr<const Mapping> memory;  // of this and other parts
    std::span<std::byte> image;
  };
  Staging(std::vector<Part> parts, std::string lock_error)
      : parts_(std::move(parts)), captures_(parts_.size()), lock_error_(std::move(lock_error)) {}
  std::vector<Part> parts_;
  std::vector<RingCapture> captures_;
  std::string lock_error_;
};

}  // namespace flight
