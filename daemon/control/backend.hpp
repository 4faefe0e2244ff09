// SPDX-License-Identifier: Apache-2.0
// The interface between the control server and the daemon. All functions are called on the event loop and return at
// once; every `done` is called exactly once, on the event loop, now or later. ControlRouter overrides all functions,
// which its test verifies; UnstartedBackend overrides three, and needs no line for a new method.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/control/messages.hpp"
#include "libcore/control/record_messages.hpp"
#include "libcore/control/trigger_messages.hpp"
#include "libcore/store/pieces.hpp"

namespace flight::daemon {

// The caller: SO_PEERCRED, SO_PEERGROUPS, /proc/PID/comm, SO_PEERPIDFD.
struct Caller {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;
  std::string comm;
  std::vector<gid_t> groups;
  bool has_ended = false;  // before it was served: the pid can be another process's
};

// A file of a snapshot, open for reading.
struct OpenSnapshot {
  UniqueFd file;
  std::string name;
  std::uint64_t size_bytes = 0;
  Pieces tar{};  // in place of the file: a data directory
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
  // Receives the steps of a recording (record_messages.hpp) while its client is connected. An empty `step`: no client
  // follows the recording.
  struct Follower {
    std::weak_ptr<const void> client;
    std::function<void(const std::string& id, const std::optional<RecordProgress>& progress)> step;
  };
  using Progress = std::function<void(std::string_view step, unsigned percent)>;

  virtual ~ControlBackend() = default;

  // These three are answered by a flightd that cannot start yet, too.
  virtual void get_status(Done done) = 0;
  virtual void reload(const Caller& caller, Done done) = 0;  // the text is the whole reply
  // Publishes events from now on, one JSON object each; the first one is sent at once.
  virtual void monitor(Listener listener) = 0;

  // The others fail with refusal() if they are not overridden.
  // NOLINTBEGIN(performance-unnecessary-value-param): functions that override these move their parameters

  // `progress` may be called any number of times before `done`, also not at all.
  virtual void take_snapshot(const Caller& /*caller*/, SnapshotParameters /*parameters*/, Progress /*progress*/,
                             Done done) {
    refuse(done);
  }
  // `follower.step` may be called any number of times before `done`. The text is a RecordResult, also for the next one.
  virtual void record(const Caller& /*caller*/, RecordParameters /*parameters*/, Follower /*follower*/, Done done) {
    refuse(done);
  }
  virtual void stop_recording(std::string /*id*/, Done done) { refuse(done); }
  virtual void list_snapshots(Done done) { refuse(done); }
  virtual void describe_snapshot(std::string /*id*/, Done done) { refuse(done); }
  // The text is "{}", also for the next two functions.
  virtual void remove_snapshot(std::string /*id*/, Done done) { refuse(done); }
  virtual void pin_snapshot(std::string /*id*/, bool /*pinned*/, Done done) { refuse(done); }
  virtual void set_recording(const Caller& /*caller*/, bool /*recording*/, Done done) { refuse(done); }
  virtual void read_snapshot(std::string /*id*/, SnapshotFile /*file*/, Opened opened) {
    opened(tl::unexpected(refusal()));
  }
  // The text is the whole reply of Vacuum. `progress`: as of take_snapshot().
  virtual void vacuum(bool /*dry_run*/, Progress /*progress*/, Done done) { refuse(done); }
  virtual void list_triggers(Done done) { refuse(done); }
  // The text is the id.
  virtual void fire_trigger(const Caller& /*caller*/, FireParameters /*parameters*/, Done done) { refuse(done); }
  virtual void set_trigger(const Caller& /*caller*/, SetTriggerParameters /*parameters*/, Done done) { refuse(done); }
  // The text is the whole reply.
  virtual void get_config(Done done) { refuse(done); }

  // NOLINTEND(performance-unnecessary-value-param)

 private:
  [[nodiscard]] virtual CallError refusal() const {
    return write_failed(ENOSYS, "", "this flightd does not answer this call");
  }
  void refuse(const Done& done) const { done(tl::unexpected(refusal())); }
};

}  // namespace flight::daemon
