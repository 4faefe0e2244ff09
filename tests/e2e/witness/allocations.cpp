// SPDX-License-Identifier: Apache-2.0
// Preloaded into flightd by a test: writes the time and the thread of every allocation to the file
// $FLIGHT_ALLOCATIONS (tests/e2e/witness/allocations.hpp). operator new comes here through malloc.
#include "tests/e2e/witness/allocations.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>

// glibc's own, which malloc(3) and its kin are names of.
extern "C" {
void* __libc_malloc(std::size_t);                 // NOLINT
void* __libc_calloc(std::size_t, std::size_t);    // NOLINT
void* __libc_realloc(void*, std::size_t);         // NOLINT
void* __libc_memalign(std::size_t, std::size_t);  // NOLINT
}

namespace {

flight::AllocationNotes* notes = nullptr;

[[gnu::constructor]] void open_notes() {
  const char* path = std::getenv("FLIGHT_ALLOCATIONS");
  const int fd = path != nullptr ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void* memory = ::mmap(nullptr, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory != MAP_FAILED) notes = static_cast<flight::AllocationNotes*>(memory);
}

void note() {
  if (notes == nullptr) return;
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  flight::AllocationNotes::Note& place = notes->notes[notes->count++ % flight::AllocationNotes::kNotes];
  place.time_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
  place.thread = static_cast<std::int32_t>(::syscall(SYS_gettid));
}

}  // namespace

extern "C" {
void* malloc(std::size_t bytes) {
  note();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note();
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  note();
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note();
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  void* memory = memalign(alignment, bytes);
  if (memory == nullptr) return ENOMEM;
  *out = memory;
  return 0;
}
}
