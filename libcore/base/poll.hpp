// SPDX-License-Identifier: Apache-2.0
// Waits for descriptors, in the loops of threads that do not use Asio, such as flightd's recorder, broker and trigger
// threads and the broker's main thread. Its one rule: whatever poll(2) returns, such a loop must neither end nor turn
// without a pause. Any thread.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>

namespace flight {

// As poll(2). It may return early with nothing ready: after a signal, or where the kernel refuses so many descriptors
// at once (EINVAL: RLIMIT_NOFILE was lowered while the process was running). Then there is a pause of 20 ms, and each
// is looked at by itself. `limit` below 0: none.
void wait_for_any(std::span<pollfd> watched, std::chrono::nanoseconds limit);

}  // namespace flight
