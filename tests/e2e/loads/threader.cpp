// SPDX-License-Identifier: Apache-2.0
// One thread of another name burns, while the main thread waits; with `fork`, a process that the thread forked.
#include <pthread.h>
#include <sys/wait.h>

#include <thread>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_thread() { flight::load::spin(flight::load::kWorkRounds); }

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("threader CPU SECONDS [fork]");
  flight::load::stay_on(atoi(argv[1]));
  flight::load::report("started");
  double seconds = atof(argv[2]);
  const bool forks = argc > 3;
  std::thread worker([seconds, forks] {
    pthread_setname_np(pthread_self(), "hot-thread");
    const pid_t child = forks ? fork() : 0;
    if (child == 0) {
      if (forks) flight::load::report("forked");
      flight::load::repeat_for(seconds, hot_in_thread);
      if (forks) _exit(0);
    }
    if (forks) waitpid(child, nullptr, 0);
  });
  worker.join();
  flight::load::report("ended");
}
