// SPDX-License-Identifier: Apache-2.0
// Deletes kernel symbols in the store that no snapshot refers to any more. Store thread only, because a disk may
// block.
#pragma once

#include <cstdint>

#include "libcore/store/catalogue.hpp"

namespace flight::daemon {

// Returns the bytes (st_blocks) that were freed. Nothing is deleted while the snapshots cannot be listed, or while one
// has no sidecar: its boot is unknown.
std::uint64_t drop_unneeded_kallsyms(Catalogue& catalogue);

}  // namespace flight::daemon
