// SPDX-License-Identifier: Apache-2.0
// The broker that flightd starts without --broker: a forked child over a socketpair. It ends when the other end is
// closed, also when flightd is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight::daemon {

class BrokerProcess {
 public:
  struct Setup {
    std::string config_file;  // empty: the default directories
    std::string state_dir;
    gid_t group = 0;  // of the snapshot files
  };
  // Forks and executes flightd-broker (from this program's directory, otherwise from libexecdir). `connection`
  // receives flightd's end of the socketpair. Call it before there are threads.
  [[nodiscard]] static Result<BrokerProcess> start(const Setup& setup, UniqueFd& connection);

  BrokerProcess(BrokerProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  BrokerProcess& operator=(BrokerProcess&&) = delete;
  // Waits for the child to exit, and kills it after 5 s. Close the connection first.
  ~BrokerProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit BrokerProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

}  // namespace flight::daemon
