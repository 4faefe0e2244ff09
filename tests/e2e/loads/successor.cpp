// SPDX-License-Identifier: Apache-2.0
// A child named "victim" burns until it is killed. When stdin is closed, PROGRAM gets its number (clone3(2), set_tid;
// Linux 5.5).
#include <linux/sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/e2e/loads/load.hpp"

extern "C" [[gnu::noinline]] void hot_in_victim() { flight::load::spin(flight::load::kWorkRounds); }

namespace {

pid_t start_victim() {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_NAME, "victim");
  for (;;) hot_in_victim();
}

pid_t fork_as(pid_t wanted) {
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(&wanted);
  arguments.set_tid_size = 1;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("successor CPU PROGRAM ARGUMENTS...");
  flight::load::stay_on(atoi(argv[1]));
  const pid_t pid = start_victim();
  if (pid < 0) {
    perror("fork");
    return 1;
  }
  printf("began victim=%d\n", pid);
  fflush(stdout);
  waitpid(pid, nullptr, 0);
  flight::load::report("killed");
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) continue;
  const pid_t heir = fork_as(pid);
  if (heir < 0) {
    perror("clone3 with set_tid");
    return 1;
  }
  if (heir == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv(argv[2], argv + 2);
    perror(argv[2]);
    _exit(1);
  }
  waitpid(heir, nullptr, 0);
  flight::load::report("ended");
}
