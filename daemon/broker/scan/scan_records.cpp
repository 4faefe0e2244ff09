// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/scan/scan_records.hpp"

#include <linux/perf_event.h>

#include <cstring>

#include "libcore/broker/protocol.hpp"

namespace flight::broker {

namespace {

void append_mapping(RecordBuffer& out, const ProcessMapping& mapping, const Trailer& trailer) {
  append_mmap2(out,
               {.pid = trailer.pid,
                .tid = trailer.tid,
                .address = mapping.address,
                .bytes = mapping.bytes,
                .page_offset = mapping.page_offset,
                .major = mapping.major,
                .minor = mapping.minor,
                .inode = mapping.inode,
                .protection = mapping.protection,
                .flags = mapping.flags,
                .name = mapping.name,
                .is_program = mapping.is_program},
               trailer);
}

}  // namespace

void append_executable(RecordBuffer& out, const ProcessInfo& process, const Trailer& trailer) {
  if (process.executable.empty()) return;
  append_mmap2(out, {.pid = trailer.pid, .tid = trailer.tid, .name = process.executable, .is_program = true}, trailer);
}

void append_mappings(RecordBuffer& out, const ProcessInfo& process, const Trailer& trailer) {
  bool has_program = false;
  for (const ProcessMapping& mapping : process.mappings) {
    append_mapping(out, mapping, trailer);
    has_program = has_program || mapping.is_program;
  }
  if (!has_program) append_executable(out, process, trailer);
}

// The kernel starts such helpers with kthreadd as their parent: core_pattern, modprobe (kernel/umh.c).
void append_unread_program(RecordBuffer& out, const ProcessStat& process, std::span<const std::byte> records,
                           const Trailer& trailer) {
  constexpr std::uint32_t kKthreadd = 2;
  if (process.parent != kKthreadd || process.is_kernel_thread) return;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    records = records.subspan(record.size());
    if (const auto map = parse_mmap2(record); map && map->is_program) return;
  }
  append_mmap2(out, {.pid = process.pid, .tid = process.pid, .name = kUnreadProgram, .is_program = true}, trailer);
}

void append_leader(RecordBuffer& out, const ProcessStat& process, Trailer trailer, std::uint32_t mark) {
  trailer.pid = trailer.tid = process.pid;
  trailer.reserved = mark;
  // The leader inherits nothing here: all its mappings follow.
  append_fork(out,
              {.pid = process.pid,
               .ppid = process.parent,
               .tid = process.pid,
               .ptid = process.parent,
               .time_ns = process.started_boottime_ns,
               .exec = true},
              trailer);
  trailer.reserved = 0;
  if (mark != kScanUnread) append_comm(out, {.pid = process.pid, .tid = process.pid, .name = process.comm}, trailer);
}

void append_threads(RecordBuffer& out, const ProcessInfo& process, Trailer trailer) {
  trailer.pid = process.pid;
  for (const ProcessInfo::Thread& thread : process.threads) {
    trailer.tid = thread.tid;
    append_fork(out,
                {.pid = process.pid,
                 .ppid = process.pid,
                 .tid = thread.tid,
                 .ptid = process.pid,
                 .time_ns = process.started_boottime_ns},
                trailer);
    append_comm(out, {.pid = process.pid, .tid = thread.tid, .name = thread.comm}, trailer);
  }
  if (process.threads_left_out == 0) return;
  trailer.tid = process.pid;
  trailer.reserved = kScanThreadsLeftOut;
  append_lost(out, {.id = process.threads_left_out, .lost = 0}, trailer);
}

SymbolRecords symbol_records(const GeneratedCode& code, const Trailer& trailer, std::size_t most_bytes) {
  RecordBuffer out;
  std::uint64_t written = 0;
  for (const GeneratedSymbol& symbol : code.symbols) {
    if (out.size() >= most_bytes) break;
    const std::uint16_t kind = symbol.bpf ? PERF_RECORD_KSYMBOL_TYPE_BPF : PERF_RECORD_KSYMBOL_TYPE_OOL;
    append_ksymbol(out, {symbol.address, symbol.bytes, kind, 0, symbol.name}, trailer);
    ++written;
  }
  const bool cut = code.left_out != 0 || written != code.symbols.size();
  Trailer end = trailer;
  end.reserved = kScanSymbolsListed;
  append_lost(out, {.id = written, .lost = (cut ? kScanSymbolsCut : 0) | (code.no_bpf ? kScanSymbolsNoBpf : 0)}, end);
  return std::make_shared<const RecordBuffer>(std::move(out));
}

// The last record is the end, which has the time of the list.
SymbolRecords symbols_at(EventTime time_ns, const RecordBuffer& symbols) {
  RecordBuffer out = symbols;
  std::memcpy(out.data() + out.size() - sizeof(Trailer) + offsetof(Trailer, time_ns), &time_ns, sizeof time_ns);
  return std::make_shared<const RecordBuffer>(std::move(out));
}

}  // namespace flight::broker
