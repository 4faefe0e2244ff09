// SPDX-License-Identifier: Apache-2.0
// How long a busy program is interrupted: reads the clock all the time and adds up the steps that are too long for its
// own work. Below it lies as much stack as a recorder may want to copy.
//
//   gaps CPU SECONDS STACK_BYTES   prints the nanoseconds of all gaps, their number, and the nanoseconds that it ran
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

constexpr long kShortest = 400;       // the loop itself takes some 30 ns
constexpr long kLongest = 1'000'000;  // more is another process's turn, or the hypervisor's

long now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void watch(double seconds) {
  const long begin = now();
  const long end = begin + static_cast<long>(seconds * 1e9);
  long sum = 0, count = 0, before = begin;
  while (before < end) {
    const long time = now();
    const long gap = time - before;
    if (gap >= kShortest && gap <= kLongest) {
      sum += gap;
      ++count;
    }
    before = time;
  }
  std::printf("%ld %ld %ld\n", sum, count, before - begin);
}

[[gnu::noinline]] void below(long bytes, double seconds) {
  volatile char frame[512];
  frame[0] = frame[511] = 1;
  if (bytes > 0)
    below(bytes - 512, seconds);
  else
    watch(seconds);
  frame[1] = frame[0];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: gaps CPU SECONDS STACK_BYTES\n");
    return 2;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(std::atoi(argv[1])), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    std::perror("sched_setaffinity");
    return 1;
  }
  below(std::atol(argv[3]), std::atof(argv[2]));
  return 0;
}
