// SPDX-License-Identifier: Apache-2.0
// A scan of the running processes and the cgroups, as the sideband records that the kernel would have written.
// flightd's process tracker reads them. The trailers have the time of the scan and the sideband's id on the first CPU.
//
//   1. the list of all pids                 \  never blocks; a process that is not
//   2. /proc/PID/stat of each: name, start  /  read in time is listed by its pid only
//   3. threads and mappings of each, users take turns: a mapping can hang (maps_readers.hpp)
//   at the same time, on another thread: the generated code of the kernel, from /proc/kallsyms
//
// All records go directly into a memfd, which flightd maps: a scan needs no other memory.
//
// The scan and each process have deadlines. A thread that hangs is left alone, and the answer marks what is missing.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/broker/blocking_threads.hpp"
#include "daemon/broker/files/process_owner.hpp"
#include "daemon/broker/scan/scan_records.hpp"
#include "libcore/base/mapping.hpp"
#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"
#include "libcore/config/memory_share.hpp"
#include "libcore/perf/record_build.hpp"
#include "libcore/sysinfo/generated_code.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::broker {

struct ScanLimits {
  std::chrono::milliseconds process{500};  // without a new read, after all names are read
  std::chrono::milliseconds whole{5000};
  // The limit for the records of threads and mappings of all processes together; names are not counted. A user other
  // than root gets a quarter of it, and later what is left.
  std::size_t bytes = scan_bytes(kMostBesideRingsBytes);
};
// The broker's start waits for its first scan. flightd requests another one right afterwards.
[[nodiscard]] inline ScanLimits first_scan(std::size_t bytes) {
  return {.process = std::chrono::milliseconds(250), .whole = std::chrono::milliseconds(500), .bytes = bytes};
}

struct ScanAnswer {
  // CGROUP and KSYMBOL records. For each process, in no order: FORK (at its start by CLOCK_BOOTTIME), COMM, FORK and
  // COMM for each further thread, MMAP2 for each executable mapping; or a part of that, as protocol.hpp says (kScan…).
  // At the end kScanAllListed.
  Mapping records;
  UniqueFd memfd;              // with the records in it, sealed
  SymbolRecords symbols;       // those among the records
  std::size_t incomplete = 0;  // processes whose mappings are missing or cut
  std::size_t unread = 0;      // of them, those of which only the pid is known
  std::string warning;         // what is missing; empty if nothing is
};

// The functions that read a process; tests replace them. `used`: any thread; the CPU time of a part of the scan, which
// can come after take(). Empty: the CPU time is not reported.
struct ScanReads {
  std::function<Presence(std::uint32_t, ProcessStat&)> stat = read_stat_of_owner;
  std::function<void(ProcessInfo&)> mappings = read_mappings;
  std::function<Result<GeneratedCode>()> symbols = [] { return read_generated_code(); };
  std::function<void(std::chrono::nanoseconds)> used = {};
};

class ProcessScan {
 public:
  // `threads`: used only for scans. `wake`: any thread; called when everything is read. `symbols`: of an earlier scan
  // if they are still right; nullptr: read them. EBUSY if all of the threads hang.
  [[nodiscard]] static Result<ProcessScan> begin(const BlockingThreads& threads, const Manifest& manifest,
                                                 ScanLimits limits = {}, ScanReads reads = {},
                                                 std::function<void()> wake = {}, SymbolRecords symbols = {});

  // True if everything is read or a deadline has passed. Cheap. The caller must check for deadlines every kLookEvery.
  [[nodiscard]] bool finished() const;
  static constexpr std::chrono::milliseconds kLookEvery{20};
  // Waits for finished(), at most until the deadlines.
  void wait() const;
  // The result so far. Later results are dropped. Call it once.
  [[nodiscard]] Result<ScanAnswer> take();

 private:
  struct Job;
  explicit ProcessScan(std::shared_ptr<Job> job) : job_(std::move(job)) {}
  std::shared_ptr<Job> job_;
};

}  // namespace flight::broker
