// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/files/sideband_cursor.hpp"

#include <linux/perf_event.h>
#include <unistd.h>

#include <algorithm>

namespace flight::broker {
namespace {

// The kernel writes a record before it moves the head. At most four contexts (task, softirq, irq, NMI) write at once,
// and a sideband record has at most about 4.3 KiB.
constexpr std::uint64_t kBeingWritten = 32U << 10U;

}  // namespace

SidebandCursor::SidebandCursor(std::span<const std::byte> ring)
    : ring_(ring), page_bytes_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
  at_ = head();
}

// The acquire pairs with the kernel's barrier between the records and the head (perf_event_open(2)).
std::uint64_t SidebandCursor::head() const {
  const auto* control = reinterpret_cast<const perf_event_mmap_page*>(ring_.data());
  return __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
}

bool SidebandCursor::has_news() const { return head() != at_; }

void SidebandCursor::read(std::vector<std::byte>& out) {
  const auto data = ring_.subspan(page_bytes_);
  const std::uint64_t bytes = data.size();
  const std::uint64_t safe = bytes - std::min(kBeingWritten, bytes / 2);
  const std::uint64_t end = head();
  const std::uint64_t wanted = end - at_;
  const std::size_t before = out.size();
  if (wanted == 0) return;
  if (wanted <= safe) {
    const auto from = static_cast<std::size_t>(at_ & (bytes - 1));
    const std::size_t first = std::min<std::size_t>(wanted, bytes - from);
    out.insert(out.end(), data.begin() + static_cast<std::ptrdiff_t>(from),
               data.begin() + static_cast<std::ptrdiff_t>(from + first));
    out.insert(out.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(wanted - first));
    __atomic_thread_fence(__ATOMIC_ACQUIRE);  // the copy is complete before the head is read again
  }
  if (wanted > safe || head() - at_ > safe) {
    // The start of the next record in the rest is unknown, so all of it is skipped; the head is a known start.
    out.resize(before);
    missed_ += wanted;
  }
  at_ = end;
}

}  // namespace flight::broker
