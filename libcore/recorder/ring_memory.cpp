// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/ring_memory.hpp"

#include <linux/perf_event.h>
#include <unistd.h>

#include <bit>
#include <string>

#include "libcore/perf/kernel_features.hpp"

namespace flight {
namespace {

std::string name_of(const ManifestRing& ring) {
  if (ring.kind == RingKind::sideband) return fmt::format("the sideband ring of CPU {}", ring.cpu);
  if (ring.kind == RingKind::trigger) return fmt::format("the ring of trigger '{}', CPU {}", ring.channel, ring.cpu);
  return fmt::format("the ring of channel '{}', CPU {}", ring.channel, ring.cpu);
}

}  // namespace

std::size_t page_bytes() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

std::uint64_t ring_head(const Mapping& mapping) {
  const auto* control = reinterpret_cast<const perf_event_mmap_page*>(mapping.data());
  return __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
}

Result<Mapping> map_ring(int fd, const ManifestRing& ring, int prot) {
  const std::size_t page = page_bytes();
  if (!std::has_single_bit(ring.ring_bytes) || ring.ring_bytes < page)
    return fail(std::errc::invalid_argument, "{}: {} bytes are not a power of two from {}", name_of(ring),
                ring.ring_bytes, page);
  auto mapping = Mapping::open(fd, page + ring.ring_bytes, prot);
  if (mapping) return mapping;
  auto refused = wrap(mapping.error(), "map {}", name_of(ring));
  if (const std::string hint = explain_privilege(mapping.error().errno_value()); !hint.empty())
    refused.value().what += ": " + hint;
  return refused;
}

}  // namespace flight
