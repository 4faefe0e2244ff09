// SPDX-License-Identifier: Apache-2.0
// Converts the Error of a snapshot to the error that its clients receive. The text is for a person: it says whether
// recording continues, and what to do. Called on the event loop, but any thread may.
#pragma once

#include "libcore/base/result.hpp"
#include "libcore/control/messages.hpp"

namespace flight::daemon {

// Stopping for ECANCELED, StoreFull for ENOSPC and EDQUOT, otherwise WriteFailed. `broker_gone`: nothing
// is recorded now.
[[nodiscard]] CallError snapshot_call_error(const Error& error, bool broker_gone);

}  // namespace flight::daemon
