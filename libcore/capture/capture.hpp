// SPDX-License-Identifier: Apache-2.0
// Copies the rings in two steps: copy_ahead() at any priority, then cut(), which is short, on the freeze thread.
//
//   ahead:   h0 = head; copy the running ring; h1 = head; copy [h1, h0) again; … until little was written meanwhile
//   pause:   h2 = head; copy [h2, h1) again; PAUSE; h3 = head, stable; copy [h3, h2) again; RESUME
//            A backward ring overwrites exactly the bytes it newly wrote, so the differences make the copy equal to the
//            paused ring.
//   live:    h2 = head; copy [h2, h1) again; h3 = head; valid is [h2, h3 + size - 64 KiB): the oldest end is given up,
//            nothing is lost
//
// Staging is allocated, touched and locked when the rings are mapped, because memory is often short during an incident.
// Between the first head and the last resume nothing is allocated. One thread at a time.
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

// A live copy drops this much more at the oldest end, half of a small ring: a record that is being written is below
// the head that was read.
inline constexpr std::uint64_t kLiveMarginBytes = 64U << 10U;

struct RingCapture {
  std::uint64_t head = 0;  // the start of the image
  std::uint64_t valid_bytes = 0;
  EventTime pause_begin_ns = 0;  // the clock before PAUSE and after RESUME; both 0: never paused
  EventTime pause_end_ns = 0;
  std::uint64_t catch_up_bytes = 0;  // copied by cut() before PAUSE
  std::uint64_t delta_bytes = 0;     // copied while it was paused
  int error_number = 0;              // of PAUSE or RESUME; the image then is a live copy
};

// Computes head and valid_bytes of a live copy of a ring of `size` bytes that began when the head was `first_head` and
// ended when it was `last_head`.
void keep_live_part(RingCapture& out, std::uint64_t size, std::uint64_t first_head, std::uint64_t last_head);

class Staging {
 public:
  // Memory for one image of each ring. `locked()` is false if mlock failed; lock_error() has the reason. A ring that
  // is also in `before` shares its memory: use only one of the two at a time.
  [[nodiscard]] static Result<Staging> create(const Rings& rings, const Staging* before = nullptr);

  // Copies every ring while it is written to, and again what was overwritten meanwhile.
  void copy_ahead();
  // Copies what was written since copy_ahead(), and cuts every ring.
  void cut(CaptureMode mode);
  // Overwrites the images with zeros, once nobody needs them: samples can have copies of other processes' memory. They
  // are empty then, until the next cut().
  void wipe();

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
    std::uint64_t head = 0;  // the image equals the ring except for what was written below
  };
  Staging(std::vector<Part> parts, std::string lock_error)
      : parts_(std::move(parts)), captures_(parts_.size()), lock_error_(std::move(lock_error)) {}
  std::vector<Part> parts_;
  std::vector<RingCapture> captures_;
  std::string lock_error_;
};

}  // namespace flight
