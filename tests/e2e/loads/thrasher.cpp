// SPDX-License-Identifier: Apache-2.0
// N processes repeatedly read MIB of a mapped file in a random order. With less memory, each page that is read evicts
// one that is needed again: the processes wait for memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <csignal>
#include <random>

#include "tests/e2e/loads/load.hpp"

namespace {

constexpr std::size_t kPage = 4096;

[[noreturn]] void touch(const volatile unsigned char* memory, std::size_t pages, unsigned seed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::minstd_rand random(seed);
  unsigned sum = 0;
  for (;;) sum += memory[random() % pages * kPage];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("thrasher FILE MIB PROCESSES");
  const std::size_t bytes = static_cast<std::size_t>(atol(argv[2])) << 20U;
  const int file = open(argv[1], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0) return 3;
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return 4;
  madvise(memory, bytes, MADV_RANDOM);
  flight::load::report("started");
  for (int number = atoi(argv[3]); number > 0; --number)
    if (fork() == 0) touch(static_cast<const unsigned char*>(memory), bytes / kPage, static_cast<unsigned>(number));
  for (;;) pause();
}
