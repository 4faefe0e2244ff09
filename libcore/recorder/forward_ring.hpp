// SPDX-License-Identifier: Apache-2.0
// flightd's side of a forward ring: mapped read-write, so that the kernel stops where nobody has read yet. One thread
// drains it, and is its only poller: poll(2) takes a wakeup away from any other (perf_poll() in kernel/events/core.c).
// Of the control page only the head is believed, the size is the manifest's.
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

  // Appends all whole records that are there to `out`. False: there was something else, too, or in their place (a tail
  // or records that somebody spoilt); after the release the next copy begins at the head again.
  bool copy(std::vector<std::byte>& out);
  // Gives the room of what was copied back to the kernel (data_tail, store-release). Until then whoever maps the ring
  // next finds the same records.
  void release();
  // Both.
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
};

// The length of the whole records at the beginning of `bytes`.
[[nodiscard]] std::size_t whole_record_bytes(std::span<const std::byte> bytes);

}  // namespace flight
