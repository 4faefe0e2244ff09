// SPDX-License-Identifier: Apache-2.0
// Creates a file of the store and sends it, on separate threads: if the disk hangs, open(2), close(2), fstat(2) and
// statfs(2) block. So this reply is the only one that can be out of order.
#pragma once

#include <optional>
#include <string>

#include "daemon/broker/blocking_threads.hpp"
#include "libcore/base/result.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight::broker {

// The limit for all clients together: a disk that hangs blocks at most this many threads.
inline constexpr int kMaxFileThreads = 4;

// `header` is the reply's. EBUSY: kMaxFileThreads still wait for the disk.
[[nodiscard]] Result<void> answer_with_file(const BlockingThreads& threads, int client, const ReplyHeader& header,
                                            const std::string& state_dir, std::optional<gid_t> group);

}  // namespace flight::broker
