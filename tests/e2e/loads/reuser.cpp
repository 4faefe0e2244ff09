// SPDX-License-Identifier: Apache-2.0
// A child named "victim" burns and exits; then a thread of this process gets the child's number, and burns.
#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <string>
#include <thread>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_victim() { flight::load::spin(flight::load::kWorkRounds); }
extern "C" [[gnu::noinline]] void hot_in_heir() { flight::load::spin(flight::load::kWorkRounds); }

namespace {

pid_t victim() {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_NAME, "victim");
    flight::load::repeat_for(0.3, hot_in_victim);
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
  return pid;
}

// Makes this the next number, unless another process forks in between.
bool ask_for(pid_t pid) {
  const int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
  const std::string text = std::to_string(pid - 1);
  const bool done = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("reuser CPU SECONDS");
  flight::load::stay_on(atoi(argv[1]));
  const double seconds = atof(argv[2]);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const pid_t pid = victim();
    if (!ask_for(pid)) {
      perror("/proc/sys/kernel/ns_last_pid");
      return 1;
    }
    bool same = false;
    std::thread heir([&] {
      same = syscall(SYS_gettid) == pid;
      if (!same) return;
      pthread_setname_np(pthread_self(), "heir");
      printf("began victim=%d\n", pid);
      flight::load::report("started");
      flight::load::repeat_for(seconds, hot_in_heir);
    });
    heir.join();
    if (!same) continue;
    flight::load::report("ended");
    return 0;
  }
  fprintf(stderr, "no thread got the number of an exited process\n");
  return 1;
}
