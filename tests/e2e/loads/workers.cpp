// SPDX-License-Identifier: Apache-2.0
// A service with many workers: COUNT processes of this program, each of which takes PERCENT of a CPU. They end with it.
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_worker() { flight::load::spin(30'000); }

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("workers COUNT PERCENT");
  const double busy = atof(argv[2]) / 1000;  // of a tenth of a second
  for (int i = 0; i < atoi(argv[1]); ++i) {
    const pid_t child = fork();
    if (child < 0) {
      perror("fork");
      return 1;
    }
    if (child != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      flight::load::repeat_for(busy, hot_in_worker);
      const timespec rest{0, static_cast<long>((0.1 - busy) * 1e9)};
      nanosleep(&rest, nullptr);
    }
  }
  flight::load::report("started");
  for (;;) pause();
}
