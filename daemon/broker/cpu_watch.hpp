// SPDX-License-Identifier: Apache-2.0
// Says when to look after the CPUs: the kernel's uevents of them, a clock that shows that the machine was suspended,
// and once a second the list of those online, since a uevent can be missed and no netlink socket may be had. Dead
// events say nothing of their own: no POLLHUP, no error from any call.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "libcore/base/clock.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight {

inline constexpr std::chrono::milliseconds kWatchEvery{1000};

class CpuWatch {
 public:
  // Without a netlink socket (-1 in fd()) it is as good, a second later.
  [[nodiscard]] static CpuWatch open();
  // Readable: look().
  [[nodiscard]] int fd() const { return uevents_.get(); }

  struct Look {
    std::vector<int> online;
    Probe probe = Probe::none;
    EventTime good_ns = 0;  // of the last look that had no reason to doubt
  };
  // nullopt: there is no reason to look yet.
  [[nodiscard]] std::optional<Look> look();

 private:
  explicit CpuWatch(UniqueFd uevents) : uevents_(std::move(uevents)) {}
  [[nodiscard]] bool take_uevents();
  UniqueFd uevents_;
  EventTime looked_ns_ = 0, probed_ns_ = 0, slept_ns_ = 0;
};

}  // namespace flight
