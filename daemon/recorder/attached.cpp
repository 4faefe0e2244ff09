// SPDX-License-Identifier: Apache-2.0
#include "daemon/recorder/attached.hpp"

#include <algorithm>

#include "libcore/base/version.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/snapshot/selection.hpp"

namespace flight::daemon {
namespace {

// The ring in `held` if the broker sent its owner again, otherwise a new one. Compared by the kernel's id of the
// owner: after a reload, a CPU and channel may have another ring.
template <typename R, typename List>
Result<std::shared_ptr<R>> find_or_map(UniqueFd owner, const ManifestRing& info, const List* held) {
  if (held != nullptr) {
    const auto id = event_id(owner.get());
    if (!id) return propagate(id.error());
    for (const auto& ring : *held) {
      if (ring->owner_id() != *id) continue;
      if (ring->info().ring_bytes != info.ring_bytes)
        return fail(std::errc::bad_message, "a ring of {} bytes has {} now", ring->info().ring_bytes, info.ring_bytes);
      return ring;
    }
  }
  auto ring = std::remove_const_t<R>::open(std::move(owner), info);
  if (!ring) return wrap(ring.error(), "ring of channel '{}', CPU {}", info.channel, info.cpu);
  return std::make_shared<R>(std::move(*ring));
}

}  // namespace

Result<std::shared_ptr<Attached>> Attached::open(Attachment attachment, const Attached* before) {
  Rings rings;
  std::vector<std::size_t> channel_rings;
  std::vector<std::shared_ptr<SidebandRing>> sideband;
  std::vector<SharedForwardRing> triggers;
  for (std::size_t i = 0; i < attachment.manifest.rings.size(); ++i) {
    const ManifestRing& info = attachment.manifest.rings[i];
    UniqueFd owner = std::move(attachment.owners[i]);
    if (info.kind == RingKind::sideband) {
      auto ring = find_or_map<SidebandRing>(std::move(owner), info, before != nullptr ? &before->sideband : nullptr);
      if (!ring) return propagate(ring.error());
      sideband.push_back(std::move(*ring));
    } else if (info.kind == RingKind::trigger) {
      auto ring = find_or_map<ForwardRing>(std::move(owner), info, before != nullptr ? &before->triggers : nullptr);
      if (!ring) return propagate(ring.error());
      triggers.push_back(std::move(*ring));
    } else {
      auto ring = find_or_map<const Ring>(std::move(owner), info, before != nullptr ? &before->rings : nullptr);
      if (!ring) return propagate(ring.error());
      rings.push_back(std::move(*ring));
      channel_rings.push_back(i);
    }
  }
  auto staging = Staging::create(rings, before != nullptr ? &before->staging : nullptr);
  if (!staging) return propagate(staging.error());
  std::shared_ptr<Attached> out(new Attached(std::move(*staging)));
  out->rings = std::move(rings);
  out->channel_rings = std::move(channel_rings);
  out->sideband = std::move(sideband);
  out->triggers = std::move(triggers);
  out->events = event_table(attachment.manifest);
  out->manifest = std::move(attachment.manifest);
  return out;
}

Result<std::shared_ptr<Attached>> Attached::none(std::string boot_id) {
  Attachment nothing;
  nothing.manifest.boot_id = std::move(boot_id);
  nothing.manifest.version = kVersion;
  return open(std::move(nothing));
}

std::uint64_t Attached::ring_bytes() const {
  std::uint64_t sum = 0;
  for (const ManifestRing& ring : manifest.rings) sum += ring.ring_bytes;
  return sum;
}

std::size_t Attached::online_cpus() const {
  return static_cast<std::size_t>(std::count_if(manifest.rings.begin(), manifest.rings.end(), [this](const auto& ring) {
    return ring.kind == RingKind::sideband && ring.online && any_channel_records(manifest, ring.cpu);
  }));
}

}  // namespace flight::daemon
