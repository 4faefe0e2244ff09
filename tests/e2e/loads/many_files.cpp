// SPDX-License-Identifier: Apache-2.0
// PROCESSES processes, each of which maps 900 files of its own and unmaps them: fewer than a process may map in a
// second. A new one begins every half second. The processes live on, so that it is known whose files these are; the
// files are made below FOLDER.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <csignal>
#include <string>

#include "tests/e2e/loads/load.hpp"

namespace {

constexpr int kFiles = 900;
constexpr std::size_t kPage = 4096;

bool map_all(const std::string& begin) {
  for (int i = 0; i < kFiles; ++i) {
    const int fd = open((begin + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0755);
    void* at = fd < 0 ? MAP_FAILED : mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) return false;
    munmap(at, kPage);
    close(fd);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("many_files FOLDER PROCESSES");
  const int processes = atoi(argv[2]);
  flight::load::report("started");
  for (int i = 0; i < processes; ++i) {
    int done[2];
    if (pipe(done) != 0) return 1;
    const int pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      char byte = 'x';
      if (!map_all(std::string(argv[1]) + "/" + std::to_string(i) + "-") || write(done[1], &byte, 1) != 1) _exit(1);
      for (;;) pause();
    }
    close(done[1]);
    char byte = 0;
    if (pid < 0 || read(done[0], &byte, 1) != 1) {
      perror("map files");
      return 1;
    }
    close(done[0]);
    usleep(500'000);
  }
  printf("mapped %d files\n", processes * kFiles);
  fflush(stdout);
  for (;;) pause();
}
