// SPDX-License-Identifier: Apache-2.0
// The common part of the loads: stay on one CPU, report the pid, burn for a while. Loads are small, plain, unsanitized
// programs with frame pointers; each burns in a function with a name that a test looks for.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace flight::load {

inline std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

inline void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    perror("sched_setaffinity");
    exit(1);
  }
}

// "WHAT pid=… time=…": the time just before the line is written.
inline void report(const char* what) {
  printf("%s pid=%d time=%llu\n", what, getpid(), static_cast<unsigned long long>(now_ns()));
  fflush(stdout);
}

// About 10 ms of work between two reads of the clock, so that nearly every sample is inside `work`.
inline void repeat_for(double seconds, void (*work)()) {
  std::uint64_t end = now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  while (now_ns() < end) work();
}

// Inlined, so that a sample is in the function with the name.
[[gnu::always_inline]] inline void spin(unsigned rounds) {
  volatile unsigned left = rounds;
  while (left > 0) left = left - 1;
}

inline constexpr unsigned kWorkRounds = 4'000'000;

[[noreturn]] inline void usage(const char* text) {
  fprintf(stderr, "usage: %s\n", text);
  exit(2);
}

}  // namespace flight::load
