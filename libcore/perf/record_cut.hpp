// SPDX-License-Identifier: Apache-2.0
// Repairs sideband records that the kernel wrote with a wrong size.
//
// perf_event_ksymbol_output() and perf_event_bpf_output() (kernel/events/core.c, seen on 6.18) add each receiver's
// trailer to the size in the one header that all receivers share, and do not take it back. With another user's perf on
// the machine, our record therefore claims to be longer than it is:
//
//   | header | content | our trailer | stale bytes of the ring |
//   |<---------------- claimed size ------------------------->|
//
// The content gives its own length: KSYMBOL has a name that is padded to 8 bytes, BPF_EVENT is 24 bytes.
#pragma once

#include <cstddef>

#include "libcore/perf/record_build.hpp"

namespace flight {

// Cuts such records behind their trailer. `records`: whole ones, as the kernel wrote them. Returns how many were cut.
std::size_t cut_to_content(RecordBuffer& records);

}  // namespace flight
