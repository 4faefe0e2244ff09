// SPDX-License-Identifier: Apache-2.0
// Reads a sideband ring in parallel to its consumer: flightd drains it, the broker only reads. It moves no tail, so
// the kernel may overwrite the bytes while they are copied. The head is read again after the copy, and a copy that may
// have been overwritten is dropped and counted.
//
//      tail (flightd's)        at_ (ours)         head
//   ─────┬─────────────────────────┬────────────────┬──────
//        │ records                 │ what is new    │ free: the kernel writes here next
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flight::broker {

class SidebandCursor {
 public:
  // `ring`: the control page and the data, as mapped. Starts at the next new record.
  explicit SidebandCursor(std::span<const std::byte> ring);
  // Starts at the oldest record; for a ring that was empty before.
  void rewind() { at_ = 0; }

  // Whether there are new records; costs one load.
  [[nodiscard]] bool has_news() const;
  // Appends the new records to `out`, whole records only.
  void read(std::vector<std::byte>& out);
  // Bytes that were overwritten before or while they were copied.
  [[nodiscard]] std::uint64_t missed_bytes() const { return missed_; }

 private:
  [[nodiscard]] std::uint64_t head() const;
  std::span<const std::byte> ring_;
  std::size_t page_bytes_;
  std::uint64_t at_ = 0, missed_ = 0;
};

}  // namespace flight::broker
