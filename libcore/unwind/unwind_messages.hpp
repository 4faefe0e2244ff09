// SPDX-License-Identifier: Apache-2.0
// The messages between flightd and the unwinder, on a SOCK_SEQPACKET. Both are of one build, so a message is sent as it
// is in memory.
//
//   flightd                                                       unwinder
//     memory   fds {batch, answer}                            ─▶  maps both: the first for reading only
//     table    number, fd {a file of the cache}               ─▶  maps it
//     no_table number                                         ─▶  forgets it
//     unwind   bytes of the batch, number of tables           ─▶  unwinds it
//                                                             ◀─  answer   bytes, or an errno
//
// The memory is two memfds that nobody can resize any more, so that reading them raises no SIGBUS; nobody but flightd
// can write to the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

enum class UnwindMessageKind : std::uint32_t { memory = 1, table, no_table, unwind, answer };

struct UnwindMessage {
  UnwindMessageKind kind{};
  std::uint32_t number = 0;
  std::uint64_t bytes = 0, answer_bytes = 0;
  std::int32_t error = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(UnwindMessage) == 32);
inline constexpr std::size_t kMaxUnwindFds = 2;  // of one message

// Waits for space. At most kMaxUnwindFds.
[[nodiscard]] Result<void> send_unwind_message(int socket, const UnwindMessage& message, std::span<const int> fds = {});
// Waits for it. ENOTCONN: the other side is gone; EBADMSG: it is no such message.
[[nodiscard]] Result<UnwindMessage> receive_unwind_message(int socket, std::vector<UniqueFd>& fds);

}  // namespace flight
