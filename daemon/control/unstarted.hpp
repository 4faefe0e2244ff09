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
  void reload(const Caller& caller, Done done) override { reload_(caller, std::move(done)); }
  // Sends the first event only: the connection ends when flightd starts.
  void monitor(Listener listener) override;

 private:
  [[nodiscard]] CallError refusal() const override;

  std::function<void(const Caller&, Done)> reload_;
  std::string reason_;
  MonitorClients clients_;
};

}  // namespace flight::daemon
