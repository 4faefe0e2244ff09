// SPDX-License-Identifier: Apache-2.0
// Runs a command on a machine whose fs.file-max is reached, without lowering it for the machine: while the file CONTROL
// begins with '1', no file can be opened (ENFILE), neither by the command nor by its children. What a thread closes is
// free for its next call only; then others have taken it. With '2', root's programs have opened 200 files above the
// limit: the next 200 that are closed make no other call succeed. 's' becomes '1' when the command, whose libraries are
// loaded by then, makes its first descriptor of another kind. From its third byte, CONTROL has the number of refusals:
// "ALL MAIN", MAIN of them to the command's first thread.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <set>

#include "tests/e2e/loads/load.hpp"

namespace {

constexpr int kOpening[] = {
    SYS_openat,         SYS_openat2,   SYS_memfd_create,  SYS_eventfd2,        SYS_socket,
    SYS_socketpair,     SYS_accept,    SYS_accept4,       SYS_pipe2,           SYS_epoll_create1,
    SYS_timerfd_create, SYS_signalfd4, SYS_inotify_init1, SYS_perf_event_open,
#ifdef SYS_open
    SYS_open,           SYS_pipe
#endif
};
constexpr std::size_t kMany = sizeof kOpening / sizeof *kOpening;

[[noreturn]] void fail(const char* what) {
  perror(what);
  exit(1);
}

bool is_of_another_kind(int call) {
#ifdef SYS_open
  if (call == SYS_open) return false;
#endif
  return call != SYS_openat && call != SYS_openat2 && call != SYS_close;
}

// The opening calls and close(2) wait for the supervisor.
int filter_this_process() {
  sock_filter code[kMany + 4];
  std::size_t count = 0;
  code[count++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (std::size_t i = 0; i < kMany; ++i)
    code[count++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(kOpening[i]),
                             static_cast<unsigned char>(kMany + 1 - i), 0);
  code[count++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close, 1, 0);
  code[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[count++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
  const sock_fprog program{static_cast<unsigned short>(count), code};
  return static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

void send_fd(int socket, int fd) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* item = CMSG_FIRSTHDR(&message);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(item), &fd, sizeof fd);
  if (sendmsg(socket, &message, 0) != 1) fail("sendmsg");
}

int receive_fd(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&message) == nullptr) exit(1);
  int fd = -1;
  memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
  return fd;
}

// Until the last process with the filter has ended.
void supervise(int listener, int control, unsigned main) {
  std::set<unsigned> closed;  // threads that closed a file and opened none since
  constexpr unsigned kAbove = 200;
  unsigned above = 0;  // files above the limit
  unsigned long refused = 0, refused_main = 0;
  for (;;) {
    pollfd watched{listener, POLLIN, 0};
    if (poll(&watched, 1, -1) < 0 && errno != EINTR) return;
    if ((watched.revents & POLLIN) == 0) {
      if (watched.revents != 0) return;
      continue;
    }
    seccomp_notif call{};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) continue;  // it was interrupted, or killed
    char full = '0';
    if (pread(control, &full, 1, 0) != 1) full = '0';
    if (full == 's' && is_of_another_kind(call.data.nr) && pwrite(control, "1", 1, 0) == 1) full = '1';
    if (full != '2') above = kAbove;
    bool may = true;
    if (call.data.nr != SYS_close) {
      may = closed.erase(call.pid) > 0 || (full != '1' && full != '2');
    } else if (full == '2' && above > 0) {
      --above;
    } else {
      closed.insert(call.pid);
    }
    seccomp_notif_resp answer{};
    answer.id = call.id;
    if (may) {
      answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    } else {
      answer.error = -ENFILE;
      ++refused;
      if (call.pid == main) ++refused_main;
      char text[64];
      const int length = snprintf(text, sizeof text, "%lu %lu\n", refused, refused_main);
      if (pwrite(control, text, static_cast<std::size_t>(length), 2) != length) return;
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) flight::load::usage("full_table CONTROL COMMAND...");
  const int control = open(argv[1], O_RDWR | O_CLOEXEC);
  if (control < 0) fail(argv[1]);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  // The command keeps this pid. The supervisor is not its child, which it could wait for.
  const auto main = static_cast<unsigned>(getpid());
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    if (fork() != 0) _exit(0);
    setsid();
    close(ends[0]);
    supervise(receive_fd(ends[1]), control, main);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  close(ends[1]);
  if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs");
  const int listener = filter_this_process();
  if (listener < 0) fail("seccomp");
  send_fd(ends[0], listener);
  execvp(argv[2], argv + 2);
  fail(argv[2]);
}
