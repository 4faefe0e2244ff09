// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/folder_answers.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "libcore/base/close_inherited.hpp"
#include "libcore/base/not_started.hpp"
#include "libcore/base/poll.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

constexpr char kAnswered = '.';

// Writes one byte for each directory that answered. All other descriptors of the parent are closed: a reader of the
// parent's stdout would otherwise wait until this process ends.
[[noreturn]] void look_at_all(std::span<const std::string> folders, int answers,
                              const std::function<void(const std::string&)>& look) {
  if (::dup2(answers, STDIN_FILENO) != STDIN_FILENO) ::_exit(0);
  close_inherited(STDIN_FILENO + 1);
  for (const std::string& folder : folders) {
    look(folder);
    if (::write(STDIN_FILENO, &kAnswered, 1) != 1) break;
  }
  ::_exit(0);
}

Failure silent_folder(const std::string& folder) {
  return fail(std::errc::timed_out, "{} does not answer: its file system waits for a server or a disk that hangs",
              folder);
}

}  // namespace

void look_into(const std::string& folder) {
  walk_path(folder);
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

void walk_path(const std::string& folder) {
  std::error_code ignored;
  static_cast<void>(std::filesystem::weakly_canonical(folder, ignored));
}

Result<void> check_answers(std::span<const std::string> folders, std::chrono::milliseconds limit,
                           const std::function<void(const std::string&)>& look, pid_t* left_behind, int stop_fd) {
  std::array<int, 2> ends{-1, -1};
  const auto what = [&] {
    return fmt::format("the process that looks whether {} {}", folders.empty() ? "nothing" : folders.front(),
                       folders.size() > 1 ? "and others answer" : "answers");
  };
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return sys_error(errno, "make a pipe to {}", what());
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return not_started(errno, what());
  if (child == 0) look_at_all(folders, to.get(), look);
  to = UniqueFd();
  std::size_t answered = 0;
  bool stopped = false;
  const auto until = std::chrono::steady_clock::now() + limit;
  for (auto now = std::chrono::steady_clock::now(); answered < folders.size() && !stopped && now < until;
       now = std::chrono::steady_clock::now()) {
    std::array<pollfd, 2> watched{pollfd{from.get(), POLLIN, 0}, pollfd{stop_fd, POLLIN, 0}};
    wait_for_any(watched, until - now);
    stopped = watched[1].revents != 0;
    if (watched[0].revents == 0) continue;
    char byte = 0;
    const ssize_t count = ::read(from.get(), &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count != 1) answered = folders.size();  // the child has ended, so nothing hangs
    if (count == 1) ++answered;
  }
  ::kill(child, SIGKILL);
  const pid_t reaped = ::waitpid(child, nullptr, answered < folders.size() ? WNOHANG : 0);
  if (answered == folders.size()) return {};
  if (left_behind != nullptr && reaped == 0) *left_behind = child;
  if (stopped) return fail(std::errc::operation_canceled, "stopped while {} did not answer", folders[answered]);
  return silent_folder(folders[answered]);
}

Result<void> FolderLook::check(const std::string& folder, std::chrono::milliseconds limit,
                               const std::function<void(const std::string&)>& look, int stop_fd) {
  if (left_behind_ > 0 && ::waitpid(left_behind_, nullptr, WNOHANG) == 0) return silent_folder(folder);
  left_behind_ = -1;
  return check_answers(std::span(&folder, 1), limit, look, &left_behind_, stop_fd);
}

}  // namespace flight
