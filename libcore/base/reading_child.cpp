// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/reading_child.hpp"

#include <linux/capability.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "libcore/base/not_started.hpp"

namespace flight {
namespace {

// capabilities(7): those in the ambient set survive execve(2). They are the calling thread's, and the child's from its
// fork on. Here and not with libcap, so that every program need not load it.
class AmbientReadSearch {
 public:
  AmbientReadSearch() {
    if (::syscall(SYS_capget, &header_, before_.data()) != 0) return;
    if ((before_[kWord].effective & kBit) == 0) return;
    auto now = before_;
    now[kWord].inheritable |= kBit;
    if (::syscall(SYS_capset, &header_, now.data()) != 0) return;
    raised_ = true;
    static_cast<void>(::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_READ_SEARCH, 0, 0));
  }
  AmbientReadSearch(const AmbientReadSearch&) = delete;
  AmbientReadSearch& operator=(const AmbientReadSearch&) = delete;
  // A capability that is not inheritable any more is not ambient either.
  ~AmbientReadSearch() {
    if (raised_) static_cast<void>(::syscall(SYS_capset, &header_, before_.data()));
  }

 private:
  struct Sets {  // struct __user_cap_data_struct
    std::uint32_t effective = 0, permitted = 0, inheritable = 0;
  };
  static constexpr std::size_t kWord = CAP_TO_INDEX(CAP_DAC_READ_SEARCH);
  static constexpr std::uint32_t kBit = CAP_TO_MASK(CAP_DAC_READ_SEARCH);
  __user_cap_header_struct header_{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  std::array<Sets, _LINUX_CAPABILITY_U32S_3> before_{};
  bool raised_ = false;
};

}  // namespace

Result<pid_t> start_reading_child(const std::string& program, std::vector<std::string> arguments, int out) {
  std::vector<char*> words;
  for (std::string& word : arguments) words.push_back(word.data());
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  if (const int error = ::posix_spawn_file_actions_init(&actions); error != 0)
    return not_started(error, "the process " + program);
  pid_t pid = -1;
  int error = ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  if (error == 0) {
    const AmbientReadSearch right;
    error = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, words.data(), environ);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return not_started(error, "the process " + program);
  return pid;
}

}  // namespace flight
