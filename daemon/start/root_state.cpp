// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/root_state.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "libcore/base/close_inherited.hpp"
#include "libcore/base/not_started.hpp"
#include "libcore/base/passed_fds.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::milliseconds kRootWait(3000);  // then recording begins without the store
constexpr std::size_t kMostStateBytes = 64U << 10U;

// One message: the errno (0: taken), then the error's text or the warnings, each with a '\0' at its end; the lock as a
// descriptor.
void send_taken(int socket, const Result<StateFolder>& taken) {
  const int number = taken ? 0 : std::max(taken.error().errno_value(), 1);
  std::string text(reinterpret_cast<const char*>(&number), sizeof number);
  if (!taken) text += taken.error().what + '\0';
  if (taken)
    for (const std::string& warning : taken->warnings) text += warning + '\0';
  text.resize(std::min(text.size(), kMostStateBytes));
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  FdSpace<1> space;
  const int lock = taken ? taken->lock.get() : -1;
  if (lock >= 0) attach_fds(message, space.bytes, std::span(&lock, 1));
  static_cast<void>(::sendmsg(socket, &message, MSG_NOSIGNAL));
}

// Nullopt: the child ended without an answer.
std::optional<Result<StateFolder>> receive_taken(int socket) {
  std::string text(kMostStateBytes, '\0');
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  FdSpace<1> space;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.bytes.data();
  message.msg_controllen = space.bytes.size();
  const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  StateFolder out;
  if (count > 0) out.lock = take_one_fd(message);
  int number = 0;
  if (count < static_cast<ssize_t>(sizeof number)) return std::nullopt;
  std::memcpy(&number, text.data(), sizeof number);
  text.resize(static_cast<std::size_t>(count));
  for (std::size_t from = sizeof number, end = 0; (end = text.find('\0', from)) != std::string::npos; from = end + 1)
    out.warnings.push_back(text.substr(from, end - from));
  if (number == 0) return out;
  return Result<StateFolder>(
      propagate({std::error_code(number, std::generic_category()), out.warnings.empty() ? "" : out.warnings.front()}));
}

class Taker {
 public:
  Taker(std::string path, Identity identity) : path_(std::move(path)), identity_(std::move(identity)) {}

  [[nodiscard]] Result<void> start() {
    auto pair = socket_pair(SOCK_SEQPACKET);
    if (!pair) return wrap(pair.error(), "for {}", process());
    pid_ = ::fork();
    if (pid_ < 0) return not_started(errno, process());
    if (pid_ == 0) {
      // It may outlive flightd, so it must not keep what flightd holds, such as the lock of RUNTIME.
      if (::dup2(pair->other.get(), STDIN_FILENO) != STDIN_FILENO) ::_exit(1);
      close_inherited(STDERR_FILENO + 1);
      // Directories get the mode that mkdir(2) is called with, also where chmod(2) is refused afterwards.
      ::umask(0);
      send_taken(STDIN_FILENO, take_state_folder(path_, identity_));
      ::_exit(0);
    }
    socket_ = std::move(pair->own);
    return {};
  }
  // Nullopt: it has not answered yet.
  [[nodiscard]] std::optional<Result<StateFolder>> answer(std::chrono::milliseconds wait) {
    if (!socket_) return take_state_folder(path_, identity_);
    pollfd polled{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&polled, 1, static_cast<int>(wait.count())) <= 0) return std::nullopt;
    auto out = receive_taken(socket_.get());
    socket_ = UniqueFd();
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (out) return out;
    return fail(std::errc::io_error,
                "{} has ended without an answer: if it was killed, the kernel log says why (dmesg)", process());
  }
  // As flightd's user: root can make a STATE below a directory that is closed to that user, such as /root.
  [[nodiscard]] Result<void> check_reachable() const {
    const std::string snapshots = path_ + "/snapshots";
    if (::faccessat(AT_FDCWD, snapshots.c_str(), R_OK | X_OK, AT_EACCESS) == 0 || errno != EACCES) return {};
    struct stat info {};
    if (::stat(snapshots.c_str(), &info) == 0 && info.st_uid != identity_.uid)
      return sys_error(EACCES,
                       "user {} cannot use {}: it belongs to user {}, because its file system refused to give it to "
                       "{} (chown); make it writable for that user, or use a --state-dir on another file system",
                       identity_.user, snapshots, info.st_uid, identity_.user);
    return sys_error(EACCES,
                     "user {} cannot reach {}: open each directory above it to that user, or use another --state-dir",
                     identity_.user, snapshots);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  [[nodiscard]] std::string process() const {
    return fmt::format("the process that gives {} to user {}", path_, identity_.user);
  }
  const std::string path_;
  const Identity identity_;
  UniqueFd socket_;  // the child's; invalid: there is none
  pid_t pid_ = -1;
};

}  // namespace

Result<std::function<Result<StateFolder>()>> take_state_as_root(const std::string& path, const Identity& identity) {
  auto taker = std::make_shared<Taker>(path, identity);
  auto first = std::make_shared<std::optional<Result<StateFolder>>>();
  const bool by_root = ::geteuid() == 0;
  if (by_root) {
    if (auto started = taker->start(); !started) return propagate(started.error());
    *first = taker->answer(kRootWait);
    if (*first && !**first && forbids_start((*first)->error())) return propagate((*first)->error());
  }
  return [taker, first, by_root]() -> Result<StateFolder> {
    if (!*first) *first = taker->answer(std::chrono::milliseconds(0));
    if (!*first) return sys_error(ETIMEDOUT, "{} has not answered since flightd started", taker->path());
    if (by_root && **first) {
      // Keep root's result: STATE is taken once, and the next call only checks again whether it can be reached.
      if (auto reached = taker->check_reachable(); !reached) return propagate(reached.error());
    }
    auto answer = std::exchange(*first, std::nullopt);
    return std::move(*answer);
  };
}

}  // namespace flight::daemon
