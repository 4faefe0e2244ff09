// SPDX-License-Identifier: Apache-2.0
#include "daemon/attached.hpp"

#include "libcore/snapshot/selection.hpp"
#include "libcore/snapshot/snapshot.hpp"

namespace flight {

Result<std::unique_ptr<Attached>> Attached::open(Attachment attachment) {
  std::vector<Ring> rings;
  std::vector<std::size_t> channel_rings;
  std::vector<SidebandRing> sideband;
  for (std::size_t i = 0; i < attachment.manifest.rings.size(); ++i) {
    const ManifestRing& info = attachment.manifest.rings[i];
    if (info.kind == RingKind::sideband) {
      auto ring = SidebandRing::open(std::move(attachment.owners[i]), info);
      if (!ring) return wrap(ring.error(), "sideband ring of CPU {}", info.cpu);
      sideband.push_back(std::move(*ring));
    } else {
      auto ring = Ring::open(std::move(attachment.owners[i]), info);
      if (!ring) return wrap(ring.error(), "ring of channel {}, CPU {}", info.channel, info.cpu);
      rings.push_back(std::move(*ring));
      channel_rings.push_back(i);
    }
  }
  auto staging = Staging::create(rings);
  if (!staging) return pass(staging.error());
  std::unique_ptr<Attached> out(new Attached(std::move(*staging)));
  out->rings = std::move(rings);
  out->channel_rings = std::move(channel_rings);
  out->sideband = std::move(sideband);
  out->events = event_table(attachment.manifest);
  out->manifest = std::move(attachment.manifest);
  if (!attachment.kallsyms.empty()) {
    auto frame = pack_kallsyms(attachment.kallsyms);
    if (!frame) return wrap(frame.error(), "compress kallsyms");
    out->kallsyms_frame = std::move(*frame);
  }
  return out;
}

std::uint64_t Attached::ring_bytes() const {
  std::uint64_t sum = 0;
  for (const ManifestRing& ring : manifest.rings) sum += ring.ring_bytes;
  return sum;
}

}  // namespace flight
