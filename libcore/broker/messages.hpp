// SPDX-License-Identifier: Apache-2.0
// One message of the broker protocol: a header, a text, file descriptors (unix(7), SCM_RIGHTS). If the receiver has
// too few free descriptors, the kernel drops some and only sets MSG_CTRUNC: it is received again with spare ones
// (base/spare_descriptors.hpp). Without them that is an error, as is a count that does not match. One thread receives.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/broker/protocol.hpp"

namespace flight {

struct BrokerMessage {
  ReplyHeader header;
  std::string text;
  std::vector<UniqueFd> fds;
};

// Blocks until sent, at most the socket's SO_SNDTIMEO: ETIMEDOUT. EPIPE: the peer is gone (never SIGPIPE). The
// header's fd_count is set here; a text is cut at kMaxMessageTextBytes.
[[nodiscard]] Result<void> send_message(int socket, const ReplyHeader& header, std::string_view text,
                                        std::span<const int> fds);
// For how long a message may wait for a peer that does not read. `stop_fd`: -1 or a signalfd; the wait ends when it is
// readable.
struct SendWait {
  int stop_fd = -1;
  std::chrono::milliseconds within{};
};
// The same with another end of the wait than SO_SNDTIMEO. ECANCELED: `stop_fd` became readable.
[[nodiscard]] Result<void> send_message(int socket, const ReplyHeader& header, std::string_view text,
                                        std::span<const int> fds, const SendWait& wait);
// Blocks until a message is there, at most the socket's SO_RCVTIMEO: ETIMEDOUT. ECONNRESET: the peer is gone.
// EBADMSG: not a message of this protocol. EMFILE: descriptors were lost on the way.
[[nodiscard]] Result<BrokerMessage> receive_message(int socket);
// The same without waiting: nullopt if there is no message.
[[nodiscard]] Result<std::optional<BrokerMessage>> try_receive_message(int socket);

[[nodiscard]] Result<void> send_request(int socket, Request request);
// The broker's side. It receives one byte and nothing else: descriptors are never received. Returns the byte
// unchanged, known or not; EBADMSG: a longer message (it is consumed); ECONNRESET: the peer is gone; EAGAIN: there is
// no message.
[[nodiscard]] Result<std::uint8_t> receive_request(int socket);

}  // namespace flight
