// SPDX-License-Identifier: Apache-2.0
// Finds processes of which not all code is known, although nothing else says so: one of their samples was taken in the
// program, where no known mapping is. What ran is always code, so there is other code that is not known, either. It was
// moved by mremap(2), by the program itself or by CRIU, which restores a process so: the kernel writes no record of it.
#pragma once

#include "libcore/snapshot/mapped_code.hpp"
#include "libcore/snapshot/selection.hpp"
#include "libcore/snapshot/worker_pool.hpp"

namespace flight {

// By RingSelection::leaves, on the workers; it reads no record. All samples are looked at before the first is written,
// since a doubt also holds for earlier ones. Any thread but a worker.
void doubt_unmapped_leaves(MappedCode& code, const Selection& selection, WorkerPool& workers);

}  // namespace flight
