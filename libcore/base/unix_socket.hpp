// SPDX-License-Identifier: Apache-2.0
// Unix sockets by path (unix(7)): their addresses, listening, connecting, and the process at the other end. Every
// descriptor is close-on-exec.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <string>
#include <string_view>

#include "libcore/base/result.hpp"
#include "libcore/base/unique_fd.hpp"

namespace flight {

class UnixAddress {
 public:
  // "@name" is an abstract address. ENAMETOOLONG: the path is empty or longer than sun_path; `what` is for the message.
  [[nodiscard]] static Result<UnixAddress> of(std::string_view path, std::string_view what);

  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&address_); }
  [[nodiscard]] sockaddr* raw() { return reinterpret_cast<sockaddr*>(&address_); }  // for msghdr
  [[nodiscard]] socklen_t size() const { return size_; }

 private:
  sockaddr_un address_{};
  socklen_t size_ = 0;
};

// `type`: SOCK_STREAM, SOCK_SEQPACKET or SOCK_DGRAM, optionally with SOCK_NONBLOCK.
[[nodiscard]] Result<UniqueFd> open_unix_socket(int type);

// Two sockets that are connected to each other (socketpair(2)): one to keep, one for another process. `type` as above.
struct SocketPair {
  UniqueFd own, other;
};
[[nodiscard]] Result<SocketPair> socket_pair(int type);

struct UnixListen {
  int type;                   // as open_unix_socket
  int backlog;                // connections that may wait for accept(2)
  mode_t mode;                // of the socket's file; 0600 holds from the beginning
  std::string_view listener;  // the program, for messages
};
// Non-blocking. A socket file without a listener is replaced. EADDRINUSE: another process listens there; EEXIST: the
// file is not a socket.
[[nodiscard]] Result<UniqueFd> listen_on(const std::string& path, const UnixListen& how);

// connect(2), repeated after EINTR. The error has only errno's number: its meaning depends on the peer.
[[nodiscard]] Result<void> connect_to(int socket, const UnixAddress& address);

// SO_SNDTIMEO: also bounds connect(2) to a listener whose queue is full. Times below 1 ms become 1 ms, as 0 is no
// limit.
void send_within(int socket, std::chrono::milliseconds limit);

// SO_PEERCRED: the process that connected or listens, at that moment. Pid 0: it is in another PID namespace.
[[nodiscard]] Result<ucred> peer_credentials(int socket);

}  // namespace flight
