// SPDX-License-Identifier: Apache-2.0
// From a call's method to the backend and back to replies: which methods there are, who may call them, which
// parameters they take. Knows no socket. Event loop only.
#pragma once

#include <functional>

#include "daemon/control_backend.hpp"
#include "daemon/peer.hpp"
#include "libcore/control/varlink.hpp"

namespace flight {

// Called with the replies to one call, in order: any number that continue, then one that does not.
using ReplySink = std::function<void(Reply)>;

void answer(const Call& call, const Caller& caller, const ControlAccess& access, ControlBackend& backend,
            ReplySink sink);

[[nodiscard]] Reply error_reply(CallError error);

}  // namespace flight
