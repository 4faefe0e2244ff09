// SPDX-License-Identifier: Apache-2.0
// The state of the process tracker, as records that restore the same tracker. Private to sideband.
//
//   kernel table │ exited processes, the last to exit first │ living processes │ the whole log
//   └────────────── most_state_bytes ──────────────────────────────────────────┘
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/process_table.hpp"
#include "libcore/sideband/process_tracker.hpp"
#include "libcore/sideband/record_log.hpp"

namespace flight {

// `write` is called with whole records, some hundred KB at a time.
[[nodiscard]] CheckpointOmissions write_checkpoint(const RecordLog& log, const ProcessTable& table,
                                                   const KernelTable& kernel, std::size_t most_state_bytes,
                                                   const std::function<void(std::span<const std::byte>)>& write);

}  // namespace flight
