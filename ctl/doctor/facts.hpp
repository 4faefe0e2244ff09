// SPDX-License-Identifier: Apache-2.0
// What `flightctl doctor` looks at, as plain values: gathered by gather.hpp, judged by judge.hpp. What could not be
// found out is nullopt, which is no fault by itself: who is not root sees less.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "libcore/control/messages.hpp"
#include "libcore/perf/kernel_features.hpp"

namespace flight::ctl {

// Events were opened, and closed again.
struct EventProbe {
  bool opens = false;
  std::string error;                     // where it does not
  std::optional<bool> perfmon_suffices;  // without CAP_SYS_ADMIN; nullopt: this process could not try
  KernelFeatures features;               // where it opens
  bool kernel_addresses = false;         // /proc/kallsyms shows them
};

enum class CgroupMounts { none, v1, hybrid, v2 };

struct KernelFacts {
  std::string release, machine;  // uname(2)
  bool privileged = false;       // what was tried was tried with CAP_PERFMON or CAP_SYS_ADMIN
  EventProbe probe;
  std::optional<long> paranoid, kptr_restrict, mlock_kb, max_sample_rate, max_stack, unprivileged_bpf;  // sysctls
  std::optional<std::string> clocksource, lockdown;
  bool cpu_pmu = false, tracefs = false, psi = false;
  CgroupMounts cgroups = CgroupMounts::none;
};

inline constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

// A running process, as /proc shows it to everybody. The limits are the soft ones.
struct ProcessFacts {
  pid_t pid = -1;
  uid_t uid = 0;
  std::string user;                            // its name; the number where it has none
  std::uint64_t permitted = 0, effective = 0;  // capabilities, a bit each
  std::uint64_t locked_kb = 0;
  std::optional<std::uint64_t> limit_memlock, limit_rtprio, limit_nice, limit_nofile;
  std::optional<int> nice, oom_score_adj;
  std::optional<bool> freeze_is_realtime;  // flightd's thread of this name
  std::string state_dir;                   // behind --state-dir on flightd's command line; empty: none is
};
// The text of /proc/PID/limits: the soft limit on the line that begins with `name`.
[[nodiscard]] std::optional<std::uint64_t> soft_limit(const std::string& limits, const std::string& name);
// The text of /proc/PID/status: the value behind "KEY:\t"; empty where it has none.
[[nodiscard]] std::string status_value(const std::string& status, const std::string& key);
// The text of /proc/PID/cmdline: the word behind `option`, or after "OPTION="; empty where there is none.
[[nodiscard]] std::string option_value(const std::string& cmdline, const std::string& option);

struct DaemonFacts {
  std::string socket;
  std::optional<std::string> socket_error;  // nobody answers
  bool no_socket = false;                   // there is none at all
  std::optional<ProcessFacts> flightd, broker;
  std::optional<Status> status;
  // Why there is no status: we may not know it; or flightd did not answer as it should.
  std::string status_refused, status_error;
};

struct GroupFacts {
  bool there = false;
  bool member = false;  // this process is
  bool listed = false;  // its user is, from the next login on
};
struct UnitFacts {
  std::string file;                            // empty: not installed
  std::optional<std::string> enabled, active;  // systemctl's word for it
};
struct InstallFacts {
  bool root = false;
  bool user_flightd = false, user_broker = false;
  GroupFacts group, trigger_group;
  bool systemd = false, journald = false;
  UnitFacts flightd, broker;
  bool sys_admin_drop_in = false;           // there, and not masked
  std::optional<std::string> perf_version;  // "perf version 6.1.187"; nullopt: there is no perf
};

struct StoreFacts {
  std::string folder;  // empty: none was found
  std::uint64_t free_bytes = 0, total_bytes = 0;
  std::uint64_t used_bytes = 0;                             // by snapshots
  std::optional<std::uint64_t> max_bytes, keep_free_bytes;  // nullopt: flightd did not say
};

struct Facts {
  KernelFacts kernel;
  DaemonFacts daemon;
  InstallFacts install;
  StoreFacts store;
};

}  // namespace flight::ctl
