// SPDX-License-Identifier: Apache-2.0
// COUNT executable mappings without a file, each apart from the others, as a JIT compiler makes them; then it burns.
#include <sys/mman.h>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_function_for_flightd() { flight::load::spin(flight::load::kWorkRounds); }

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("many_mappings CPU SECONDS COUNT");
  flight::load::stay_on(atoi(argv[1]));
  constexpr std::size_t kPage = 4096;
  const std::size_t count = strtoul(argv[3], nullptr, 10);
  void* space = mmap(nullptr, 2 * kPage * count, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  // Slowly: more than 1,000 a second are counted instead of kept.
  for (std::size_t i = 0; i < count; ++i) {
    if (mprotect(static_cast<char*>(space) + 2 * kPage * i, kPage, PROT_READ | PROT_EXEC) != 0) perror("mprotect");
    if (i % 40 == 39) usleep(50'000);
  }
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), hot_function_for_flightd);
}
