// SPDX-License-Identifier: Apache-2.0
// Lists the running processes from /proc: threads, names and executable mappings. Needs CAP_SYS_PTRACE for other
// users' maps. Data that may not be read, or of a process that exits meanwhile, is omitted; this is never an error.
#pragma once

#include <sys/types.h>

#include <chrono>
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
  std::string name;                         // path, "[vdso]", or "//anon"
  bool is_program = false;                  // the first one of the process's executable
};

struct ProcessMappings {
  std::vector<ProcessMapping> all;
  std::size_t bytes = 0;  // that they take here
  bool cut = false;       // there are more: too many for one process, or they could not be read
};

// Facts from /proc/PID and /proc/PID/stat.
struct ProcessStat {
  std::uint32_t pid = 0, parent = 0;
  uid_t uid = 0;                          // effective: the owner of /proc/PID (fs/proc/base.c, task_dump_owner)
  std::uint64_t started_boottime_ns = 0;  // CLOCK_BOOTTIME; see ClockHistory::event_at_boottime()
  std::string comm;
  std::uint64_t thread_count = 0;
  bool is_kernel_thread = false, leader_exited = false;
};

struct ProcessInfo : ProcessStat {
  std::string cgroup;  // path in the v2 hierarchy ("/system.slice/x.service"), "" where there is none
  struct Thread {
    std::uint32_t tid = 0;
    std::string comm;
  };
  std::vector<Thread> threads;           // other than the leader
  bool threads_cut = false;              // there are others that could not be read
  std::uint64_t threads_left_out = 0;    // others, beyond kMostThreads
  std::vector<ProcessMapping> mappings;  // executable ones
  bool mappings_cut = false;             // there are more: too many, or they could not be read
  std::string maps_task;                 // whose maps are to be read: "/proc/PID"; empty: it has none (a kernel thread)
  std::string executable;                // its path, whatever is mapped; empty: it has none, or may not be read
};

// The pids, ascending. `root` as in cpus.hpp.
[[nodiscard]] Result<std::vector<std::uint32_t>> list_processes(const std::string& root = "");
enum class Presence {
  there,
  gone,     // or a zombie: it runs nothing any more, and its EXIT has been recorded
  unknown,  // it could not be read now
};
// Two system calls; nothing here waits for the process.
[[nodiscard]] Presence read_stat(std::uint32_t pid, ProcessStat& stat, const std::string& root = "");
// The other threads, after read_stat(), maps_task and the executable. Does not wait for the process; a second for
// 65,536 threads. `most`: the leader included.
inline constexpr std::size_t kMostThreads = 65536;
void read_threads(ProcessInfo& info, const std::string& root = "", std::size_t most = kMostThreads);
// All of it but its mappings: these two, and the cgroup. False: it is gone, or a zombie.
[[nodiscard]] bool read_process(std::uint32_t pid, ProcessInfo& info, const std::string& root = "");
// Waits for the lock on the process' memory map, which may hang as long as the process does.
void read_mappings(ProcessInfo& info);
// Calls `visit` for each process, by ascending pid. Uses PROCMAP_QUERY (6.11) if the kernel has it, otherwise
// /proc/PID/maps.
[[nodiscard]] Result<void> for_each_process(const std::function<void(const ProcessInfo&)>& visit,
                                            const std::string& root = "");

struct CgroupInfo {
  std::uint64_t id = 0;  // the kernel's id: name_to_handle_at(2), as in PERF_SAMPLE_CGROUP
  std::string path;      // relative to the hierarchy's mount: "/", "/system.slice"
};
struct CgroupList {
  std::vector<CgroupInfo> found;
  bool is_cut = false;  // at one of the limits
  std::string unread;  // "FOLDER is on fuse.lxcfs, …": its cgroups are missing, as a look at them could wait for ever
};
// Every cgroup of the hierarchy that perf_event belongs to (v2, or v1's perf_event), breadth first: at most `most`,
// with paths of at most `most_bytes` in all. A user can make thousands with paths of 4 KB.
inline constexpr std::size_t kMostListedCgroups = 65536;
[[nodiscard]] CgroupList list_cgroups(std::size_t most = kMostListedCgroups, std::size_t most_bytes = 8U << 20U);

// Resource usage of a process, from /proc/PID/stat and statm.
struct ProcessUsage {
  double cpu_seconds = 0;
  double uptime_seconds = 0;  // since its start, without the time of suspend
  std::uint64_t rss_bytes = 0;
};
// `since`: it began then or later. /proc has the start by CLOCK_BOOTTIME only, which counts a suspend.
[[nodiscard]] ProcessUsage process_usage(int pid, std::chrono::steady_clock::time_point since);
[[nodiscard]] ProcessUsage own_usage();

}  // namespace flight
