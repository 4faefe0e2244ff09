// SPDX-License-Identifier: Apache-2.0
// From a call's method to the backend and back to replies: which methods there are, who may call them, which
// parameters they take. Knows no socket. Event loop only.
#pragma once

#include <functional>

#include "daemon/control_backend.hpp"
#include "daemon/peer.hpp"
#include "libcore/control/varlink.hpp"

namespace flight {

// Where the answer to one call goes: `reply` gets any number of replies that continue, then one that does not. A call
// that upgrades the connection, and one that listens, end with the other two instead.
struct AnswerSink {
  std::function<void(Reply)> reply;
  std::function<void(Reply, OpenSnapshot)> upgrade;  // the last reply, then the file's bytes
  ControlBackend::Listener listen;                   // the events
};

void answer(const Call& call, const Caller& caller, const ControlAccess& access, ControlBackend& backend,
            AnswerSink sink);

[[nodiscard]] Reply error_reply(CallError error);

}  // namespace flight
