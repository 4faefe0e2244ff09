// SPDX-License-Identifier: Apache-2.0
#include "libcore/sideband/scanned.hpp"

#include <linux/perf_event.h>

#include <optional>

#include "libcore/broker/protocol.hpp"
#include "libcore/perf/record.hpp"

namespace flight {
namespace {

class ScanReader {
 public:
  ScanReader(const ClockHistory& clock, KernelTable& kernel) : clock_(clock), kernel_(kernel) {}

  Scan read(std::span<const std::byte> bytes) {
    for (auto record = next_record(bytes); !record.empty(); record = next_record(bytes)) {
      bytes = bytes.subspan(record.size());
      take(record);
    }
    const bool all = bytes.empty() && listed_ && *listed_ == processes_.size();
    Scan out{.processes = std::move(processes_), .all_listed = all, .symbols = {}};
    if (symbols_listed_ && *symbols_listed_ == symbols_.all.size()) out.symbols = std::move(symbols_);
    return out;
  }

 private:
  // The records of one process are consecutive; its mappings are somewhere among them.
  ScannedProcess& process(std::uint32_t pid, std::span<const std::byte> record) {
    if (processes_.empty() || processes_.back().pid != pid) {
      processes_.push_back({.pid = pid});
      first_ = record.data();
    }
    processes_.back().maps = ScannedMaps({first_, record.data() + record.size()});
    return processes_.back();
  }

  void take(std::span<const std::byte> record) {
    switch (load<perf_event_header>(record.data()).type) {
      case PERF_RECORD_FORK:
        if (const auto fork = parse_task(record)) take_fork(*fork, parse_trailer(record)->reserved, record);
        return;
      case PERF_RECORD_LOST:
        if (const auto trailer = parse_trailer(record))
          if (const auto fields = lost_fields(record)) {
            if (trailer->reserved == kScanThreadsLeftOut)
              process(trailer->pid, record).threads_left_out = fields->id;
            else
              take_end(*trailer, fields->id, fields->lost);
          }
        return;
      case PERF_RECORD_KSYMBOL:
        if (const auto symbol = parse_ksymbol(record); symbol && symbols_.all.size() < kMaxKsymbols)
          symbols_.all.push_back(*symbol);
        return;
      case PERF_RECORD_COMM:
        if (const auto comm = parse_comm(record)) take_comm(*comm, record);
        return;
      case PERF_RECORD_MMAP2:
        if (const auto map = parse_mmap2(record); map && map->cpumode == PERF_RECORD_MISC_USER) {
          ScannedProcess& found = process(map->pid, record);
          if (map->is_program && found.program.empty()) found.program = record;
        }
        return;
      default:
        kernel_.apply_scanned(record);
    }
  }

  // The end of a part.
  void take_end(const Trailer& trailer, std::uint64_t listed, std::uint64_t bits) {
    if (trailer.reserved == kScanAllListed) listed_ = listed;
    if (trailer.reserved != kScanSymbolsListed) return;
    symbols_listed_ = listed;
    symbols_.read_ns = trailer.time_ns;
    symbols_.cut = (bits & kScanSymbolsCut) != 0;
    symbols_.no_bpf = (bits & kScanSymbolsNoBpf) != 0;
  }

  void take_fork(const TaskRecord& fork, std::uint32_t mark, std::span<const std::byte> record) {
    ScannedProcess& found = process(fork.pid, record);
    if (fork.tid != fork.pid) {
      found.threads.push_back({fork.tid, {}});
      return;
    }
    found.unread = mark == kScanUnread;
    found.partly = mark == kScanPartly;
    found.parent = fork.ppid;
    found.started_ns = clock_.event_at_boottime(fork.time_ns);
  }

  void take_comm(const CommRecord& comm, std::span<const std::byte> record) {
    ScannedProcess& found = process(comm.pid, record);
    if (comm.tid == comm.pid)
      found.comm = comm.name;
    else if (!found.threads.empty() && found.threads.back().tid == comm.tid)
      found.threads.back().comm = comm.name;
  }

  const ClockHistory& clock_;
  KernelTable& kernel_;
  std::vector<ScannedProcess> processes_;
  const std::byte* first_ = nullptr;     // the last one's first record
  std::optional<std::uint64_t> listed_;  // the number of processes that the scan listed
  ScannedSymbols symbols_;
  std::optional<std::uint64_t> symbols_listed_;
};

}  // namespace

void ScannedMaps::Iterator::settle() {
  for (auto record = next_record(rest_); !record.empty(); record = next_record(rest_)) {
    if (load<perf_event_header>(record.data()).type == PERF_RECORD_MMAP2)
      if (const auto map = parse_mmap2(record); map && map->cpumode == PERF_RECORD_MISC_USER && map->bytes != 0) {
        map_ = *map;
        size_ = record.size();
        return;
      }
    rest_ = rest_.subspan(record.size());
  }
  rest_ = {};
}

Scan read_scan(std::span<const std::byte> bytes, const ClockHistory& clock, KernelTable& kernel) {
  return ScanReader(clock, kernel).read(bytes);
}

}  // namespace flight
