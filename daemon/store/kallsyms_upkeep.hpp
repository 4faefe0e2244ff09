// SPDX-License-Identifier: Apache-2.0
// The kernel symbols in the store: deletes those that no snapshot needs any more, and says which snapshot needs which.
// Store thread only, because a disk may block.
#pragma once

#include <cstdint>

#include "libcore/store/catalogue.hpp"
#include "libcore/store/vacuum.hpp"

namespace flight::daemon {

// Returns the bytes (st_blocks) that were freed. Nothing is deleted while the snapshots cannot be listed, or while one
// has no sidecar: its boot is unknown.
std::uint64_t drop_unneeded_kallsyms(Catalogue& catalogue);

// Sets StoredSnapshot::symbols. What no snapshot needs counts no bytes any more: drop_unneeded_kallsyms() deletes it
// after the next deletion. Changes nothing in the cases in which that deletes nothing.
void name_symbols(Inventory& inventory, Catalogue& catalogue);

}  // namespace flight::daemon
