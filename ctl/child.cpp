// SPDX-License-Identifier: Apache-2.0
#include "ctl/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "libcore/base/files.hpp"
#include "libcore/base/inherited_state.hpp"

namespace flight::ctl {
namespace {

// A sealed memfd of fixed size: it needs no thread that reads it, and the child can neither fill the memory nor block.
// Writing beyond its size fails with EPERM; that output is lost.
Result<UniqueFd> output_memfd() {
  UniqueFd fd(::memfd_create("output", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return sys_error(errno, "memfd_create");
  if (::ftruncate(fd.get(), Child::kMaxOutputBytes) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
    return sys_error(errno, "a memfd of {} bytes", Child::kMaxOutputBytes);
  return fd;
}

std::string text_of(const UniqueFd& fd) {
  const auto text = read_all(fd.get());
  return text ? text->substr(0, text->find('\0')) : "";
}

// Runs in the child. Returns errno if exec failed; otherwise it does not return.
int become(const std::vector<char*>& words, int in, int out, int err, pid_t parent) {
  // The parent may have blocked it, to wait for it with sigwait(3), and the child would not end.
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigprocmask(SIG_UNBLOCK, &end, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) return ESRCH;
  if (::dup2(in, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0) return errno;
  restore_for_exec();
  ::execvp(words[0], words.data());
  return errno;
}

// The remaining time for poll(2); 0 if it is over.
int rest_ms(std::chrono::steady_clock::time_point end) {
  const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
  return rest < 0 ? 0 : static_cast<int>(rest);
}

}  // namespace

Result<Child> Child::start(const std::vector<std::string>& words, int stdio) {
  auto out = output_memfd();
  if (!out) return propagate(out.error());
  auto err = output_memfd();
  if (!err) return propagate(err.error());
  auto nothing = open_file("/dev/null", O_RDONLY);
  if (!nothing) return propagate(nothing.error());
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int ends[2];  // closed by exec; carries errno if exec fails
  if (::pipe2(ends, O_CLOEXEC) != 0) return sys_error(errno, "pipe2");
  const UniqueFd failed_here(ends[0]);
  UniqueFd failed_there(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return sys_error(errno, "start {}", words[0]);
  if (pid == 0) {
    const int why =
        become(arguments, stdio < 0 ? nothing->get() : stdio, stdio < 0 ? out->get() : stdio, err->get(), parent);
    (void)!::write(failed_there.get(), &why, sizeof(why));
    ::_exit(127);
  }
  failed_there.reset();
  int why = 0;
  ssize_t count = 0;
  do count = ::read(failed_here.get(), &why, sizeof(why));
  while (count < 0 && errno == EINTR);
  if (count != sizeof(why)) return Child(pid, std::move(*out), std::move(*err));
  ::waitpid(pid, nullptr, 0);
  return sys_error(why, "start {}", words[0]);
}

std::optional<int> Child::wait(std::chrono::milliseconds limit) {
  if (pid_ < 0) return std::nullopt;
  const auto end = std::chrono::steady_clock::now() + limit;
  const UniqueFd ended(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  pollfd watched{ended.get(), POLLIN, 0};
  while (ended && ::poll(&watched, 1, rest_ms(end)) < 0 && errno == EINTR) {
  }
  int status = 0;
  pid_t found = 0;
  do found = ::waitpid(pid_, &status, ended ? WNOHANG : 0);  // without pidfd_open(2) (Linux 5.3): no limit
  while (found < 0 && errno == EINTR);
  if (found != pid_) return std::nullopt;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Child::kill() const {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string Child::out() const { return text_of(out_); }
std::string Child::err() const { return text_of(err_); }

}  // namespace flight::ctl
