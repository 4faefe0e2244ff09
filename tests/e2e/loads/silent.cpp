// SPDX-License-Identifier: Apache-2.0
// A process whose mappings nobody can read for as long as a disk hangs. Where a program reads /proc/PID/mem, the kernel
// holds the lock of the mappings while it waits for the page; a mmap(2) then waits for the lock, and all others behind
// it.
#include <fcntl.h>
#include <sys/mman.h>

#include <thread>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_silent() { flight::load::spin(flight::load::kWorkRounds); }

namespace {

constexpr size_t kMapped = 1U << 20U;

void read_page(const char* page) {
  const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  char byte = 0;
  (void)!pread(memory, &byte, 1, static_cast<off_t>(reinterpret_cast<uintptr_t>(page)));
}

void map_one() {
  void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped != MAP_FAILED) munmap(mapped, 4096);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4)
    flight::load::usage("silent FILE CPU SECONDS   (FILE: 1 MiB on the disk that hangs when stdin is closed)");
  flight::load::stay_on(atoi(argv[2]));
  const int file = open(argv[1], O_RDONLY | O_CLOEXEC);
  auto* mapped = static_cast<char*>(mmap(nullptr, kMapped, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0));
  if (mapped == MAP_FAILED) {
    perror(argv[1]);
    return 1;
  }
  volatile bool reads = false, maps = false;
  std::thread reader([&] {
    while (!reads) usleep(1000);
    read_page(mapped + kMapped / 2);
  });
  std::thread mapper([&] {
    while (!maps) usleep(1000);
    map_one();
  });
  flight::load::report("started");
  while (getchar() != EOF) {
  }
  reads = true;
  usleep(200'000);
  maps = true;
  usleep(100'000);
  flight::load::report("silent");
  flight::load::repeat_for(atof(argv[3]), hot_in_silent);
  reader.join();
  mapper.join();
}
