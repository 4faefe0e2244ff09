// SPDX-License-Identifier: Apache-2.0
// flightd's side: the rings from the broker, each mapped once. Sizes come from the manifest, never from a ring's
// control page; only the head is read from that.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/recorder/forward_ring.hpp"

namespace flight {

// One overwritten ring of a channel, mapped read-only.
class Ring {
 public:
  // `owner`: the dummy's fd. PROT_READ: the kernel then overwrites the oldest.
  [[nodiscard]] static Result<Ring> open(UniqueFd owner, const ManifestRing& ring);

  // data_head, load-acquire: everything above it is complete. Any thread.
  [[nodiscard]] std::uint64_t head() const;
  [[nodiscard]] std::span<const std::byte> bytes() const;
  // PERF_EVENT_IOC_PAUSE_OUTPUT; 0 or an errno. No allocation: the freeze thread calls it.
  [[nodiscard]] int pause() const;
  [[nodiscard]] int resume() const;

  [[nodiscard]] const ManifestRing& info() const { return info_; }
  [[nodiscard]] int fd() const { return owner_.get(); }
  // The owner's PERF_EVENT_IOC_ID, unique in this boot: it identifies a ring across attaches.
  [[nodiscard]] std::uint64_t owner_id() const { return owner_id_; }

 private:
  Ring(UniqueFd owner, std::uint64_t owner_id, Mapping mapping, ManifestRing info)
      : owner_(std::move(owner)), owner_id_(owner_id), mapping_(std::move(mapping)), info_(std::move(info)) {}
  UniqueFd owner_;
  std::uint64_t owner_id_;
  Mapping mapping_;
  ManifestRing info_;
};
// Shared, because a ring is mapped once and outlives the attach that brought it.
using Rings = std::vector<std::shared_ptr<const Ring>>;

// One CPU's forward sideband ring. One thread drains it.
class SidebandRing {
 public:
  [[nodiscard]] static Result<SidebandRing> open(UniqueFd owner, const ManifestRing& ring) {
    auto opened = ForwardRing::open(std::move(owner), ring);
    if (!opened) return propagate(opened.error());
    return SidebandRing(std::move(*opened));
  }

  // ForwardRing::copy. The records' id becomes the owner's: the sideband event may be another one after its CPU was
  // offline. Corrupted data is reported by a synthetic PERF_RECORD_LOST.
  void copy(std::vector<std::byte>& out);
  // ForwardRing::was_full.
  [[nodiscard]] bool was_full() const { return ring_.was_full(); }
  // ForwardRing::release.
  void release() { ring_.release(); }
  void drain(std::vector<std::byte>& out) {
    copy(out);
    release();
  }
  [[nodiscard]] int fd() const { return ring_.fd(); }
  [[nodiscard]] std::uint64_t owner_id() const { return ring_.owner_id(); }
  [[nodiscard]] const ManifestRing& info() const { return ring_.info(); }

 private:
  explicit SidebandRing(ForwardRing ring) : ring_(std::move(ring)) {}
  ForwardRing ring_;
};

}  // namespace flight
