// SPDX-License-Identifier: Apache-2.0
// Reports when to check the CPUs: after their uevents, after a suspend (seen in the clocks), and once a second from the
// list of online CPUs, because a uevent can be missed and the netlink socket may be unavailable. Dead events report
// nothing themselves: no POLLHUP, no error from any call.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight::broker {

inline constexpr std::chrono::milliseconds kWatchEvery{1000};

class CpuWatch {
 public:
  // Without a netlink socket (fd() is -1) changes are noticed up to a second later.
  [[nodiscard]] static CpuWatch open(std::string root = "");
  // When it is readable, call look().
  [[nodiscard]] int fd() const { return uevents_.get(); }

  struct Look {
    std::vector<int> online;
    Probe probe = Probe::none;
    EventTime good_ns = 0;  // time of the last look without a reason to check
  };
  // nullopt: no reason to check yet, or the CPUs could not be read. In the second case a call after one second tries
  // again.
  [[nodiscard]] std::optional<Look> look();
  // True once if a kernel module may have been loaded or unloaded since the last call. The caller finds out which.
  [[nodiscard]] bool take_module_news() { return std::exchange(module_news_, false); }

 private:
  CpuWatch(UniqueFd uevents, std::string root) : uevents_(std::move(uevents)), root_(std::move(root)) {}
  [[nodiscard]] bool take_uevents();
  UniqueFd uevents_;
  std::string root_;
  bool module_news_ = false;
  bool suspected_ = false;   // since the last successful look
  EventTime looked_ns_ = 0;  // the last successful look
  EventTime tried_ns_ = 0;   // the last look, successful or not
  EventTime probed_ns_ = 0, slept_ns_ = 0;
};

}  // namespace flight::broker
