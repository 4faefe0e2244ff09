// SPDX-License-Identifier: Apache-2.0
// What goes wrong on machines, each in a function with a name that somebody has to find: incident NAME [FILE [MIB]].
//
//   runaway     retry_forever() never gives up
//   convoy      eight threads need the lock of update_shared_table()
//   storm       start_helpers() starts processes that end at once
//   neighbour   compress_backups() in two processes for each CPU
//   server      what others disturb: answer_requests(), a part of a CPU
//   pressure    read_index() reads FILE, of MIB, at random: with less memory than that each page evicts another one
//   stall       append_record() writes to FILE every 10 ms
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "tests/e2e/loads/load.hpp"

namespace {

using flight::load::spin;

constexpr std::size_t kPage = 4096;
pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

void sleep_ms(long ms) {
  const timespec duration{ms / 1000, ms % 1000 * 1'000'000};
  nanosleep(&duration, nullptr);
}

}  // namespace

// A function that calls libc or the kernel is not in stacks by frame pointers, as those have no frame: its caller is.
extern "C" {

[[gnu::noinline]] void try_once() { spin(100'000); }
[[gnu::noinline]] void retry_forever() {
  for (;;) try_once();
}

[[gnu::noinline]] void update_shared_table() {
  pthread_mutex_lock(&table_lock);
  spin(30'000);
  pthread_mutex_unlock(&table_lock);
}
[[gnu::noinline]] void* serve_requests(void*) {
  for (;;) update_shared_table();
}

[[gnu::noinline]] void start_one() {
  const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) syscall(SYS_exit_group, 0);
  if (child > 0) syscall(SYS_wait4, child, nullptr, 0, nullptr);
}
[[gnu::noinline]] void start_helpers() {
  for (;;) start_one();
}

[[gnu::noinline]] void compress_block() { spin(100'000); }
[[gnu::noinline]] void compress_backups() {
  for (;;) compress_block();
}

[[gnu::noinline]] void answer_requests() {
  for (;;) {
    spin(400'000);
    sleep_ms(4);
  }
}

[[gnu::noinline]] void read_index(const volatile unsigned char* index, std::size_t pages) {
  unsigned random = 1, sum = 0;
  for (;;) {
    random = random * 1664525 + 1013904223;
    sum += index[(random >> 8U) % pages * kPage];
  }
}

[[gnu::noinline]] void write_block(int file) {
  static const char block[512] = {1};
  if (syscall(SYS_write, file, block, sizeof block) < 0) exit(5);
}
[[gnu::noinline]] void append_record(int file) {
  write_block(file);
  sleep_ms(10);
}
}

namespace {

[[gnu::always_inline]] inline int convoy() {
  for (int i = 0; i < 7; ++i) {
    pthread_t thread{};
    if (pthread_create(&thread, nullptr, serve_requests, nullptr) != 0) return 4;
  }
  serve_requests(nullptr);
  return 0;
}

[[gnu::always_inline]] inline int neighbour() {
  for (long i = 2 * sysconf(_SC_NPROCESSORS_ONLN); i > 1; --i)
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      break;
    }
  compress_backups();
  return 0;
}

[[gnu::always_inline]] inline int pressure(const char* name, std::size_t bytes) {
  const int file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0) return 3;
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return 4;
  madvise(memory, bytes, MADV_RANDOM);
  read_index(static_cast<const unsigned char*>(memory), bytes / kPage);
  return 0;
}

[[gnu::always_inline]] inline int stall(const char* name) {
  const int file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return 3;
  for (;;) append_record(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) flight::load::usage("incident NAME [FILE [MIB]]");
  const char* name = argv[1];
  prctl(PR_SET_NAME, name);
  flight::load::report("started");
  if (strcmp(name, "runaway") == 0) retry_forever();
  if (strcmp(name, "convoy") == 0) return convoy();
  if (strcmp(name, "storm") == 0) start_helpers();
  if (strcmp(name, "neighbour") == 0) return neighbour();
  if (strcmp(name, "server") == 0) answer_requests();
  if (strcmp(name, "pressure") == 0 && argc > 3)
    return pressure(argv[2], static_cast<std::size_t>(atol(argv[3])) << 20U);
  if (strcmp(name, "stall") == 0 && argc > 2) return stall(argv[2]);
  flight::load::usage("incident NAME [FILE [MIB]]");
}
