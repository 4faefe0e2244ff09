// SPDX-License-Identifier: Apache-2.0
// Burns one CPU in one function; with KERNEL, in the kernel.
#include <fcntl.h>

#include <cstring>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_function_for_flightd() { flight::load::spin(flight::load::kWorkRounds); }

static void read_zeros() {
  static char buffer[1U << 20U];
  static int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  for (int i = 0; i < 64; ++i) {
    if (read(zero, buffer, sizeof buffer) < 0) exit(1);
  }
}

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("burner CPU SECONDS [kernel]");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  bool in_kernel = argc > 3 && strcmp(argv[3], "kernel") == 0;
  flight::load::repeat_for(atof(argv[2]), in_kernel ? read_zeros : hot_function_for_flightd);
  flight::load::report("ended");
}
