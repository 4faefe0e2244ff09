// SPDX-License-Identifier: Apache-2.0
// Makes one page executable and not executable again, at most PER_SECOND times: an MMAP2 record each time. As fast as
// possible, that is 165,000 to 660,000 a second, depending on the machine. With VARIANTS > 1 each record differs from
// the previous one.
#include <sys/mman.h>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("toggler CPU SECONDS VARIANTS [PER_SECOND]");
  flight::load::stay_on(atoi(argv[1]));
  const auto variants = static_cast<std::size_t>(atoi(argv[3]));
  constexpr std::size_t kPage = 4096;
  void* memory = mmap(nullptr, kPage * variants, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    perror("mmap");
    return 1;
  }
  flight::load::report("started");
  const double per_second = argc > 4 ? atof(argv[4]) : 0;
  const std::uint64_t begin = flight::load::now_ns();
  const std::uint64_t end = begin + static_cast<std::uint64_t>(atof(argv[2]) * 1e9);
  unsigned long long times = 0;
  for (std::uint64_t now = begin; now < end; now = flight::load::now_ns()) {
    if (per_second > 0 && static_cast<double>(times) > per_second * static_cast<double>(now - begin) / 1e9) continue;
    for (int i = 0; i < 100; ++i, ++times) {
      const std::size_t bytes = kPage * (1 + times % variants);
      mprotect(memory, bytes, PROT_READ | PROT_EXEC);
      mprotect(memory, bytes, PROT_READ | PROT_WRITE);
    }
  }
  printf("toggled %llu\n", times);
  flight::load::report("ended");
}
