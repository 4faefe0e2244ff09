// SPDX-License-Identifier: Apache-2.0
// Closes the descriptors that a new process has inherited. seccomp may refuse close_range(2): then one after the other
// is closed, as /proc/self/fd shows them.
#pragma once

namespace flight {

// From `first` on, except `kept` (-1: none). Async-signal-safe, for a child of fork(2).
void close_inherited(int first, int kept = -1);

}  // namespace flight
