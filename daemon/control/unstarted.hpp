// SPDX-License-Identifier: Apache-2.0
// Answers the control calls of a flightd that cannot start yet (daemon/start/start_wait.*): the status has the reason,
// a reload is passed on, and every other call fails with the reason. Event loop only.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "daemon/control/backend.hpp"
#include "daemon/notify/monitor_clients.hpp"

namespace flight::daemon {

class UnstartedBackend : public ControlBackend {
 public:
  // `reload`: a client requests a reload.
  explicit UnstartedBackend(std::function<void(const Caller&, Done)> reload) : reload_(std::move(reload)) {}

  void set_reason(std::string reason) { reason_ = std::move(reason); }

  void get_status(Done done) override;
  void take_snapshot(const Caller& caller, SnapshotParameters parameters, Progress progress, Done done) override;
  void list_snapshots(Done done) override { refuse(done); }
  void describe_snapshot(std::string /*id*/, Done done) override { refuse(done); }
  void remove_snapshot(std::string /*id*/, Done done) override { refuse(done); }
  void pin_snapshot(std::string /*id*/, bool /*pinned*/, Done done) override { refuse(done); }
  void set_recording(const Caller& caller, bool recording, Done done) override;
  void read_snapshot(std::string id, SnapshotFile file, Opened opened) override;
  void vacuum(bool /*dry_run*/, Done done) override { refuse(done); }
  void list_triggers(Done done) override { refuse(done); }
  void fire_trigger(const Caller& caller, FireParameters parameters, Done done) override;
  void set_trigger(const Caller& caller, SetTriggerParameters parameters, Done done) override;
  void reload(const Caller& caller, Done done) override { reload_(caller, std::move(done)); }
  void get_config(Done done) override { refuse(done); }
  // Sends the first event only: the connection ends when flightd starts.
  void monitor(Listener listener) override;

 private:
  [[nodiscard]] CallError refusal() const;
  void refuse(const Done& done) const { done(tl::unexpected(refusal())); }

  std::function<void(const Caller&, Done)> reload_;
  std::string reason_;
  MonitorClients clients_;
};

}  // namespace flight::daemon
