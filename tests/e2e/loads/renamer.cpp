// SPDX-License-Identifier: Apache-2.0
// Gives itself names as fast as possible: those of the forker's children, and 15 bytes of anything.
#include <sys/prctl.h>

#include <random>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("renamer CPU SECONDS");
  flight::load::stay_on(atoi(argv[1]));
  std::mt19937 random(7);
  char names[64][16];
  for (unsigned i = 0; i < 64; ++i) {
    if (i % 2 == 0) {
      snprintf(names[i], sizeof names[i], "tiny-%04u", i);
      continue;
    }
    for (char& byte : names[i]) byte = static_cast<char>(1 + random() % 255);
    names[i][15] = '\0';
  }
  flight::load::report("started");
  const std::uint64_t end = flight::load::now_ns() + static_cast<std::uint64_t>(atof(argv[2]) * 1e9);
  unsigned long long times = 0;
  while (flight::load::now_ns() < end)
    for (int i = 0; i < 1000; ++i, ++times) prctl(PR_SET_NAME, names[times % 64]);
  printf("renamed %llu\n", times);
  flight::load::report("ended");
}
