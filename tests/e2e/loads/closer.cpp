// SPDX-License-Identifier: Apache-2.0
// Calls close(-n) with n = 1, 2, 3 … at a given rate: numbered events, so that a missing one is detected. It first
// waits for the end of its stdin, so that its pid can be set in a filter.
#include <sys/syscall.h>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("closer CPU PER_SECOND SECONDS");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("ready");
  char byte = 0;
  while (read(0, &byte, 1) > 0) {
  }
  const double per_second = atof(argv[2]);
  const std::uint64_t begin = flight::load::now_ns();
  const std::uint64_t end = begin + static_cast<std::uint64_t>(atof(argv[3]) * 1e9);
  long n = 0;
  for (std::uint64_t now = begin; now < end; now = flight::load::now_ns()) {
    // Preempted, it hurries afterwards: the rate is an average.
    const double due = static_cast<double>(now - begin) / 1e9 * per_second;
    if (static_cast<double>(n) < due) syscall(SYS_close, -++n);
  }
  printf("closed first=1 last=%ld\n", n);
}
