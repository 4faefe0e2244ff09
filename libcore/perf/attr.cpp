// SPDX-License-Identifier: Apache-2.0
#include "libcore/perf/attr.hpp"

#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "libcore/perf/record.hpp"

namespace flight {
namespace {

static_assert(sizeof(perf_event_attr) >= kStoredAttrBytes);

constexpr std::uint64_t kDefaultFrequency = 99;
// A quarter of the sideband's smallest ring: a fallback for the drain by tick.
constexpr std::uint32_t kSidebandWatermarkBytes = (512U << 10U) / 4;

// The common part of all events, so that they may share rings and a file.
perf_event_attr common_attr(const KernelFeatures& features) {
  perf_event_attr attr{};
  attr.size = kStoredAttrBytes;
  attr.type = PERF_TYPE_SOFTWARE;
  attr.config = PERF_COUNT_SW_DUMMY;
  attr.sample_type = kSidebandSampleType;
  attr.read_format = PERF_FORMAT_ID | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  if (features.format_lost) attr.read_format |= PERF_FORMAT_LOST;
  attr.disabled = 1;
  attr.exclude_guest = 1;
  attr.sample_id_all = 1;
  attr.use_clockid = 1;
  attr.clockid = CLOCK_MONOTONIC;
  return attr;
}

void set_rate(perf_event_attr& attr, const SamplingOptions& options, bool tracepoint) {
  if (options.frequency > 0 || (options.period == 0 && !tracepoint)) {
    attr.freq = 1;
    attr.sample_freq = options.frequency > 0 ? options.frequency : kDefaultFrequency;
  } else {
    attr.sample_period = std::max<std::uint64_t>(options.period, 1);
  }
}

// Whether exclude_idle is needed. The counter of cycles stops on a halted CPU, x86 ignores the bit and arm64's PMU
// refuses it, so only cpu-clock, whose timer continues, gets it.
bool samples_idle_time(const EventSpec& spec) {
  return spec.type == PERF_TYPE_SOFTWARE && spec.config == PERF_COUNT_SW_CPU_CLOCK;
}

// What to do about `error_number`, as the end of a sentence; empty if errno's own text is enough.
std::string advice(int error_number, const perf_event_attr& attr) {
  switch (error_number) {
    case EACCES:
    case EPERM: {
      const std::string missing = explain_privilege(EACCES);
      return missing.empty() ? "the capabilities are present, so a seccomp filter, a container or a security module "
                               "(SELinux, lockdown) refuses it"
                             : missing;
    }
    case ENODEV:
      return "the CPU is offline";
    case ENOENT:
      return attr.type == PERF_TYPE_HARDWARE
                 ? "this machine has no hardware PMU for it (a virtual machine?); cpu-clock "
                   "works everywhere"
                 : "this kernel has no PMU for this event";
    case EOPNOTSUPP:
      return "this PMU cannot sample this event";
    case EINVAL:
      return "the kernel refuses an option: a PMU that only counts (msr, power, uncore ones) cannot be sampled, and a "
             "frequency above sysctl kernel.perf_event_max_sample_rate is refused";
    case EOVERFLOW:
      return "max_stack is above sysctl kernel.perf_event_max_stack";
    case EMFILE:
      return "raise LimitNOFILE (RLIMIT_NOFILE)";
    case EBUSY:
      return "another user holds this PMU exclusively";
    default:
      return {};
  }
}

}  // namespace

perf_event_attr event_attr(const EventSpec& spec, const SamplingOptions& options, const KernelFeatures& features) {
  perf_event_attr attr = common_attr(features);
  attr.type = spec.type;
  attr.config = spec.config;
  attr.config1 = spec.config1;
  attr.config2 = spec.config2;
  attr.write_backward = 1;
  attr.sample_type |= PERF_SAMPLE_IP;
  if (spec.is_tracepoint()) attr.sample_type |= PERF_SAMPLE_RAW;
  if (features.sample_cgroup) attr.sample_type |= PERF_SAMPLE_CGROUP;
  if (options.stack) {
    attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
    attr.sample_max_stack = std::min(options.max_stack, features.max_stack);
    // The user's callchain remains: code that keeps frame pointers continues it where the copy ends.
    if (options.stack_bytes > 0 && kUserRegisters != 0 && features.copies_stacks) {
      attr.sample_type |= kUserCopies;
      attr.sample_regs_user = kUserRegisters;
      attr.sample_stack_user = options.stack_bytes;
    }
  }
  set_rate(attr, options, spec.is_tracepoint());
  if (attr.freq != 0) attr.sample_freq = std::min<std::uint64_t>(attr.sample_freq, features.max_sample_rate);
  // With PERF_SAMPLE_PERIOD the kernel records each hit of a software event or a tracepoint, whatever the fixed period
  // is (perf_swevent_event() in kernel/events/core.c). Without it, readers take the attr's.
  if (attr.freq != 0 || attr.sample_period == 1) attr.sample_type |= PERF_SAMPLE_PERIOD;
  attr.exclude_idle = samples_idle_time(spec) ? 1 : 0;
  attr.exclude_user = spec.exclude_user ? 1 : 0;
  attr.exclude_kernel = spec.exclude_kernel ? 1 : 0;
  attr.exclude_hv = spec.exclude_user || spec.exclude_kernel ? 1 : 0;
  attr.precise_ip = spec.precise_ip & 3U;
  return attr;
}

perf_event_attr owner_attr(const KernelFeatures& features) {
  perf_event_attr attr = common_attr(features);
  attr.write_backward = 1;
  return attr;
}

perf_event_attr trigger_attr(const EventSpec& tracepoint, const KernelFeatures& features) {
  perf_event_attr attr = common_attr(features);
  attr.type = tracepoint.type;
  attr.config = tracepoint.config;
  attr.sample_type = kTriggerSampleType;
  attr.sample_period = 1;
  attr.wakeup_events = 1;
  attr.exclude_user = tracepoint.exclude_user ? 1 : 0;
  attr.exclude_kernel = tracepoint.exclude_kernel ? 1 : 0;
  return attr;
}

perf_event_attr trigger_owner_attr(const KernelFeatures& features) { return common_attr(features); }

perf_event_attr sideband_attr(const KernelFeatures& features) {
  perf_event_attr attr = common_attr(features);
  attr.comm = 1;
  attr.comm_exec = 1;
  attr.task = 1;
  attr.mmap = 1;
  attr.mmap2 = 1;
  // Never attr.build_id: it breaks the records of other users' perf (docs/decisions/0013-build-ids-by-the-broker.md).
  attr.ksymbol = 1;
  attr.bpf_event = 1;
  attr.cgroup = features.sample_cgroup ? 1 : 0;
  attr.watermark = 1;
  attr.wakeup_watermark = kSidebandWatermarkBytes;
  return attr;
}

Result<UniqueFd> open_event(const perf_event_attr& attr, int cpu, std::string_view name) {
  perf_event_attr asked = attr;  // the kernel may write its own size into it
  constexpr pid_t kAllProcesses = -1;
  constexpr int kNoGroup = -1;
  const long fd = ::syscall(SYS_perf_event_open, &asked, kAllProcesses, cpu, kNoGroup, PERF_FLAG_FD_CLOEXEC);
  if (fd >= 0) return UniqueFd(static_cast<int>(fd));
  const int error_number = errno;
  auto refused = sys_error(error_number, "perf_event_open of '{}' on CPU {}", name, cpu);
  if (const std::string hint = advice(error_number, attr); !hint.empty()) refused.value().what += ": " + hint;
  return refused;
}

Result<std::uint64_t> event_id(int fd) {
  std::uint64_t id = 0;
  if (::ioctl(fd, PERF_EVENT_IOC_ID, &id) != 0) return sys_error(errno, "PERF_EVENT_IOC_ID of file descriptor {}", fd);
  return id;
}

}  // namespace flight
