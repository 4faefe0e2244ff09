// SPDX-License-Identifier: Apache-2.0
// Like a service manager: COUNT children, one after the other, each in the cgroup DIRECTORY. A child is born there
// (clone3(2) with CLONE_INTO_CGROUP) or moves there; it burns for MILLISECONDS, forks kForks processes and ends. Then
// prints "done" and stays.
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <string>
#include <string_view>

#include "tests/e2e/loads/load.hpp"

namespace {

constexpr int kForks = 4;

// <linux/sched.h> has it; with <sched.h>, which load.hpp includes, it does not always compile.
struct CloneArguments {
  std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_bytes, tls, set_tid, set_tid_count,
      cgroup;
};

pid_t fork_into(int cgroup) {
  constexpr std::uint64_t kIntoCgroup = 0x200000000;
  CloneArguments arguments{};
  arguments.flags = cgroup >= 0 ? kIntoCgroup : 0;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = cgroup >= 0 ? static_cast<std::uint64_t>(cgroup) : 0;
  return static_cast<pid_t>(syscall(SYS_clone3, &arguments, sizeof arguments));
}

void enter(const std::string& cgroup) {
  const int fd = open((cgroup + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, "0", 1) != 1) {
    perror(cgroup.c_str());
    _exit(1);
  }
  close(fd);
}

[[noreturn]] void work(std::uint64_t milliseconds) {
  const std::uint64_t end = flight::load::now_ns() + milliseconds * 1'000'000;
  while (flight::load::now_ns() < end) flight::load::spin(1000);
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) _exit(0);
    if (child < 0) _exit(1);
    waitpid(child, nullptr, 0);
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) flight::load::usage("unit_forker DIRECTORY born|moved MILLISECONDS COUNT");
  const std::string group = argv[1];
  const bool born = std::string_view(argv[2]) == "born";
  const int directory = open(group.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) {
    perror(group.c_str());
    return 1;
  }
  // Seen in its own cgroup before it forks.
  const std::uint64_t end = flight::load::now_ns() + 100'000'000;
  while (flight::load::now_ns() < end) flight::load::spin(1000);
  flight::load::report("started");
  for (int i = 0; i < atoi(argv[4]); ++i) {
    const pid_t child = fork_into(born ? directory : -1);
    if (child < 0) {
      perror("clone3");
      return 1;
    }
    if (child == 0) {
      if (!born) enter(group);
      work(static_cast<std::uint64_t>(atoi(argv[3])));
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  flight::load::report("done");
  for (;;) pause();
}
