// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/rings.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "libcore/base/clock.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/recorder/ring_memory.hpp"

namespace flight {
namespace {

int set_paused(int fd, unsigned long paused) {
  return ::ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, paused) == 0 ? 0 : errno;
}

// A synthetic PERF_RECORD_LOST shows readers of the sideband that records are missing.
void append_lost(std::vector<std::byte>& out, const ManifestRing& ring) {
  struct Lost {
    perf_event_header header;
    std::uint64_t id, lost;
    Trailer trailer;
  } record{};
  static_assert(sizeof record == 56);
  record.header = {.type = PERF_RECORD_LOST, .misc = 0, .size = sizeof record};
  record.lost = 1;
  record.trailer.time_ns = monotonic_now();
  record.trailer.cpu = static_cast<std::uint32_t>(ring.cpu);
  const auto* raw = reinterpret_cast<const std::byte*>(&record);
  out.insert(out.end(), raw, raw + sizeof record);
}

// The last field of each whole record's trailer is its id, which is replaced by `id`.
void set_ids(std::span<std::byte> records, std::uint64_t id) {
  while (!records.empty()) {
    const std::size_t size = next_record(records).size();
    if (size >= sizeof(perf_event_header) + sizeof(Trailer))
      std::memcpy(records.data() + size - sizeof id, &id, sizeof id);
    records = records.subspan(size);
  }
}

}  // namespace

Result<Ring> Ring::open(UniqueFd owner, const ManifestRing& ring) {
  const auto id = event_id(owner.get());
  if (!id) return propagate(id.error());
  auto mapping = map_ring(owner.get(), ring, PROT_READ);
  if (!mapping) return propagate(mapping.error());
  return Ring(std::move(owner), *id, std::move(*mapping), ring);
}

std::uint64_t Ring::head() const { return ring_head(mapping_); }

std::span<const std::byte> Ring::bytes() const { return mapping_.bytes().subspan(page_bytes()); }

int Ring::pause() const { return set_paused(owner_.get(), 1); }

int Ring::resume() const { return set_paused(owner_.get(), 0); }

void SidebandRing::copy(std::vector<std::byte>& out) {
  const std::size_t before = out.size();
  const bool whole = ring_.copy(out);
  set_ids(std::span(out).subspan(before), ring_.owner_id());
  if (!whole) append_lost(out, ring_.info());
}

}  // namespace flight
