// SPDX-License-Identifier: Apache-2.0
// Gives itself names as fast as possible: those of the forker's children, and 15 bytes of anything. With THREADS, so do
// so many more, each to itself and to the next one.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/e2e/loads/load.hpp"

namespace {

using Name = std::array<char, 16>;

std::vector<Name> make_names() {
  std::mt19937 random(7);
  std::vector<Name> names(64);
  for (unsigned i = 0; i < names.size(); ++i) {
    if (i % 2 == 0) {
      snprintf(names[i].data(), names[i].size(), "tiny-%04u", i);
      continue;
    }
    for (char& byte : names[i]) byte = static_cast<char>(1 + random() % 255);
    names[i].back() = '\0';
  }
  return names;
}

// /proc/self/task/TID/comm of another thread, or -1.
int comm_of(pid_t tid) {
  return open(("/proc/self/task/" + std::to_string(tid) + "/comm").c_str(), O_WRONLY | O_CLOEXEC);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("renamer CPU SECONDS [THREADS]");
  flight::load::stay_on(atoi(argv[1]));
  const std::vector<Name> names = make_names();
  flight::load::report("started");
  const std::uint64_t end = flight::load::now_ns() + static_cast<std::uint64_t>(atof(argv[2]) * 1e9);
  std::atomic<unsigned long long> times{0};
  const auto rename_until_end = [&](pid_t other) {
    const int comm = other != 0 ? comm_of(other) : -1;
    while (flight::load::now_ns() < end)
      for (unsigned i = 0; i < 1000; ++i, ++times) {
        const Name& name = names[times % names.size()];
        prctl(PR_SET_NAME, name.data());
        if (comm >= 0 && write(comm, name.data(), strlen(name.data())) < 0) perror("write");
      }
  };
  std::vector<std::thread> threads;
  pid_t other = getpid();
  for (int i = 0; argc > 3 && i < atoi(argv[3]); ++i) {
    std::atomic<pid_t> tid{0};
    threads.emplace_back([&, other] {
      tid = static_cast<pid_t>(syscall(SYS_gettid));
      rename_until_end(other);
    });
    while (tid == 0) std::this_thread::yield();
    other = tid;
  }
  rename_until_end(0);
  for (std::thread& thread : threads) thread.join();
  printf("renamed %llu\n", times.load());
  flight::load::report("ended");
}
