// SPDX-License-Identifier: Apache-2.0
// What the control server asks of the daemon. All functions are called on the event loop and return at once; every
// `done` is called exactly once, on the event loop, now or later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "libcore/control/messages.hpp"

namespace flight {

// Who asks: SO_PEERCRED, SO_PEERGROUPS, /proc/PID/comm.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  std::string comm;
  std::vector<gid_t> groups;
};

class ControlBackend {
 public:
  using Done = std::function<void(CallResult<std::string>)>;  // a JSON text: the status, a sidecar, the rows
  using Progress = std::function<void(std::string_view step, unsigned percent)>;

  virtual ~ControlBackend() = default;
  virtual void get_status(Done done) = 0;
  // `progress` may be called any number of times before `done`, also not at all.
  virtual void take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) = 0;
  virtual void list_snapshots(Done done) = 0;
  virtual void describe_snapshot(std::string id, Done done) = 0;
  virtual void remove_snapshot(std::string id, Done done) = 0;  // the text is "{}"
};

}  // namespace flight
