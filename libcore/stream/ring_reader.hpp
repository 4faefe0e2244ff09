// SPDX-License-Identifier: Apache-2.0
// Reads what is new in a backward ring while the kernel writes to it, oldest first, each record once. The ring is never
// paused. One look:
//
//   h1 = head              boundaries of records are found from h1 upwards, newest to oldest, one per 256 KiB
//   ├── piece ──┼── piece ──┼── piece ──┤ the last look's h1
//     3rd          2nd         1st        copied oldest first: the kernel overwrites the oldest first, too
//
// After each piece h2 = head. What lies above h2 + size − 64 KiB (half of a small ring) may have been overwritten
// before it was copied: a hole, whose bytes are known from the heads. The margin is for a record that is being written,
// which lies below the head that was read. (Source: kernel/events/ring_buffer.c.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "libcore/perf/record.hpp"

namespace flight {

// The number of bytes at the oldest end of a live ring of `size` bytes that the kernel may be overwriting.
[[nodiscard]] std::uint64_t live_margin(std::uint64_t size);

class RingReader {
 public:
  static constexpr std::size_t kPieceBytes = 256U << 10U;
  // Memory of one reader: two buffers of a piece, which ends at a record's end, and a boundary for each piece.
  static constexpr std::size_t kBufferBytes = kPieceBytes + 65536;
  static constexpr std::size_t kMemoryBytes = 2 * kBufferBytes;

  // Receives what a look finds, in the order of time.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Whole records, oldest first; valid until it returns.
    virtual void records(std::span<const std::byte> records) = 0;
    // After records(): so many bytes at their end, whole records, are left for the next look. This one ends before
    // them.
    [[nodiscard]] virtual std::size_t left() const { return 0; }
    // So many bytes of records were overwritten, or cannot be read, between the records before and those that follow.
    virtual void hole(std::uint64_t bytes) = 0;
    // Before the first records, once: so many bytes were overwritten before the reader was made, since the ring exists.
    // No hole: the past is what the ring holds.
    virtual void past_is_cut(std::uint64_t /*bytes*/) {}
  };

  // `data`: the ring's data area, a power of two. `head`: reads data_head, load-acquire. Both must live as long as the
  // reader. The first look begins with the oldest record that the ring holds (`past`), or with what is written from now
  // on. What the ring had lost before now is no hole: past_is_cut(). `memory`: kMemoryBytes for the buffers, not
  // touched yet. It must outlive the reader; readers of which one looks at a time may share it. Empty: the reader's
  // own.
  RingReader(std::span<const std::byte> data, std::function<std::uint64_t()> head, bool past,
             std::span<std::byte> memory = {});
  RingReader(RingReader&&) = default;
  RingReader& operator=(RingReader&&) = default;
  RingReader(const RingReader&) = delete;
  RingReader& operator=(const RingReader&) = delete;
  ~RingReader() = default;

  // Before the first look, where events may copy stacks: a record whose header a sample was written over is recognised
  // by its content (libcore/perf/headerless.hpp). Otherwise it and what is older are a hole. If any does, the memory is
  // wiped after each look. `events` must outlive the reader.
  void recognise(const EventTable& events);
  // Before the first look: goes on where an earlier reader of this ring ended, at its read_to(). What was overwritten
  // since then is a hole.
  void go_on_from(std::uint64_t head) {
    read_to_ = head;
    past_ = false;
  }
  // The head of the last look, or the first record that its sink has left: everything from here upwards is done with.
  [[nodiscard]] std::uint64_t read_to() const { return read_to_; }
  // One thread at a time. Looks at everything up to the head at its beginning, or to what the sink leaves; that is also
  // what it returns, for the time until which nothing is missing.
  std::uint64_t look(Sink& sink);
  // How many bytes were written since the last look.
  [[nodiscard]] std::uint64_t news() const { return read_to_ - head_(); }

 private:
  [[nodiscard]] std::uint64_t find_boundaries(std::uint64_t head, std::uint64_t bytes);
  [[nodiscard]] std::uint64_t readable(std::uint64_t head) const;
  void report(Sink& sink, std::uint64_t missing, std::uint64_t end) const;
  void copy(std::uint64_t from, std::size_t bytes);
  void wipe(std::size_t bytes);
  [[nodiscard]] std::size_t turn_round(std::size_t bytes, std::uint64_t limit);
  [[nodiscard]] std::uint64_t word(std::uint64_t position) const;
  template <typename Word>
  [[nodiscard]] perf_event_header header_of(std::size_t bytes, const Word& read) const;

  std::span<const std::byte> data_;
  std::uint64_t mask_;
  const EventTable* events_ = nullptr;  // of recognise(), if there is such an event
  std::size_t trailer_bytes_ = 0;
  std::function<std::uint64_t()> head_;
  std::uint64_t read_to_ = 0;
  std::uint64_t begun_at_;                 // the head at the construction
  bool past_;                              // nothing was read yet: what was older than that may be missing
  std::vector<std::uint64_t> boundaries_;  // of this look, upwards from its head
  std::vector<std::byte> own_;
  std::span<std::byte> copied_, turned_;
};

}  // namespace flight
