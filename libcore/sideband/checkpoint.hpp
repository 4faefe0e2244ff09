// SPDX-License-Identifier: Apache-2.0
// All that the ledger knows, as records that make the same ledger again, in any order; private to sideband.
//
//   kernel table │ dead processes, the last to die first │ the living │ the log as it is
//   └────────────── most_state_bytes ────────────────────────────────┘
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/ledger.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

// `write` is called with whole records, some hundred KB at a time.
[[nodiscard]] LedgerCheckpoint write_checkpoint(const RecordLog& log, const ProcessTable& table,
                                                const KernelTable& kernel, std::size_t most_state_bytes,
                                                const std::function<void(std::span<const std::byte>)>& write);

}  // namespace flight
