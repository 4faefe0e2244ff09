// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "ctl/doctor/assess.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"

namespace flight::ctl {
namespace {

using enum FindingState;

constexpr long kDefaultMlockKb = 516, kDefaultMaxStack = 127, kUsualRate = 99;
constexpr long kBothContexts = 2;  // of the kernel and of the program
constexpr int kOldestMajor = 5, kOldestMinor = 10;

// "5.10.0-28-amd64" is not older than 5.10. False for a text that is not a version.
bool too_old(const std::string& release) {
  int major = 0, minor = 0;
  const char* const end = release.data() + release.size();
  const auto [dot, error] = std::from_chars(release.data(), end, major);
  if (error != std::errc{} || dot == end) return false;
  std::from_chars(dot + 1, end, minor);
  return major < kOldestMajor || (major == kOldestMajor && minor < kOldestMinor);
}

std::string text_of(std::optional<long> value) { return value ? std::to_string(*value) : "not readable"; }

Finding kernel_version(const KernelFacts& kernel) {
  Finding out{"kernel", ok, fmt::format("Linux {}, {}", kernel.release, kernel.machine),
              "flightd works from 5.10 on, on x86_64 and aarch64", ""};
  if (too_old(kernel.release)) {
    out.state = fail;
    out.advice = "install a newer kernel";
  } else if (kernel.machine != "x86_64" && kernel.machine != "aarch64") {
    out.state = note;
    out.advice = "not tested on this architecture; try it";
  }
  return out;
}

Finding events_open(const KernelFacts& kernel) {
  const std::string why = "a snapshot is made of perf events, which the broker opens";
  if (kernel.probe.opens) return {"perf-events", ok, "an event on all processes of a CPU opens", why, ""};
  if (!kernel.paranoid)
    return {"perf-events", fail, "this kernel does not support them", why, "boot one with CONFIG_PERF_EVENTS"};
  if (!kernel.privileged)
    return {"perf-events", note, "not tested: this user may not open events; flightd does not need that", why,
            "sudo flightctl doctor tests it"};
  return {"perf-events", fail, kernel.probe.error, why,
          "a container needs CAP_PERFMON and a seccomp filter that allows perf_event_open(2)"};
}

Finding lockdown(const std::string& modes) {
  const bool strict = modes.find("[confidentiality]") != std::string::npos;
  return {"lockdown", strict ? fail : ok, modes,
          "at confidentiality the kernel permits neither perf events nor addresses",
          strict ? "boot with lockdown=integrity, or without" : ""};
}

Finding paranoid(const KernelFacts& kernel) {
  Finding out{"perf-event-paranoid", ok, text_of(kernel.paranoid),
              "higher values allow fewer events without capabilities; the broker has capabilities and is not affected",
              ""};
  if (kernel.paranoid && *kernel.paranoid <= 0) {
    out.state = note;
    out.why = "every user of this machine can profile all others";
    out.advice = "flightd does not need that: sysctl kernel.perf_event_paranoid=2";
  } else if (kernel.paranoid && *kernel.paranoid >= 3) {
    out.state = note;
    out.why = "kernels with this value require CAP_SYS_ADMIN of the broker instead of CAP_PERFMON";
    out.advice = "see cap-sys-admin below";
  }
  return out;
}

Finding features(const KernelFacts& kernel) {
  const KernelFeatures& has = kernel.probe.features;
  std::string missing;
  const auto add = [&missing](bool there, const char* name) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  add(has.sample_cgroup, "the cgroup of a sample (5.7)");
  add(has.format_lost, "exact counts of lost events (6.0)");
  if (missing.empty())
    return {"event-features", ok, "all features that flightd uses", "units and exact losses are in each snapshot", ""};
  return {"event-features", note, "without " + missing, "snapshots lack this information",
          "none needed; newer kernels have them (the version is in brackets)"};
}

Finding pmu(const KernelFacts& kernel) {
  const std::string why =
      "cycles also see code that runs with interrupts disabled; the event takes one counter of each CPU from others: "
      "configure cpu-clock to leave it to them";
  const bool works = kernel.probe.opens ? kernel.probe.features.hardware_pmu : kernel.cpu_pmu;
  if (works) return {"pmu", ok, "hardware counters", why, ""};
  return {"pmu", note, kernel.cpu_pmu ? "hardware counters do not open" : "no hardware counters",
          "cpu-clock is recorded instead of cycles; it also shows which code uses the CPU",
          "none needed; or enable a PMU for this virtual machine on its host"};
}

Finding nohz_full(const std::vector<int>& cpus) {
  return {"nohz-full", note, fmt::format("CPUs {} run without a timer tick", format_cpu_list(cpus)),
          "a counter with a frequency, such as cycles, would keep the tick on all of them: cpu-clock is recorded "
          "instead, on the other CPUs only, so snapshots have no stacks from these",
          "to record them, configure cpu-clock, or an event with a period: see flightd.json(5)"};
}

Finding kernel_symbols(const KernelFacts& kernel) {
  const std::string found = "kptr_restrict is " + text_of(kernel.kptr_restrict);
  const std::string why = "kernel functions get their names from /proc/kallsyms";
  if (kernel.kptr_restrict && *kernel.kptr_restrict >= 2)
    return {"kernel-symbols", warn, found + ": addresses are hidden from everybody",
            "snapshots have no names for kernel functions", "sysctl kernel.kptr_restrict=1"};
  if (kernel.privileged && !kernel.probe.kernel_addresses)
    return {"kernel-symbols", warn, found + ", and /proc/kallsyms shows no addresses",
            "snapshots have no names for kernel functions", "start the broker with CAP_SYSLOG"};
  return {"kernel-symbols", ok, found, why, ""};
}

Findings limits(const KernelFacts& kernel) {
  Findings out;
  const bool small_lock = kernel.mlock_kb && *kernel.mlock_kb < kDefaultMlockKb;
  out.push_back({"perf-event-mlock-kb", small_lock ? note : ok, text_of(kernel.mlock_kb) + " KiB for each CPU and user",
                 "the broker's rings may be larger because of CAP_IPC_LOCK, and are charged to its own user",
                 small_lock ? "perf of other users needs 516" : ""});
  const bool slow = kernel.max_sample_rate && *kernel.max_sample_rate < kUsualRate;
  out.push_back({"perf-max-sample-rate", slow ? warn : ok, text_of(kernel.max_sample_rate) + " a second",
                 "the kernel refuses higher rates, and lowers this limit if sampling takes too long",
                 slow ? "sysctl kernel.perf_event_max_sample_rate=100000" : ""});
  const bool flat = kernel.max_stack && *kernel.max_stack < kDefaultMaxStack;
  out.push_back(
      {"perf-event-max-stack", flat ? note : ok, text_of(kernel.max_stack) + " frames",
       "the maximum depth of a stack; the kernel refuses a change (EBUSY) while events with stacks are open, "
       "so also while flightd records: stop flightd to change it",
       flat ? "systemctl stop flightd, sysctl kernel.perf_event_max_stack=127, systemctl start flightd" : ""});
  if (kernel.max_contexts && *kernel.max_contexts < kBothContexts)
    out.push_back(
        {"perf-event-max-contexts", warn,
         fmt::format("{} of the two parts of a stack, kernel and program, are recorded", *kernel.max_contexts),
         "stacks lack the other, and with 0 they are empty; the kernel refuses a change (EBUSY) while flightd "
         "records",
         "systemctl stop flightd, sysctl kernel.perf_event_max_contexts_per_stack=8, systemctl start flightd"});
  return out;
}

Finding pid_namespace(bool own) {
  if (!own) return {"pid-namespace", ok, "the host's", "samples have the numbers of their processes", ""};
  return {"pid-namespace", warn, "a separate PID namespace: this is a container",
          fmt::format("processes outside of it have no pid here: snapshots show all of them as one, \"{}\", and "
                      "their samples in user mode, which are never idle, as \"{}\"",
                      kOutsideOrIdle, kOutsideName),
          "run flightd on the host, or in the host's PID namespace (docker run --pid=host; Kubernetes: hostPID: true)"};
}

Finding cgroups(const KernelFacts& kernel) {
  const std::string why = "the cgroup of a sample identifies its systemd unit or container";
  if (!kernel.cgroups_unread.empty())
    return {"cgroup", warn, "unread: " + kernel.cgroups_unread, why,
            "run flightd where nothing is mounted over it: umount it in a mount namespace of flightd, or use the host"};
  switch (kernel.cgroups) {
    case CgroupMounts::v2:
      return {"cgroup", ok, "version 2 at /sys/fs/cgroup", why, ""};
    case CgroupMounts::hybrid:
      return {"cgroup", note, "version 2 beside version 1", why, "boot with systemd.unified_cgroup_hierarchy=1"};
    case CgroupMounts::v1:
      return {"cgroup", note, "version 1 only", "samples have no cgroup, and memory limits do not apply per unit",
              "boot with systemd.unified_cgroup_hierarchy=1"};
    case CgroupMounts::none:
      break;
  }
  return {"cgroup", note, "not mounted", why, "no action needed if there are no units"};
}

Finding clocksource(const std::string& name) {
  const bool slow = name == "hpet" || name == "acpi_pm" || name == "jiffies" || name.starts_with("refined");
  return {"clocksource", slow ? warn : ok, name, "the clock is read for each sample and each event",
          slow ? "each read takes about a microsecond; find out why the kernel does not use tsc (dmesg | grep -i tsc)"
               : ""};
}

}  // namespace

Findings assess_kernel(const KernelFacts& kernel) {
  Findings out{kernel_version(kernel), events_open(kernel), paranoid(kernel)};
  if (kernel.lockdown) out.push_back(lockdown(*kernel.lockdown));
  if (kernel.probe.opens) out.push_back(features(kernel));
  out.push_back(pmu(kernel));
  if (!kernel.nohz_full.empty()) out.push_back(nohz_full(kernel.nohz_full));
  out.push_back(kernel_symbols(kernel));
  for (Finding& finding : limits(kernel)) out.push_back(std::move(finding));
  out.push_back({"tracefs", kernel.tracefs ? ok : warn, kernel.tracefs ? "mounted" : "not mounted",
                 "tracepoints (oom, sched, block and others) are defined there",
                 kernel.tracefs ? ""
                                : "systemctl start sys-kernel-tracing.mount, or mount -t tracefs tracefs "
                                  "/sys/kernel/tracing"});
  out.push_back({"psi", kernel.psi ? ok : warn, kernel.psi ? "/proc/pressure is there" : "no /proc/pressure",
                 "triggers on psi.* measure the time that tasks wait for CPU, memory and I/O",
                 kernel.psi ? "" : "boot with psi=1"});
  for (const std::string& name : kernel.oom_killers)
    out.push_back(
        {"oom-killer", note, name + " runs",
         "it kills processes before memory is exhausted; the trigger oom sees only the kernel's kills",
         fmt::format("a trigger on signal:signal_generate, filter COMM == \"{}\": see flightd.json(5), EXAMPLES",
                     name)});
  if (kernel.own_pid_namespace) out.push_back(pid_namespace(*kernel.own_pid_namespace));
  out.push_back(cgroups(kernel));
  if (kernel.clocksource) out.push_back(clocksource(*kernel.clocksource));
  const bool open_bpf = kernel.unprivileged_bpf && *kernel.unprivileged_bpf == 0;
  if (kernel.unprivileged_bpf)
    out.push_back({"unprivileged-bpf", open_bpf ? note : ok, open_bpf ? "every user may load BPF programs" : "disabled",
                   "not required by flightd, but recommended: kernel addresses should not be written to swap or dumps",
                   open_bpf ? "sysctl kernel.unprivileged_bpf_disabled=1" : ""});
  return out;
}

}  // namespace flight::ctl
