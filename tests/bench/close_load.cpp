// SPDX-License-Identifier: Apache-2.0
// The load of the benchmarks: close(-n) with rising n on one CPU, so that every event has a number and a missing
// one is detected.
//
//   close_load cost CPU CALLS        prints the nanoseconds that one close(-1) takes, the best of batches of 1,000
//   close_load run CPU RATE SECONDS  calls at RATE a second (0: as fast as it can) for SECONDS, then ends
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration duration) {
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

// The minimum over batches: an interrupt or another process makes some slower, none faster.
void cost(long calls) {
  constexpr long kBatch = 1000;
  double best = 1e9;
  for (long done = 0; done < calls; done += kBatch) {
    const auto begin = Clock::now();
    for (long i = 0; i < kBatch; ++i) ::syscall(SYS_close, -1);
    best = std::min(best, nanoseconds(Clock::now() - begin) / kBatch);
  }
  std::printf("%.2f\n", best);
}

void run(double rate, double seconds) {
  const auto begin = Clock::now();
  long n = 0;
  for (;;) {
    const double elapsed = nanoseconds(Clock::now() - begin) / 1e9;
    if (elapsed >= seconds) return;
    const long due = rate > 0 ? static_cast<long>(elapsed * rate) : n + 1000;
    while (n < due) ::syscall(SYS_close, -(++n));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (!(mode == "cost" && argc == 4) && !(mode == "run" && argc == 5)) {
    std::fprintf(stderr, "usage: close_load cost CPU CALLS | close_load run CPU RATE SECONDS\n");
    return 2;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(std::atoi(argv[2])), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    std::perror("sched_setaffinity");
    return 1;
  }
  if (mode == "cost") {
    cost(std::atol(argv[3]));
  } else {
    run(std::atof(argv[3]), std::atof(argv[4]));
  }
  return 0;
}
