// SPDX-License-Identifier: Apache-2.0
// The broker that flightd starts itself when there is no --broker: a forked child over a socketpair. It ends when the
// socketpair's other end is closed, so also when flightd is killed.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class BrokerProcess {
 public:
  struct Setup {
    std::string config_file;  // empty: the folders
    std::string state_dir;
    gid_t group = 0;  // of the snapshot files
  };
  // Forks and executes flightd-broker (beside this program, else from libexecdir). `wall` gets our end of the
  // socketpair. Before there are threads.
  [[nodiscard]] static Result<BrokerProcess> start(const Setup& setup, UniqueFd& wall);

  BrokerProcess(BrokerProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  BrokerProcess& operator=(BrokerProcess&&) = delete;
  // The wall must have been closed: waits for the child's end, and after 5 s kills it.
  ~BrokerProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  explicit BrokerProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_ = -1;
};

}  // namespace flight
