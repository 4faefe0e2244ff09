// SPDX-License-Identifier: Apache-2.0
// Many processes that do nothing; they end with their parent.
#include <sys/prctl.h>

#include <csignal>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 2) flight::load::usage("crowd COUNT");
  for (int i = 0; i < atoi(argv[1]); ++i) {
    const pid_t child = fork();
    if (child < 0) {
      perror("fork");
      return 1;
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
  }
  flight::load::report("asleep");
  for (;;) pause();
}
