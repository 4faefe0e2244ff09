// SPDX-License-Identifier: Apache-2.0
// A disk that fails while a directory is read: the kernel answers getdents64(2), and thus readdir(3), with EIO; or
// while a file is read, by pread(2). Or no task is left: it answers fork(2) with EAGAIN. Or no watch: epoll_ctl(2) with
// ENOSPC. A seccomp(2) filter makes it do so, for one thread and for good, without a privilege.
#pragma once

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <future>
#include <span>

namespace flight::test {

inline void filter_calls(std::span<sock_filter> program) {
  const sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  EXPECT_EQ(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  EXPECT_EQ(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0) << "errno " << errno;
}

// From now on, on this thread. What is in a stream's buffer can still be read.
inline void fail_calls(unsigned number, unsigned error_number = EIO) {
  std::array<sock_filter, 4> program{
      sock_filter{.code = BPF_LD | BPF_W | BPF_ABS, .jt = 0, .jf = 0, .k = offsetof(seccomp_data, nr)},
      sock_filter{.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 0, .jf = 1, .k = number},
      sock_filter{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ERRNO | error_number},
      sock_filter{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ALLOW}};
  filter_calls(program);
}

// From now on, on this thread: nothing more can be watched, as if fs.epoll.max_user_watches were reached.
inline void fail_watches() {
  constexpr unsigned kOperation = offsetof(seccomp_data, args) + sizeof(std::uint64_t);  // the lower half of args[1]
  std::array<sock_filter, 6> program{
      sock_filter{.code = BPF_LD | BPF_W | BPF_ABS, .jt = 0, .jf = 0, .k = offsetof(seccomp_data, nr)},
      sock_filter{.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 0, .jf = 3, .k = SYS_epoll_ctl},
      sock_filter{.code = BPF_LD | BPF_W | BPF_ABS, .jt = 0, .jf = 0, .k = kOperation},
      sock_filter{.code = BPF_JMP | BPF_JEQ | BPF_K, .jt = 0, .jf = 1, .k = EPOLL_CTL_ADD},
      sock_filter{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ERRNO | ENOSPC},
      sock_filter{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ALLOW}};
  filter_calls(program);
}

inline void fail_listings() { fail_calls(SYS_getdents64); }

// What `call` returns on a thread where all of them fail.
template <typename Call>
auto with_failing_calls(unsigned number, Call call, unsigned error_number = EIO) -> decltype(call()) {
  return std::async(std::launch::async,
                    [&call, number, error_number] {
                      fail_calls(number, error_number);
                      return call();
                    })
      .get();
}
template <typename Call>
auto with_failing_listings(Call call) -> decltype(call()) {
  return with_failing_calls(SYS_getdents64, call);
}
template <typename Call>
auto with_failing_reads(Call call) -> decltype(call()) {
  return with_failing_calls(SYS_pread64, call);
}
// glibc's fork(3) calls clone(2).
template <typename Call>
auto without_tasks(Call call) -> decltype(call()) {
  return with_failing_calls(SYS_clone, call, EAGAIN);
}

}  // namespace flight::test
