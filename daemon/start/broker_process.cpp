// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/broker_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "libcore/base/not_started.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::daemon {
namespace {

constexpr std::chrono::seconds kEndWait(5);

Result<std::string> find_broker() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::vector<std::string> places{(self.parent_path() / "broker" / "flightd-broker").string(),
                                        FLIGHTD_LIBEXECDIR "/flightd/flightd-broker"};
  for (const std::string& place : places)
    if (::access(place.c_str(), X_OK) == 0) return place;
  return fail(std::errc::no_such_file_or_directory, "flightd-broker not found at {} or {}: build or install it",
              places[0], places[1]);
}

}  // namespace

Result<BrokerProcess> BrokerProcess::start(const Setup& setup, UniqueFd& connection) {
  auto program = find_broker();
  if (!program) return propagate(program.error());
  auto pair = socket_pair(SOCK_SEQPACKET);
  if (!pair) return wrap(pair.error(), "start {}", *program);

  std::vector<std::string> words{*program,        "--fd",    fmt::format("{}", pair->other.get()), "--state-dir",
                                 setup.state_dir, "--group", fmt::format("{}", setup.group)};
  if (!setup.config_file.empty()) {
    words.emplace_back("--config");
    words.push_back(setup.config_file);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return not_started(errno, "the broker, " + *program);
  if (pid == 0) {
    ::fcntl(pair->other.get(), F_SETFD, 0);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  connection = std::move(pair->own);
  return BrokerProcess(pid);
}

BrokerProcess::~BrokerProcess() {
  if (pid_ <= 0) return;
  const auto deadline = std::chrono::steady_clock::now() + kEndWait;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      ::kill(pid_, SIGKILL);  // may be refused after the drop; the end of the connection stops the broker anyway
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace flight::daemon
