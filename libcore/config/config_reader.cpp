// SPDX-License-Identifier: Apache-2.0
#include "libcore/config/config_reader.hpp"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <new>
#include <thread>
#include <utility>

#include "libcore/base/poll.hpp"
#include "libcore/base/reading_child.hpp"
#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/unix_socket.hpp"
#include "libcore/config/config_child.hpp"

namespace flight {
namespace {

// A process that has answered, or was killed while it ran, ends within this time.
constexpr std::chrono::milliseconds kEndsWithin{50};

ConfigError unread(std::string file, std::string message) {
  return ConfigError{std::move(file), 0, "", std::move(message), 0, true};
}

ConfigError silent_at(const std::string& path) {
  return unread(path, fmt::format("the configuration {} does not answer: its file system waits for a server or a disk "
                                  "that hangs",
                                  path));
}

}  // namespace

ConfigReader::ConfigReader(std::string file, std::vector<std::string> command)
    : file_(std::move(file)), command_(std::move(command)) {
  left_.reserve(kMostLeft + 1);  // so that leave() needs no memory, also for two processes
}

ConfigReader::~ConfigReader() { drop(); }

ConfigResult<Config> ConfigReader::load(const LookUp& look) const {
  return file_.empty() ? load_config(ConfigFolders{}, look) : load_config(file_, {}, look);
}

void ConfigReader::begin() {
  if (child_ || result_) return;
  try {
    if (command_.empty())
      result_ = load(look_up);
    else
      start();
  } catch (const std::bad_alloc&) {
    result_ = tl::unexpected(unread(file_, kOutOfMemory));
  }
}

void ConfigReader::start() {
  reap();
  const auto cannot = [this](const Error& error) {
    result_ = tl::unexpected(unread(file_, fmt::format("the configuration cannot be read: {}", error.what)));
  };
  if (left_.size() >= kMostLeft) {
    const auto hung = std::find_if(left_.begin(), left_.end(), [](const Left& left) { return left.hung != nullptr; });
    if (hung != left_.end())
      return void(
          result_ = tl::unexpected(unread(
              file_, fmt::format("the configuration {} does not answer: {} processes wait for it. Only a restart "
                                 "of this program reads it again before one of them has ended",
                                 hung->hung->at(), left_.size()))));
    return cannot(
        fail(std::errc::resource_unavailable_try_again, "the processes that read it before have not ended yet")
            .value());
  }
  auto child = start_child();
  if (child) {
    child_ = std::move(*child);
    return;
  }
  // With no task left a reload works, too, where no file had to be asked of a server before.
  const int why = child.error().errno_value();
  if (near_ && (why == EAGAIN || why == ENOMEM))
    result_ = load(look_up);
  else
    cannot(child.error());
}

// `hung`: what another one waits for, and its identity; or nothing.
Result<ConfigReader::Child> ConfigReader::start_child(const std::vector<std::string>& hung) {
  auto pair = socket_pair(SOCK_STREAM);
  if (!pair) return propagate(pair.error());
  std::vector<std::string> arguments(command_.begin() + 1, command_.end());
  if (!file_.empty() || !hung.empty()) arguments.push_back(file_);
  arguments.insert(arguments.end(), hung.begin(), hung.end());
  const auto pid = start_reading_child(command_.front(), std::move(arguments), pair->other.get());
  if (!pid) return propagate(pid.error());
  return Child{.pid = *pid,
               .socket = std::move(pair->own),
               .gathered = std::make_shared<Gathered>(),
               .begun = Clock::now(),
               .looks_since = {}};
}

void ConfigReader::look_again() {
  reap();
  if (!child_ || child_->gathered->as().empty() || left_.size() >= kMostLeft) return;
  try {
    if (again_) {
      const bool hangs_elsewhere = !again_->gathered->as().empty();  // otherwise it has not begun
      if (hangs_elsewhere) child_.swap(again_);
      leave(again_, hangs_elsewhere);
      return;
    }
    if (auto child = start_child({child_->gathered->at(), child_->gathered->as()})) again_ = std::move(*child);
  } catch (const std::bad_alloc&) {
    // The reading goes on.
  }
}

std::optional<ConfigResult<Config>> ConfigReader::take() {
  if (!left_.empty()) reap();
  try {
    if (again_) receive_again();
    if (child_) {
      auto result = receive(child_);
      if (result && std::exchange(reached_same_, false))
        start();  // it replaced a process that was left behind, and reached the entry that this one waits for
      else if (result)
        result_ = std::move(*result);
    }
    if (result_ && again_) leave(again_, false);
  } catch (const std::bad_alloc&) {
    if (again_) leave(again_, false);
    if (child_) leave(child_, false);
    result_ = tl::unexpected(unread(file_, kOutOfMemory));
  }
  return std::exchange(result_, std::nullopt);
}

std::optional<ConfigResult<Config>> ConfigReader::receive(std::optional<Child>& child) {
  std::array<char, std::size_t{64} << 10U> piece{};
  for (;;) {
    const ssize_t count = ::recv(child->socket.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return std::nullopt;
    if (count <= 0) return tl::unexpected(how_it_ended(child));
    const auto added = child->gathered->add({piece.data(), static_cast<std::size_t>(count)});
    if (!added) {
      leave(child, false);
      return tl::unexpected(unread(file_, "the configuration cannot be read: " + added.error().what));
    }
    if (!child->looks_since) child->looks_since = Clock::now();
    if (!child->gathered->is_complete()) continue;
    const std::shared_ptr<Gathered> gathered = child->gathered;
    near_ = !gathered->may_hang();
    leave(child, false);
    return load(gathered->look_up());
  }
}

// A process that reached the same entry, or failed, changes nothing.
void ConfigReader::receive_again() {
  auto result = receive(again_);
  reached_same_ = false;
  if (!result || (!*result && result->error().unread)) return;
  result_ = std::move(*result);
  leave(child_, true);
}

// Its socket is closed.
ConfigError ConfigReader::how_it_ended(std::optional<Child>& child) {
  const std::optional<int> status = leave(child, false);
  reached_same_ = status && WIFEXITED(*status) && WEXITSTATUS(*status) == kConfigChildSame;
  if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == kConfigChildNoMemory) return unread(file_, kOutOfMemory);
  const std::string how = !status                ? std::string("it closed its socket")
                          : WIFSIGNALED(*status) ? fmt::format("signal {}", WTERMSIG(*status))
                                                 : fmt::format("exit status {}", WEXITSTATUS(*status));
  return unread(file_, fmt::format("the configuration cannot be read: the process that reads it ended ({})", how));
}

// Returns the status of a process that ends. A process that hangs in the kernel ends when the server answers.
std::optional<int> ConfigReader::leave(std::optional<Child>& child, bool hangs) {
  const pid_t pid = child->pid;
  std::shared_ptr<Gathered> gathered = std::move(child->gathered);
  if (!gathered->is_complete()) ::kill(pid, SIGKILL);
  child.reset();
  for (const auto until = Clock::now() + kEndsWithin;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0) return std::nullopt;
    if (Clock::now() >= until) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  left_.push_back({.pid = pid, .hung = hangs ? std::move(gathered) : nullptr});
  return std::nullopt;
}

void ConfigReader::reap() {
  std::erase_if(left_, [](const Left& left) { return ::waitpid(left.pid, nullptr, WNOHANG) != 0; });
}

ConfigReader::Clock::time_point ConfigReader::due(Clock::time_point asked, std::chrono::milliseconds limit) const {
  if (!child_) return asked + limit;
  return (child_->looks_since ? std::max(asked, *child_->looks_since) : asked + kToBegin) + limit;
}

ConfigResult<Config> ConfigReader::read(std::chrono::milliseconds limit, int stop_fd) {
  const auto asked = Clock::now();
  begin();
  for (;;) {
    if (auto result = take()) return std::move(*result);
    const auto now = Clock::now();
    const auto until = due(asked, limit);
    if (now >= until) return tl::unexpected(silence());
    std::array<pollfd, 2> watched{pollfd{fd(), POLLIN, 0}, pollfd{stop_fd, POLLIN, 0}};
    wait_for_any(watched, until - now);
    if (watched[1].revents != 0)
      return tl::unexpected(unread(file_, "the configuration was not read: this program ends"));
  }
}

void ConfigReader::drop() {
  result_.reset();
  if (again_) leave(again_, false);
  if (child_) leave(child_, is_late() && !child_->gathered->at().empty());
}

ConfigError ConfigReader::silence() const {
  if (child_ && !child_->gathered->at().empty()) return silent_at(child_->gathered->at());
  return unread(file_, fmt::format("the configuration cannot be read: the process that reads it {}",
                                   child_ && child_->looks_since ? "gets no further" : "does not begin"));
}

}  // namespace flight
