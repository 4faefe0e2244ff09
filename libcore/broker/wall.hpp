// SPDX-License-Identifier: Apache-2.0
// One message over the wall: a header, a text, file descriptors (unix(7), SCM_RIGHTS). A receiver with too few free
// descriptors loses some silently but for MSG_CTRUNC: that, and a count that does not match, is an error.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight {

struct WallMessage {
  ReplyHeader header;
  std::string text;
  std::vector<UniqueFd> fds;
};

// Blocks until sent, at most the socket's SO_SNDTIMEO: ETIMEDOUT. EPIPE: the peer is gone (never SIGPIPE). The
// header's fd_count is set here; a text is cut at kMaxWallTextBytes.
[[nodiscard]] Result<void> send_message(int socket, const ReplyHeader& header, std::string_view text,
                                        std::span<const int> fds);
// Blocks until a message is there, at most the socket's SO_RCVTIMEO: ETIMEDOUT. ECONNRESET: the peer is gone.
// EBADMSG: not a message of this protocol. EMFILE: descriptors were lost on the way.
[[nodiscard]] Result<WallMessage> receive_message(int socket);
// The same without waiting: nullopt where there is no message.
[[nodiscard]] Result<std::optional<WallMessage>> try_receive_message(int socket);

[[nodiscard]] Result<void> send_request(int socket, Request request);
// The broker's side; it takes one byte and nothing else: descriptors that come along are never received. The byte as it
// is, known or not; EBADMSG: a longer message (it is consumed); ECONNRESET: the peer is gone; EAGAIN: nothing there.
[[nodiscard]] Result<std::uint8_t> receive_request(int socket);

}  // namespace flight
