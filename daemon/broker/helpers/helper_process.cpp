// SPDX-License-Identifier: Apache-2.0
#include "daemon/broker/helpers/helper_process.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/broker/helpers/helper_messages.hpp"
#include "libcore/base/close_inherited.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::broker {
namespace {

// A helper gives memory back after a reply of this size.
constexpr std::size_t kLargeReply = 1U << 20U;

class Helper {
 public:
  Helper(Helpers::Work work, std::span<char> command_line, pid_t broker)
      : work_(std::move(work)), command_line_(command_line), broker_(broker) {}

  [[noreturn]] void run(int socket) {
    become(socket);
    for (;;) {
      Frame frame;
      UniqueFd descriptor;
      if (!receive_frame(socket_, frame, descriptor) || frame.bytes > Helpers::kMostBytes) ::_exit(0);
      std::vector<std::byte> body(frame.bytes);
      if (!receive_exactly(socket_, body.data(), body.size())) ::_exit(0);
      if (frame.kind == FrameKind::multiply)
        multiply(std::move(descriptor));
      else
        reply(body);
    }
  }

 private:
  void become(int socket) {
    socket_ = socket;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != broker_) ::_exit(0);
    // Signals for the process group or the unit are for the broker, which ends its helpers.
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGPIPE}) ::signal(number, SIG_IGN);
    // A helper that is left behind must keep no event, ring, socket or pipe of others.
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      if (null)
        ::dup2(null.get(), standard);
      else
        ::close(standard);
    }
    close_inherited(STDERR_FILENO + 1, socket);
    (void)!::chdir("/");
    set_title(kHelperTitle);
    waits_its_turn();
    goes_first();
  }

  void set_title(const char* title) {
    ::prctl(PR_SET_NAME, title);
    if (command_line_.empty()) return;
    std::fill(command_line_.begin(), command_line_.end(), '\0');
    const std::string_view text(title);
    std::copy_n(text.begin(), std::min(text.size(), command_line_.size() - 1), command_line_.begin());
  }

  // flightd that was started by hand has taken nice -10 and a short time slice, for itself and its broker. What others'
  // files cost is not that urgent.
  static void waits_its_turn() {
    errno = 0;
    if (::getpriority(PRIO_PROCESS, 0) < 0 && errno == 0) static_cast<void>(::setpriority(PRIO_PROCESS, 0, 0));
    set_time_slice(std::chrono::nanoseconds(0));
  }

  // If memory is short, the kernel kills a helper and not the broker. Raising the score needs no privilege.
  static void goes_first() {
    const UniqueFd score(::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    if (score) (void)!::write(score.get(), "0", 1);
  }

  void reply(std::span<const std::byte> request) {
    std::vector<std::byte> body =
        work_(request, {.answered = [this] { say(FrameKind::answered, {}); },
                        .part = [this](std::span<const std::byte> part) { say(FrameKind::part, part); },
                        .has_helper = {},
                        .used = {}});
    say(FrameKind::reply, body);
    const bool was_large = body.size() >= kLargeReply;
    body = {};
    if (was_large) ::malloc_trim(0);
  }

  void say(FrameKind kind, std::span<const std::byte> body) const {
    if (body.size() > Helpers::kMostBytes) ::_exit(1);
    if (!send_frame(socket_, kind, body)) ::_exit(0);
  }

  // The new one is a child of the broker's, as this one is: the broker waits for it and may kill it by its pid.
  void multiply(UniqueFd descriptor) {
    if (!descriptor) ::_exit(1);
    const long pid = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
    if (pid == 0) {
      become(descriptor.release());
      return;  // to the loop of its own life
    }
    const std::int64_t made = pid < 0 ? -errno : pid;
    if (!send_frame(socket_, FrameKind::reply, std::as_bytes(std::span(&made, 1)))) ::_exit(0);
  }

  Helpers::Work work_;
  std::span<char> command_line_;
  pid_t broker_;
  int socket_ = -1;
};

}  // namespace

void run_helper(const Helpers::Work& work, std::span<char> command_line, pid_t broker, int socket) {
  try {
    Helper(work, command_line, broker).run(socket);
  } catch (const std::exception&) {
    ::_exit(1);  // std::bad_alloc must not unwind into the broker's own code
  }
}

}  // namespace flight::broker
