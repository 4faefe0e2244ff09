// SPDX-License-Identifier: Apache-2.0
#include "daemon/inherited_socket.hpp"

#include <systemd/sd-daemon.h>
#include <unistd.h>

namespace flight {

Result<UniqueFd> inherited_control_socket() {
  const int count = ::sd_listen_fds(/*unset_environment=*/1);
  if (count < 0) return sys_error(-count, "take the sockets that the service manager handed down ($LISTEN_FDS)");
  if (count == 0) return UniqueFd();
  UniqueFd socket(SD_LISTEN_FDS_START);
  for (int fd = SD_LISTEN_FDS_START + 1; fd < SD_LISTEN_FDS_START + count; ++fd) ::close(fd);
  if (count > 1)
    return fail(std::errc::invalid_argument,
                "the service manager handed down {} sockets, and flightd has one, of its clients: leave one "
                "ListenStream= in flightd.socket",
                count);
  if (::sd_is_socket_unix(socket.get(), SOCK_STREAM, /*listening=*/1, nullptr, 0) <= 0)
    return fail(std::errc::invalid_argument,
                "what the service manager handed down as control socket is no listening Unix stream socket: name a "
                "path in ListenStream= of flightd.socket, without Accept=yes");
  return socket;
}

}  // namespace flight
