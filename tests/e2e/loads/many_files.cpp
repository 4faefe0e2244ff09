// SPDX-License-Identifier: Apache-2.0
// PROCESSES processes, each of which maps 900 files of its own, unmaps them and ends: fewer than a process may map in a
// second. A new one begins every half second. The files are made below FOLDER and stay.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

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
    const int pid = fork();
    if (pid == 0) _exit(map_all(std::string(argv[1]) + "/" + std::to_string(i) + "-") ? 0 : 1);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
      perror("map files");
      return 1;
    }
    usleep(500'000);
  }
  printf("%d files\n", processes * kFiles);
}
