// SPDX-License-Identifier: Apache-2.0
#include <sys/capability.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "ctl/doctor/gather.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/kernel_file.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perf/kernel_features.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "libcore/sysinfo/pid_namespace.hpp"
#include "libcore/sysinfo/processes.hpp"

namespace flight::ctl {
namespace {

constexpr std::size_t kAddressDigits = 16;

std::optional<std::string> line_of(const std::string& path) {
  auto text = read_kernel_line(path);
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

class Capabilities {
 public:
  Capabilities() : caps_(::cap_get_proc()) {}
  [[nodiscard]] bool become(cap_value_t capability, cap_flag_value_t value) {
    return caps_ && ::cap_set_flag(caps_.get(), CAP_EFFECTIVE, 1, &capability, value) == 0 &&
           ::cap_set_proc(caps_.get()) == 0;
  }

 private:
  struct Free {
    void operator()(cap_t caps) const { ::cap_free(caps); }
  };
  std::unique_ptr<std::remove_pointer_t<cap_t>, Free> caps_;
};

Result<UniqueFd> open_clock(int cpu) {
  perf_event_attr attr = owner_attr(KernelFeatures{});
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_CPU_CLOCK;
  attr.freq = 1;
  attr.sample_freq = 1;  // the smallest value of kernel.perf_event_max_sample_rate
  return open_event(attr, cpu, "cpu-clock");
}

// Drops CAP_SYS_ADMIN, opens an event, and raises the capability again. nullopt: this process does not have both
// capabilities.
std::optional<bool> opens_without_sys_admin(int cpu) {
  Capabilities caps;
  if (!has_capability(CAP_PERFMON) || !has_capability(CAP_SYS_ADMIN) || !caps.become(CAP_SYS_ADMIN, CAP_CLEAR))
    return std::nullopt;
  const bool opened = open_clock(cpu).has_value();
  if (!caps.become(CAP_SYS_ADMIN, CAP_SET)) return std::nullopt;
  return opened;
}

// Parses "ffffffff81000000 T _stext"; zeros if the addresses are hidden. Only the first line is read.
bool shows_kernel_addresses() {
  const auto fd = open_kernel_file("/proc/kallsyms");
  std::string digits(kAddressDigits, '0');
  if (!fd || ::read(fd->get(), digits.data(), digits.size()) <= 0) return false;
  return digits.find_first_not_of("0 ") != std::string::npos && digits[0] != '0';
}

bool has_cpu_pmu() {
  const auto all = pmus();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& pmu) { return pmu.second.starts_with("cpu") || pmu.second.starts_with("armv8_"); });
}

// /proc/self/mounts: "device place type options".
struct Mount {
  std::string place, type;
};
std::vector<Mount> mounts() {
  std::vector<Mount> out;
  const auto text = read_file("/proc/self/mounts", kMaxProcBytes);
  for (std::size_t at = 0; text && at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::size_t place = std::min(text->find(' ', at), end);
    const std::size_t type = std::min(text->find(' ', place + 1), end);
    const std::size_t options = std::min(text->find(' ', type + 1), end);
    if (options < end)
      out.push_back({text->substr(place + 1, type - place - 1), text->substr(type + 1, options - type - 1)});
    at = end + 1;
  }
  return out;
}

}  // namespace

EventProbe probe_events() {
  EventProbe probe;
  const auto cpus = online_cpus();
  const int cpu = cpus && !cpus->empty() ? cpus->front() : 0;
  const auto clock = open_clock(cpu);
  probe.opens = clock.has_value();
  if (!clock) probe.error = clock.error().what;
  probe.perfmon_suffices = opens_without_sys_admin(cpu);
  if (probe.opens) probe.features = KernelFeatures::probe(cpu);
  probe.kernel_addresses = shows_kernel_addresses();
  return probe;
}

KernelFacts gather_kernel() {
  KernelFacts out;
  out.own_pid_namespace = in_own_pid_namespace();
  utsname name{};
  if (::uname(&name) == 0) out.release = name.release, out.machine = name.machine;
  out.privileged = has_capability(CAP_PERFMON) || has_capability(CAP_SYS_ADMIN);
  out.probe = probe_events();
  out.paranoid = kernel_sysctl("perf_event_paranoid");
  out.kptr_restrict = kernel_sysctl("kptr_restrict");
  out.mlock_kb = kernel_sysctl("perf_event_mlock_kb");
  out.max_sample_rate = kernel_sysctl("perf_event_max_sample_rate");
  out.max_stack = kernel_sysctl("perf_event_max_stack");
  out.max_contexts = kernel_sysctl("perf_event_max_contexts_per_stack");
  out.unprivileged_bpf = kernel_sysctl("unprivileged_bpf_disabled");
  out.clocksource = line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  out.lockdown = line_of("/sys/kernel/security/lockdown");
  out.cpu_pmu = has_cpu_pmu();
  out.nohz_full = nohz_full_cpus();
  // With psi=0 on the kernel's command line the files exist, but reading them fails.
  out.psi = read_kernel_file("/proc/pressure/cpu").has_value() && read_kernel_file("/proc/pressure/memory").has_value();
  bool v1 = false, v2_elsewhere = false;
  for (const Mount& mount : mounts()) {
    out.tracefs = out.tracefs || mount.type == "tracefs";
    v1 = v1 || mount.type == "cgroup";
    if (mount.type != "cgroup2") continue;
    if (mount.place == "/sys/fs/cgroup") out.cgroups = CgroupMounts::v2;
    v2_elsewhere = true;
  }
  if (out.cgroups != CgroupMounts::v2 && (v1 || v2_elsewhere))
    out.cgroups = v2_elsewhere ? CgroupMounts::hybrid : CgroupMounts::v1;
  out.cgroups_unread = list_cgroups(1).unread;
  return out;
}

}  // namespace flight::ctl
