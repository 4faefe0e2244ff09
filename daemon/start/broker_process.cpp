// SPDX-License-Identifier: Apache-2.0
#include "daemon/start/broker_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "daemon/log/log.hpp"
#include "libcore/base/not_started.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::daemon {
namespace {

// It takes some ms, and 0.1 s with a helper that hangs.
constexpr std::chrono::seconds kEndWait(3);
constexpr std::chrono::seconds kKilledWithin(1);

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
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return sys_error(errno, "make a pipe to {}", *program);
  const UniqueFd its_end(ends[0]);
  UniqueFd end(ends[1]);

  std::vector<std::string> words{*program,
                                 "--fd",
                                 fmt::format("{}", pair->other.get()),
                                 "--end-fd",
                                 fmt::format("{}", its_end.get()),
                                 "--state-dir",
                                 setup.state_dir,
                                 "--group",
                                 fmt::format("{}", setup.group)};
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
    for (const int kept : {pair->other.get(), its_end.get()}) ::fcntl(kept, F_SETFD, 0);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  connection = std::move(pair->own);
  return BrokerProcess(pid, std::move(end));
}

bool BrokerProcess::ends_within(std::chrono::milliseconds time) const {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

BrokerProcess::~BrokerProcess() {
  if (pid_ <= 0 || ends_within(kEndWait)) return;
  log::warn("flightd-broker (pid {}) has not ended within {} s: it is killed", pid_, kEndWait.count());
  end_.reset();
  if (ends_within(kKilledWithin)) return;
  log::error(
      "flightd-broker (pid {}) is left behind with its events: the kernel has not ended it within {} s of SIGKILL",
      pid_, kKilledWithin.count());
}

}  // namespace flight::daemon
