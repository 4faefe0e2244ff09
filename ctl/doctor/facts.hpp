// SPDX-License-Identifier: Apache-2.0
// The facts that `flightctl doctor` checks, as plain values: gathered by gather.hpp, assessed by assess.hpp. An
// unknown value is nullopt. That is not a fault by itself: users other than root see less.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/control/messages.hpp"
#include "libcore/perf/kernel_features.hpp"

namespace flight::ctl {

// Result of opening events as a test. They are closed again.
struct EventProbe {
  bool opens = false;
  std::string error;                     // if it does not open
  std::optional<bool> perfmon_suffices;  // without CAP_SYS_ADMIN; nullopt: this process could not try
  KernelFeatures features;               // if it opens
  bool kernel_addresses = false;         // /proc/kallsyms shows them
};

enum class CgroupMounts { none, v1, hybrid, v2 };

struct KernelFacts {
  std::string release, machine;  // uname(2)
  bool privileged = false;       // events were opened with CAP_PERFMON or CAP_SYS_ADMIN
  EventProbe probe;
  std::optional<long> paranoid, kptr_restrict, mlock_kb, max_sample_rate, max_stack, max_contexts,
      unprivileged_bpf;  // sysctls
  std::optional<std::string> clocksource, lockdown;
  bool cpu_pmu = false, tracefs = false, psi = false;
  std::optional<bool> own_pid_namespace;
  CgroupMounts cgroups = CgroupMounts::none;
  std::string cgroups_unread;            // "/sys/fs/cgroup is on fuse.lxcfs, …"; empty: they can be read
  std::vector<int> nohz_full;            // CPUs that run without a timer tick
  std::vector<std::string> oom_killers;  // programs that run and kill processes before the kernel does
};

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A running process, as /proc shows it to every user. The limits are soft limits.
struct ProcessFacts {
  pid_t pid = -1;
  uid_t uid = 0;
  std::string user;                            // its name; the number if it has no name
  std::uint64_t permitted = 0, effective = 0;  // capabilities, one bit each
  std::uint64_t locked_kb = 0;
  std::optional<std::uint64_t> limit_memlock, limit_rtprio, limit_nice, limit_nofile;
  std::optional<int> nice, oom_score_adj;
  std::optional<bool> freeze_is_realtime;  // of flightd's thread with this name
  std::string state_dir;                   // --state-dir on flightd's command line; empty: not given
};
// The soft limit in the line that begins with `name`, from the text of /proc/PID/limits.
[[nodiscard]] std::optional<std::uint64_t> soft_limit(const std::string& limits, const std::string& name);
// The value after "KEY:\t" in the text of /proc/PID/status; empty if there is none.
[[nodiscard]] std::string status_value(const std::string& status, const std::string& key);
// The word after `option`, or after "OPTION=", in the text of /proc/PID/cmdline; empty if there is none.
[[nodiscard]] std::string option_value(const std::string& cmdline, const std::string& option);

struct DaemonFacts {
  std::string socket;
  std::optional<std::string> socket_error;  // there is no answer
  bool no_socket = false;                   // the socket does not exist
  std::optional<ProcessFacts> flightd, broker;
  std::optional<Status> status;
  std::vector<std::string>
      event_triggers;  // the conditions of those that are enabled, as `flightctl triggers` shows them
  // Why there is no status: this user may not read it; or flightd did not answer correctly.
  std::string status_refused, status_error;
};

struct GroupFacts {
  bool there = false;
  bool member = false;  // this process is a member
  bool listed = false;  // its user is a member from the next login on
};
// `flightd --check-config`, as flightd.service is started.
struct ConfigFacts {
  std::string command;  // what was run; empty: nothing, since there is no unit or this is not root
  bool good = false;
  std::string error;  // what flightd said, or that it did not end
};
// The last error in flightd's log lines, without time and level; another text as one line.
[[nodiscard]] std::string error_in(std::string_view log);
// The command that checks what a unit starts, from `systemctl show --value -p ExecStart`; empty: that is no flightd.
[[nodiscard]] std::vector<std::string> check_command(const std::string& exec_start);

struct UnitFacts {
  std::string file;                            // empty: not installed
  std::optional<std::string> enabled, active;  // as systemctl prints it
};
struct InstallFacts {
  bool root = false;
  bool user_flightd = false, user_broker = false;
  std::string no_accounts;  // why users or groups could not be looked up; empty: they were
  GroupFacts group, trigger_group;
  bool systemd = false, journald = false;
  UnitFacts flightd, broker;
  ConfigFacts config;
  bool sys_admin_drop_in = false;           // it exists and is not masked
  std::optional<std::string> perf_version;  // "perf version 6.1.187"; nullopt: there is no perf
};

struct StoreFacts {
  std::string folder;  // empty: not found
  std::uint64_t free_bytes = 0, total_bytes = 0;
  std::uint64_t used_bytes = 0;                             // by snapshots
  std::optional<std::uint64_t> max_bytes, keep_free_bytes;  // nullopt: flightd did not report it
  bool silent = false;                                      // its disk does not answer; only the folder is known
};

struct Facts {
  KernelFacts kernel;
  DaemonFacts daemon;
  InstallFacts install;
  StoreFacts store;
};

}  // namespace flight::ctl
