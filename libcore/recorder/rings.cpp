// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/rings.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libcore/base/clock.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/recorder/ring_memory.hpp"

namespace flight {
namespace {

perf_event_mmap_page* control_page(const Mapping& mapping) {
  return reinterpret_cast<perf_event_mmap_page*>(mapping.data());
}

// The kernel writes data_head after the records below it (smp_store_release in perf_output_put_handle).
std::uint64_t load_head(const Mapping& mapping) {
  return __atomic_load_n(&control_page(mapping)->data_head, __ATOMIC_ACQUIRE);
}

int set_paused(int fd, unsigned long paused) {
  return ::ioctl(fd, PERF_EVENT_IOC_PAUSE_OUTPUT, paused) == 0 ? 0 : errno;
}

// A PERF_RECORD_LOST of our own: whoever reads the sideband learns that records are missing.
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

// How many bytes from the beginning of `bytes` are whole records. The last of each record's trailer is its id, which
// becomes `id`.
std::size_t take_whole_records(std::span<std::byte> bytes, std::uint64_t id) {
  std::size_t whole = 0;
  for (;;) {
    const auto record = next_record(bytes.subspan(whole));
    if (record.empty()) return whole;
    whole += record.size();
    if (record.size() >= sizeof(perf_event_header) + sizeof(Trailer))
      std::memcpy(bytes.data() + whole - sizeof id, &id, sizeof id);
  }
}

}  // namespace

Result<Ring> Ring::open(UniqueFd owner, const ManifestRing& ring) {
  const auto id = event_id(owner.get());
  if (!id) return pass(id.error());
  auto mapping = map_ring(owner.get(), ring, PROT_READ);
  if (!mapping) return pass(mapping.error());
  return Ring(std::move(owner), *id, std::move(*mapping), ring);
}

std::uint64_t Ring::head() const { return load_head(mapping_); }

std::span<const std::byte> Ring::bytes() const { return mapping_.bytes().subspan(page_bytes()); }

int Ring::pause() const { return set_paused(owner_.get(), 1); }

int Ring::resume() const { return set_paused(owner_.get(), 0); }

Result<SidebandRing> SidebandRing::open(UniqueFd owner, const ManifestRing& ring) {
  const auto id = event_id(owner.get());
  if (!id) return pass(id.error());
  auto mapping = map_ring(owner.get(), ring, PROT_READ | PROT_WRITE);
  if (!mapping) return pass(mapping.error());
  return SidebandRing(std::move(owner), *id, std::move(*mapping), ring);
}

void SidebandRing::drain(std::vector<std::byte>& out) {
  const std::span<const std::byte> data = mapping_.bytes().subspan(page_bytes());
  perf_event_mmap_page* control = control_page(mapping_);
  const std::uint64_t head = load_head(mapping_);
  // Ours to write, and where the flightd before this one stopped; it may have left nonsense.
  const std::uint64_t tail = __atomic_load_n(&control->data_tail, __ATOMIC_RELAXED);
  const std::uint64_t pending = head - tail;
  if (pending == 0) return;
  const std::size_t before = out.size();
  if (pending <= data.size()) {
    out.resize(before + pending);
    const std::size_t begin = tail & (data.size() - 1);
    const std::size_t first = std::min<std::size_t>(pending, data.size() - begin);
    std::memcpy(out.data() + before, data.data() + begin, first);
    std::memcpy(out.data() + before + first, data.data(), pending - first);
    out.resize(before + take_whole_records(std::span(out).subspan(before), owner_id_));
  }
  // Between two heads there are whole records only; anything else, and the next begin at the head again.
  if (out.size() - before != pending) append_lost(out, info_);
  // Release: the copies above are done before the kernel may write there.
  __atomic_store_n(&control->data_tail, head, __ATOMIC_RELEASE);
}

}  // namespace flight
