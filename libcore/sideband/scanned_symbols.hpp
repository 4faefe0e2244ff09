// SPDX-License-Identifier: Apache-2.0
// Merges the generated code that a scan lists with the symbols that the process tracker knows. Private to sideband.
//
//   unknown, and no gap                  state: it was there before the recording
//   unknown or another name after a gap  a record at the end of the gap; what was there before ends with its beginning
//   known, not listed after a gap        it ends with the beginning of the gap
//   changed after the list was read      left as it is: the log knows better
//
// So a name is confirmed or unknown, as those of processes are (docs/decisions/0012, 0015).
#pragma once

#include <optional>
#include <string_view>

#include "libcore/sideband/kernel_table.hpp"
#include "libcore/sideband/record_log.hpp"
#include "libcore/sideband/scanned.hpp"

namespace flight {

// Records of symbols can be missing in it, and no list was read since.
struct SymbolGap {
  EventTime begin_ns = 0, end_ns = 0;
};

// What is known about BPF programs that have no record of their load.
enum class OldBpf {
  listed,      // all are known
  cut,         // there were too many
  not_listed,  // the kernel lists none: none was loaded, or it hides them
  hidden,      // it hides them: it lists none, but a record of one is known
};

// `known_from_ns`: nothing is known from before, because a predecessor's data is lost. Appends records for the log to
// `additions`.
[[nodiscard]] OldBpf merge_symbols(const ScannedSymbols& scan, const std::optional<SymbolGap>& gap,
                                   EventTime known_from_ns, const RecordLog& log, KernelTable& kernel,
                                   RecordBuffer& additions);

// Before the list is read: all symbols that are known from before the gap end with its beginning.
void end_symbols(const SymbolGap& gap, const RecordLog& log, const KernelTable& kernel, RecordBuffer& additions);

// For a person; empty: nothing is missing.
[[nodiscard]] std::string_view text_of(OldBpf old);

}  // namespace flight
