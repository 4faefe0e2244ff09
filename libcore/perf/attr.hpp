// SPDX-License-Identifier: Apache-2.0
// The kinds of perf_event_attr that flightd opens, and opening them. All are system-wide on one CPU, on
// CLOCK_MONOTONIC, with sample_id_all and PERF_SAMPLE_IDENTIFIER, so that their records can share a ring and a file.
// attr.size is 128 (PERF_ATTR_SIZE_VER7): the oldest supported perf knows no larger size.
//
//   owner      a dummy that owns a ring and records nothing; write_backward; its fd is sent over the broker protocol
//   event      what is recorded; write_backward; redirected into an owner's ring with SET_OUTPUT
//   sideband   a dummy with mmap2, comm, task, ksymbol, bpf_event, cgroup; a forward ring of its own
//   trigger    a tracepoint that wakes its poller at each hit; a forward ring, owned by a forward dummy
#pragma once

#include <linux/perf_event.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/perf/event_spec.hpp"
#include "libcore/perf/kernel_features.hpp"

namespace flight {

inline constexpr std::uint32_t kStoredAttrBytes = 128;

// The sideband's sample_type is fixed, so its trailer is: u32 pid, tid; u64 time; u32 cpu, res; u64 id.
inline constexpr std::uint64_t kSidebandSampleType =
    PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU;

// The same for a trigger's tracepoint; its other records have the sideband's trailer.
inline constexpr std::uint64_t kTriggerSampleType = kSidebandSampleType | PERF_SAMPLE_RAW;

// attr.sample_regs_user of events that copy the user's stack: the registers that unwinding needs
// (libcore/unwind/machine.hpp), by the numbers of the kernel's asm/perf_regs.h. 0: nothing unwinds on this machine.
#if defined(__x86_64__)
inline constexpr std::uint64_t kUserRegisters = 0xff01ff;  // AX to IP, R8 to R15
#elif defined(__aarch64__)
inline constexpr std::uint64_t kUserRegisters = 0x1ffffffff;  // X0 to X29, LR, SP, PC
#else
inline constexpr std::uint64_t kUserRegisters = 0;
#endif

struct SamplingOptions {
  std::uint64_t frequency = 0;  // samples a second; 0: use period
  std::uint64_t period = 0;     // one sample per `period` events; both 0: every event of a tracepoint, else 99 Hz
  bool stack = false;           // PERF_SAMPLE_CALLCHAIN, by frame pointer
  std::uint16_t max_stack = 127;
  // With `stack`, so much of the user's stack is copied, too, and the registers: PERF_SAMPLE_STACK_USER and REGS_USER.
  // A multiple of 8; a stack that is shorter than that has fewer valid bytes.
  std::uint32_t stack_bytes = 0;
};

[[nodiscard]] perf_event_attr event_attr(const EventSpec& spec, const SamplingOptions& options,
                                         const KernelFeatures& features);
[[nodiscard]] perf_event_attr owner_attr(const KernelFeatures& features);
[[nodiscard]] perf_event_attr sideband_attr(const KernelFeatures& features);
[[nodiscard]] perf_event_attr trigger_attr(const EventSpec& tracepoint, const KernelFeatures& features);
[[nodiscard]] perf_event_attr trigger_owner_attr(const KernelFeatures& features);

// perf_event_open(2) on all processes of `cpu`, close-on-exec. `name` is for the error's text. EACCES/EPERM: the text
// names the missing capability and the value of perf_event_paranoid; ENODEV: the CPU is offline; ENOENT: there is no
// PMU for this event.
[[nodiscard]] Result<UniqueFd> open_event(const perf_event_attr& attr, int cpu, std::string_view name);
// PERF_EVENT_IOC_ID.
[[nodiscard]] Result<std::uint64_t> event_id(int fd);

}  // namespace flight
