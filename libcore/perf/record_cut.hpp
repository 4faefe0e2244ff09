// SPDX-License-Identifier: Apache-2.0
// Repairs sideband records that the kernel wrote with a wrong size, or with a wrong mark.
//
// perf_event_ksymbol_output() and perf_event_bpf_output() (kernel/events/core.c, seen on 6.18) add each receiver's
// trailer to the size in the one header that all receivers share, and do not take it back. With another user's perf on
// the machine, our record therefore claims to be longer than it is:
//
//   | header | content | our trailer | stale bytes of the ring |
//   |<---------------- claimed size ------------------------->|
//
// The content gives its own length: KSYMBOL has a name that is padded to 8 bytes, BPF_EVENT is 24 bytes.
//
// In the same way perf_event_mmap_output() marks an MMAP2 record as one that has a build-id, for a receiver that asked
// for build-ids (attr.build_id, `perf record --buildid-mmap`), and does not take it back: records of those that come
// later have the mark, and the numbers of the file in the place of the build-id.
#pragma once

#include <cstddef>
#include <span>

#include "libcore/perf/record_build.hpp"

namespace flight {

// Cuts such records behind their trailer and takes wrong marks away, in one pass. `records`: whole ones, as the kernel
// wrote them for an event without attr.build_id, so that every mark is a wrong one. Returns how many were cut.
std::size_t repair_records(RecordBuffer& records);

// Only the marks, for a reader to whom the size does not matter.
void clear_build_id_marks(std::span<std::byte> records);

}  // namespace flight
