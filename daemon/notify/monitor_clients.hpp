// SPDX-License-Identifier: Apache-2.0
// The clients that called Monitor. Publishes each event once to each of them; a session queues or drops what its client
// does not read. Event loop only.
#pragma once

#include <string>
#include <vector>

#include "daemon/control/backend.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/control/events.hpp"

namespace flight::daemon {

class MonitorClients {
 public:
  // Also removes closed connections, so there are at most as many listeners as connections. `first` is the event
  // `monitoring`: the client knows that it receives every event after it.
  void add(ControlBackend::Listener listener, RecorderEvent first) {
    forget_the_gone();
    first.time = to_rfc3339(wall_now());
    listener.send(to_json(first));
    listeners_.push_back(std::move(listener));
  }
  void publish(RecorderEvent event) {
    forget_the_gone();
    if (listeners_.empty()) return;
    event.time = to_rfc3339(wall_now());
    const std::string text = to_json(event);
    for (const ControlBackend::Listener& listener : listeners_) listener.send(text);
  }

 private:
  void forget_the_gone() {
    std::erase_if(listeners_, [](const ControlBackend::Listener& listener) { return listener.client.expired(); });
  }
  std::vector<ControlBackend::Listener> listeners_;
};

}  // namespace flight::daemon
