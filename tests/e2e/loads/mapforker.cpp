// SPDX-License-Identifier: Apache-2.0
// The most expensive fork storm: the parent has thousands of executable mappings; each child has them, too, adds a
// mapping, sets its name, burns a moment and exits. JOBS children at a time.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_child() { flight::load::spin(200'000); }

int main(int argc, char** argv) {
  if (argc < 4) flight::load::usage("mapforker SECONDS MAPPINGS JOBS");
  constexpr std::size_t kPage = 4096;
  const int mappings = atoi(argv[2]);
  const int jobs = atoi(argv[3]);
  for (int i = 0; i < mappings; ++i) {
    // Every other page stays as it is, or they would become one mapping.
    char* two =
        static_cast<char*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (two == MAP_FAILED || mprotect(two, kPage, PROT_READ | PROT_EXEC) != 0) {
      perror("mmap");
      return 1;
    }
  }
  flight::load::report("started");
  const std::uint64_t end = flight::load::now_ns() + static_cast<std::uint64_t>(atof(argv[1]) * 1e9);
  int running = 0;
  unsigned children = 0;
  while (flight::load::now_ns() < end) {
    if (running == jobs && wait(nullptr) > 0) --running;
    const pid_t pid = fork();
    if (pid == 0) {
      char name[16];
      snprintf(name, sizeof name, "kid-%d", getpid());
      prctl(PR_SET_NAME, name);
      mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      hot_in_child();
      _exit(0);
    }
    if (pid > 0) ++running, ++children;
  }
  while (wait(nullptr) > 0) {
  }
  printf("forked %u\n", children);
  flight::load::report("ended");
}
