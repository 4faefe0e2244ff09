// SPDX-License-Identifier: Apache-2.0
// Dispatches calls to the backend and turns its results into replies: the table of methods, who may call them, their
// parameters. Uses no socket. Event loop only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/control/backend.hpp"
#include "daemon/control/peer.hpp"
#include "libcore/control/varlink.hpp"

namespace flight::daemon {

// For how long a call can keep its connection, the longest last: it is answered at once; when a snapshot is written;
// when a disk answers, or its client has read a file or a recording, which may be never; until its client ends it.
enum class CallSpan : std::uint8_t { brief, snapshot, slow, endless };

// Receives the replies of one call: any number with `continues`, then one without. For a call that upgrades the
// connection, or Monitor, the other two functions are called instead of the last reply.
struct AnswerSink {
  std::function<void(Reply)> reply;
  std::function<void(Reply, OpenSnapshot)> upgrade;  // the last reply, then the file's bytes
  ControlBackend::Listener listen;                   // the events
  // Replies that are followed by others may stay unread for as long as the client likes: they are dropped.
  std::function<void()> be_patient = [] {};
  // Called before a call that is not brief. Not empty: why it is refused, because others keep too many connections.
  std::function<std::string(CallSpan)> admit = [](CallSpan) { return std::string(); };
};

void answer(const Call& call, const Caller& caller, const ControlAccess& access, ControlBackend& backend,
            AnswerSink sink);

[[nodiscard]] Reply error_reply(CallError error);

}  // namespace flight::daemon
