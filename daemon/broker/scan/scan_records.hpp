// SPDX-License-Identifier: Apache-2.0
// The sideband records of what a scan has found, as the kernel would have written them. Any thread: these functions
// only convert what was read, and append it. `trailer`: with the time of the read and the sideband's id (scan.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "libcore/base/clock.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sysinfo/generated_code.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::broker {

// KSYMBOL records of generated code and their kScanSymbolsListed; nullptr: they were not read.
using SymbolRecords = std::shared_ptr<const RecordBuffer>;

// A record of the executable that covers nothing: none of the process's mappings is one of it, or they are not read.
void append_executable(RecordBuffer& out, const ProcessInfo& process, const Trailer& trailer);
void append_mappings(RecordBuffer& out, const ProcessInfo& process, const Trailer& trailer);
// Appends kUnreadProgram for a process that looks like a kernel thread and is none, unless one of `records`, which
// follow, is its executable.
void append_unread_program(RecordBuffer& out, const ProcessStat& process, std::span<const std::byte> records,
                           const Trailer& trailer);
// At the process's start by CLOCK_BOOTTIME. `mark`: what is missing (protocol.hpp).
void append_leader(RecordBuffer& out, const ProcessStat& process, Trailer trailer, std::uint32_t mark);
void append_threads(RecordBuffer& out, const ProcessInfo& process, Trailer trailer);
// Symbols beyond `most_bytes` are left out, and the end says so.
[[nodiscard]] SymbolRecords symbol_records(const GeneratedCode& code, const Trailer& trailer, std::size_t most_bytes);
// The same list with another time: it was still right then.
[[nodiscard]] SymbolRecords symbols_at(EventTime time_ns, const RecordBuffer& symbols);

}  // namespace flight::broker
