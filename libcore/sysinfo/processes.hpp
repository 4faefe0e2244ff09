// SPDX-License-Identifier: Apache-2.0
// What runs now, from /proc: threads, names and executable mappings with build-ids. Needs CAP_SYS_PTRACE for other
// users' maps; what may not be read, or exits meanwhile, is left out, never an error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/result.hpp"

namespace flight {

struct ProcessMapping {
  std::uint64_t address = 0, bytes = 0, page_offset = 0;
  std::uint32_t major = 0, minor = 0;
  std::uint64_t inode = 0;
  std::uint32_t protection = 0, flags = 0;  // PROT_*, MAP_PRIVATE or MAP_SHARED
  std::vector<std::uint8_t> build_id;       // empty: none or unknown
  std::string name;                         // path, "[vdso]", or "//anon"
};

struct ProcessInfo {
  std::uint32_t pid = 0, parent = 0;
  EventTime started_ns = 0;  // CLOCK_MONOTONIC (from starttime, which is boot time)
  std::string comm;
  std::string cgroup;  // path in the v2 hierarchy ("/system.slice/x.service"), "" where there is none
  struct Thread {
    std::uint32_t tid = 0;
    std::string comm;
  };
  std::vector<Thread> threads;           // other than the leader
  std::vector<ProcessMapping> mappings;  // executable ones
};

// Calls `visit` for each process, in ascending pid. PROCMAP_QUERY (6.11) where the kernel has it, else
// /proc/PID/maps and the ELF file behind /proc/PID/root. `root` as in cpus.hpp.
[[nodiscard]] Result<void> for_each_process(const std::function<void(const ProcessInfo&)>& visit,
                                            const std::string& root = "");

struct CgroupInfo {
  std::uint64_t id = 0;  // the kernel's: name_to_handle_at(2), what PERF_SAMPLE_CGROUP carries
  std::string path;      // relative to the hierarchy's mount: "/", "/system.slice"
};
// Every cgroup of the hierarchy that perf_event belongs to (v2, or v1's perf_event); at most `most`.
[[nodiscard]] std::vector<CgroupInfo> list_cgroups(std::size_t most = 65536);

// What a process has used so far, from /proc/PID/stat and statm.
struct ProcessUsage {
  double cpu_seconds = 0;
  std::uint64_t rss_bytes = 0;
};
[[nodiscard]] ProcessUsage process_usage(int pid);

}  // namespace flight
