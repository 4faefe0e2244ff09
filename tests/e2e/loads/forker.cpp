// SPDX-License-Identifier: Apache-2.0
// Many short-lived processes, one after the other, each with its own name: "tiny-0000", "tiny-0001" … Prints
// "tiny-NNNN PID" for each.
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_tiny() { flight::load::spin(30'000); }

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("forker CPU COUNT MILLISECONDS");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  for (int i = 0; i < atoi(argv[2]); ++i) {
    char name[16];
    snprintf(name, sizeof name, "tiny-%04d", i);
    pid_t child = fork();
    if (child < 0) {
      perror("fork");
      return 1;
    }
    if (child == 0) {
      prctl(PR_SET_NAME, name);
      flight::load::repeat_for(atof(argv[3]) / 1000, hot_in_tiny);
      _exit(0);
    }
    printf("%s %d\n", name, child);
    waitpid(child, nullptr, 0);
  }
  flight::load::report("ended");
}
