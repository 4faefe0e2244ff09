// SPDX-License-Identifier: Apache-2.0
// Makes a file of the store and sends it, on a thread of its own: the disk below the store may be slow or hang, and the
// broker answers everything else meanwhile. No step of it is taken on the broker's own thread: closing a file can hang,
// too.
#pragma once

#include <optional>
#include <string>

#include "libcore/base/result.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight {

// At once, of all clients together; a disk that hangs holds up no more threads than these.
inline constexpr int kMaxFileThreads = 4;

// `header` is the answer's. EBUSY: kMaxFileThreads still wait for the disk.
[[nodiscard]] Result<void> answer_with_file(int client, const ReplyHeader& header, const std::string& state_dir,
                                            std::optional<gid_t> group);

}  // namespace flight
