// SPDX-License-Identifier: Apache-2.0
// Moves its code to memory without a file, as some programs do for huge pages, and burns one CPU. Then no executable
// mapping is one of its file.
#include <sys/mman.h>

#include <cstdio>
#include <cstring>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void moved_function_for_flightd() { flight::load::spin(flight::load::kWorkRounds); }

static void move_text() {
  unsigned long begin = 0, end = 0;
  char line[4096];
  FILE* maps = fopen("/proc/self/maps", "re");
  while (maps != nullptr && end == 0 && fgets(line, sizeof line, maps) != nullptr)
    if (strstr(line, " r-xp ") != nullptr) sscanf(line, "%lx-%lx", &begin, &end);
  if (end == 0) exit(1);
  fclose(maps);
  const unsigned long bytes = end - begin;
  void* text = reinterpret_cast<void*>(begin);
  void* copy = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) exit(1);
  memcpy(copy, text, bytes);
  if (mprotect(copy, bytes, PROT_READ | PROT_EXEC) != 0) exit(1);
  // It continues in the copy: the same bytes at the same place.
  if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, text) != text) exit(1);
}

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("text_mover CPU SECONDS");
  flight::load::stay_on(atoi(argv[1]));
  move_text();
  flight::load::report("started");
  flight::load::repeat_for(atof(argv[2]), moved_function_for_flightd);
}
