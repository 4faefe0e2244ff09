// SPDX-License-Identifier: Apache-2.0
// Maps a ring, in the same way on both sides of the broker protocol: a control page, then 2^n bytes of data. The
// caller passes the size; the control page is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight {

// The page size of this machine; data begins there (perf_event_open(2)).
[[nodiscard]] std::size_t page_bytes();
// prot: PROT_READ: the kernel overwrites the oldest; PROT_READ | PROT_WRITE: it stops at data_tail. The first mapping
// of a ring decides. EPERM: locked memory is used up; the text says what to do.
[[nodiscard]] Result<Mapping> map_ring(int fd, const ManifestRing& ring, int prot);
// data_head, load-acquire: the kernel stores it after the records below it (smp_store_release in
// perf_output_put_handle()).
[[nodiscard]] std::uint64_t ring_head(const Mapping& mapping);

}  // namespace flight
