// SPDX-License-Identifier: Apache-2.0
// The broker that flightd starts without --broker: a forked child over a socketpair. It ends when the other end is
// closed. It also has the reading end of a pipe: when the other end is closed, the kernel kills it, whatever it is
// doing, and also while it is stopped. That needs no permission, which a flightd that has changed its user lacks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>

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

  BrokerProcess(BrokerProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)), end_(std::move(other.end_)) {}
  BrokerProcess& operator=(BrokerProcess&&) = delete;
  // Waits for the child to exit, and kills it after 3 s, which is logged. Close the connection first.
  ~BrokerProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  BrokerProcess(pid_t pid, UniqueFd end) : pid_(pid), end_(std::move(end)) {}
  [[nodiscard]] bool ends_within(std::chrono::milliseconds time) const;

  pid_t pid_ = -1;
  UniqueFd end_;  // the writing end; nothing is written to it
};

}  // namespace flight::daemon
