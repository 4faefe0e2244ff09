// SPDX-License-Identifier: Apache-2.0
// Preloaded into flightd and its broker, a PMU as in many virtual machines: its hardware events can be opened, and
// never deliver a sample. (The kernel's event emulation-faults, which does not occur, is opened instead.)
#include <dlfcn.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include <cstdarg>

extern "C" __attribute__((visibility("default"))) long syscall(long number, ...) noexcept {
  static const auto real = reinterpret_cast<long (*)(long, ...)>(dlsym(RTLD_NEXT, "syscall"));
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_perf_event_open && reinterpret_cast<const perf_event_attr*>(a[0])->type == PERF_TYPE_HARDWARE) {
    perf_event_attr attr = *reinterpret_cast<const perf_event_attr*>(a[0]);
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_EMULATION_FAULTS;
    return real(number, &attr, a[1], a[2], a[3], a[4], a[5]);
  }
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
