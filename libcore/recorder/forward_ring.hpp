// SPDX-License-Identifier: Apache-2.0
// flightd's side of a forward ring, mapped read-write, so that the kernel stops at unread records. One thread drains
// and polls it: poll(2) consumes the wakeup of any other poller (perf_poll() in kernel/events/core.c). Only the head
// is read from the control page; the size comes from the manifest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight {

class ForwardRing {
 public:
  [[nodiscard]] static Result<ForwardRing> open(UniqueFd owner, const ManifestRing& ring);

  // Appends all whole records to `out`. False: there was other data, too (a tail or records that were corrupted);
  // after release() the next copy starts at the head.
  bool copy(std::vector<std::byte>& out);
  // Whether a record may not have fit when the ring was last copied. The kernel reports a loss only with the next
  // record that it writes into this ring, and on a quiet CPU that can take minutes.
  [[nodiscard]] bool was_full() const { return was_full_; }
  // Gives the space of the copied records back to the kernel (data_tail, store-release). Until then the next process
  // that maps the ring finds the same records.
  void release();
  // copy() and release().
  bool drain(std::vector<std::byte>& out) {
    const bool whole = copy(out);
    release();
    return whole;
  }

  [[nodiscard]] int fd() const { return owner_.get(); }
  [[nodiscard]] std::uint64_t owner_id() const { return owner_id_; }
  [[nodiscard]] const ManifestRing& info() const { return info_; }

 private:
  ForwardRing(UniqueFd owner, std::uint64_t owner_id, Mapping mapping, ManifestRing info)
      : owner_(std::move(owner)), owner_id_(owner_id), mapping_(std::move(mapping)), info_(std::move(info)) {}
  UniqueFd owner_;
  std::uint64_t owner_id_;
  Mapping mapping_;
  ManifestRing info_;
  std::optional<std::uint64_t> copied_to_;  // the head at the last copy
  bool was_full_ = false;
};

// The length of the whole records at the beginning of `bytes`.
[[nodiscard]] std::size_t whole_record_bytes(std::span<const std::byte> bytes);

}  // namespace flight
