// SPDX-License-Identifier: Apache-2.0
// Burns under its own name, then becomes another program.
#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_before_exec() { flight::load::spin(flight::load::kWorkRounds); }

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("execer CPU SECONDS PROGRAM ARGUMENTS...");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), hot_before_exec);
  execv(argv[3], argv + 3);
  perror(argv[3]);
  return 1;
}
