// SPDX-License-Identifier: Apache-2.0
// As many executable mappings as the kernel permits, of a file with the longest path that the kernel shows. The file is
// made below FOLDER, which must exist.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <string>

#include "tests/e2e/loads/load.hpp"

int main(int argc, char** argv) {
  if (argc < 2) flight::load::usage("mapper FOLDER");
  constexpr std::size_t kPage = 4096, kMostPath = 4000, kMostMappings = 65'500;
  // Step by step: open(2) takes no path of more than 4 KiB with its end.
  std::string path = argv[1];
  if (chdir(argv[1]) != 0) perror("chdir");
  for (int i = 0; path.size() + 260 < kMostPath; ++i) {
    const std::string name = std::to_string(i) + std::string(240, 'd');
    mkdir(name.c_str(), 0755);
    if (chdir(name.c_str()) != 0) perror("chdir");
    path += "/" + name;
  }
  const int fd = open("mapped", O_RDWR | O_CREAT | O_CLOEXEC, 0755);
  if (fd < 0 || ftruncate(fd, kPage) != 0) perror("open");
  std::size_t count = 0;
  while (count < kMostMappings && mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED)
    ++count;
  printf("%zu mappings, a path of %zu bytes\n", count, path.size());
  flight::load::report("started");
  pause();
}
