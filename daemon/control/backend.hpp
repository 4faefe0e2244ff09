// SPDX-License-Identifier: Apache-2.0
// The interface between the control server and the daemon. All functions are called on the event loop and return at
// once; every `done` is called exactly once, on the event loop, now or later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/control/trigger_messages.hpp"

namespace flight::daemon {

// The caller: SO_PEERCRED, SO_PEERGROUPS, /proc/PID/comm.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  std::string comm;
  std::vector<gid_t> groups;
};

// A file of a snapshot, open for reading.
struct OpenSnapshot {
  UniqueFd file;
  std::string name;
  std::uint64_t size_bytes = 0;
};

class ControlBackend {
 public:
  using Done = std::function<void(CallResult<std::string>)>;  // a JSON text: the status, a sidecar, the rows
  using Opened = std::function<void(CallResult<OpenSnapshot>)>;
  // Receives events while its client is connected.
  struct Listener {
    std::weak_ptr<const void> client;
    std::function<void(const std::string& event)> send;
  };
  using Progress = std::function<void(std::string_view step, unsigned percent)>;

  virtual ~ControlBackend() = default;
  virtual void get_status(Done done) = 0;
  // `progress` may be called any number of times before `done`, also not at all.
  virtual void take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) = 0;
  virtual void list_snapshots(Done done) = 0;
  virtual void describe_snapshot(std::string id, Done done) = 0;
  virtual void remove_snapshot(std::string id, Done done) = 0;  // the text is "{}", also for the next two
  virtual void pin_snapshot(std::string id, bool pinned, Done done) = 0;
  virtual void set_recording(const Caller& caller, bool recording, Done done) = 0;
  virtual void read_snapshot(std::string id, SnapshotFile file, Opened opened) = 0;
  // The text is the whole reply of Vacuum.
  virtual void vacuum(bool dry_run, Done done) = 0;
  virtual void list_triggers(Done done) = 0;
  virtual void fire_trigger(const Caller& caller, FireParameters parameters, Done done) = 0;  // the text is the id
  virtual void set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) = 0;
  // The text is the whole reply, also for the next function.
  virtual void reload(const Caller& caller, Done done) = 0;
  virtual void get_config(Done done) = 0;
  // Publishes events from now on, one JSON object each; the first one is sent at once.
  virtual void monitor(Listener listener) = 0;
};

}  // namespace flight::daemon
