// SPDX-License-Identifier: Apache-2.0
// What systemd keeps for the next broker (FileDescriptorStoreMax=, sd_pid_notify_with_fds(3)): every event, and a
// sealed memfd with the manifest that says which is which. So the events go on recording while there is no broker; only
// the rings' memory is flightd's to hold meanwhile. Where nobody started us who keeps anything, nothing is kept.
//
//   name "e1a2b"   the event with that PERF_EVENT_IOC_ID, hexadecimal
//   name "m7"      the manifest; of two the one with the greater number, whose events were all stored before it
//
// FDPOLL=0 with each: a poll of PID 1's would take the sideband's wakeups away from flightd.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/recorder/recording.hpp"

namespace flight {

// All names go into one environment variable, which execve(2) limits to 128 KiB: the unit's FileDescriptorStoreMax=.
inline constexpr std::size_t kMaxStored = 8192;

class FdStore {
 public:
  // What this process was started with ($LISTEN_FDS); before any descriptor is opened. Sockets are in sockets().
  [[nodiscard]] static FdStore take();

  [[nodiscard]] std::vector<UniqueFd>& sockets() { return sockets_; }
  // nullopt: nothing was kept. An error: something was, and it is of no use.
  struct Kept {
    Manifest manifest;
    KeptEvents events;
  };
  [[nodiscard]] std::optional<Result<Kept>> take_kept();

  // From now on exactly this. After every change of the set of rings or of the configuration.
  [[nodiscard]] Result<void> keep(const Recording& recording);

 private:
  struct Stored {
    std::string name;
    UniqueFd fd;
  };
  std::vector<UniqueFd> sockets_;
  std::vector<Stored> taken_;    // until take_kept()
  std::set<std::string> names_;  // of what is stored now
  std::uint64_t last_manifest_ = 0;
};

}  // namespace flight
