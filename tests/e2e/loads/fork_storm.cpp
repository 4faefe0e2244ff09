// SPDX-License-Identifier: Apache-2.0
// Forks as fast as it can. Each child is a copy for a moment: it forks once, and both end.
#include <sys/wait.h>

#include "tests/e2e/loads/load.hpp"

int main() {
  flight::load::report("started");
  for (;;) {
    const pid_t child = fork();
    if (child < 0) {
      perror("fork");
      return 1;
    }
    if (child == 0) {
      fork();
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
}
