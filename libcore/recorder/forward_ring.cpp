// SPDX-License-Identifier: Apache-2.0
#include "libcore/recorder/forward_ring.hpp"

#include <linux/perf_event.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/recorder/ring_memory.hpp"

namespace flight {
namespace {

// A sideband record contains at most a path of PATH_MAX bytes.
constexpr std::uint64_t kMostRecordBytes = 8192;

}  // namespace

Result<ForwardRing> ForwardRing::open(UniqueFd owner, const ManifestRing& ring) {
  const auto id = event_id(owner.get());
  if (!id) return propagate(id.error());
  auto mapping = map_ring(owner.get(), ring, PROT_READ | PROT_WRITE);
  if (!mapping) return propagate(mapping.error());
  return ForwardRing(std::move(owner), *id, std::move(*mapping), ring);
}

bool ForwardRing::copy(std::vector<std::byte>& out) {
  const std::span<const std::byte> data = mapping_.bytes().subspan(page_bytes());
  const auto* control = reinterpret_cast<const perf_event_mmap_page*>(mapping_.data());
  const std::uint64_t head = ring_head(mapping_);
  // Written by flightd. An earlier flightd may have left an invalid value.
  const std::uint64_t tail = __atomic_load_n(&control->data_tail, __ATOMIC_RELAXED);
  const std::uint64_t pending = head - tail;
  was_full_ = pending + kMostRecordBytes > data.size();
  if (pending == 0) return true;
  copied_to_ = head;
  const std::size_t before = out.size();
  if (pending <= data.size()) {
    out.resize(before + pending);
    const std::size_t begin = tail & (data.size() - 1);
    const std::size_t first = std::min<std::size_t>(pending, data.size() - begin);
    std::memcpy(out.data() + before, data.data() + begin, first);
    std::memcpy(out.data() + before + first, data.data(), pending - first);
    out.resize(before + whole_record_bytes(std::span(out).subspan(before)));
  }
  // Between two heads there are whole records only.
  return out.size() - before == pending;
}

void ForwardRing::release() {
  if (!copied_to_) return;
  auto* control = reinterpret_cast<perf_event_mmap_page*>(mapping_.data());
  // Release: the copies are done before the kernel may write there.
  __atomic_store_n(&control->data_tail, *std::exchange(copied_to_, std::nullopt), __ATOMIC_RELEASE);
}

std::size_t whole_record_bytes(std::span<const std::byte> bytes) {
  std::size_t whole = 0;
  for (;;) {
    const auto record = next_record(bytes.subspan(whole));
    if (record.empty()) return whole;
    whole += record.size();
  }
}

}  // namespace flight
