// SPDX-License-Identifier: Apache-2.0
// A child uses MIB of memory, page by page, with a high OOM score; after it was killed the next one starts. Prints
// "killed" for each, and "taken" for one that got all its memory and exited.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "tests/e2e/loads/load.hpp"

namespace {

[[noreturn]] void take(std::size_t bytes) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  FILE* score = fopen("/proc/self/oom_score_adj", "w");
  if (score == nullptr || fputs("1000", score) < 0 || fclose(score) != 0) exit(3);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) exit(4);
  memset(memory, 1, bytes);
  usleep(100'000);
  exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) flight::load::usage("hog MIB");
  for (;;) {
    const pid_t child = fork();
    if (child == 0) take(static_cast<std::size_t>(atol(argv[1])) << 20U);
    int status = 0;
    waitpid(child, &status, 0);
    const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    flight::load::report(killed ? "killed" : "taken");
    usleep(20'000);
  }
}
