// SPDX-License-Identifier: Apache-2.0
// Who listens (Monitor), and what they are told. Says each event once to each of them; what a slow one does not take is
// its session's business. Event loop only.
#pragma once

#include <string>
#include <vector>

#include "daemon/control_backend.hpp"
#include "libcore/base/clock.hpp"
#include "libcore/control/events.hpp"

namespace flight {

class EventHub {
 public:
  // As many as there are connections: who has left is forgotten when the next one comes, too.
  void add(ControlBackend::Listener listener, RecorderEvent first) {
    forget_the_gone();
    first.time = to_rfc3339(wall_now());
    listener.tell(to_json(first));
    listeners_.push_back(std::move(listener));
  }
  void publish(RecorderEvent event) {
    forget_the_gone();
    if (listeners_.empty()) return;
    event.time = to_rfc3339(wall_now());
    const std::string text = to_json(event);
    for (const ControlBackend::Listener& listener : listeners_) listener.tell(text);
  }

 private:
  void forget_the_gone() {
    std::erase_if(listeners_, [](const ControlBackend::Listener& listener) { return listener.client.expired(); });
  }
  std::vector<ControlBackend::Listener> listeners_;
};

}  // namespace flight
