// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/inherited_socket.hpp"

#include <systemd/sd-daemon.h>
#include <unistd.h>

namespace flight::daemon {

Result<UniqueFd> inherited_control_socket() {
  const int count = ::sd_listen_fds(/*unset_environment=*/1);
  if (count < 0) return sys_error(-count, "read the sockets passed by the service manager ($LISTEN_FDS)");
  if (count == 0) return UniqueFd();
  UniqueFd socket(SD_LISTEN_FDS_START);
  for (int fd = SD_LISTEN_FDS_START + 1; fd < SD_LISTEN_FDS_START + count; ++fd) ::close(fd);
  if (count > 1)
    return fail(std::errc::invalid_argument,
                "the service manager passed {} sockets, but flightd uses only the control socket: keep one "
                "ListenStream= in flightd.socket",
                count);
  if (::sd_is_socket_unix(socket.get(), SOCK_STREAM, /*listening=*/1, nullptr, 0) <= 0)
    return fail(std::errc::invalid_argument,
                "the control socket passed by the service manager is not a listening Unix stream socket: set a "
                "path in ListenStream= of flightd.socket, without Accept=yes");
  return socket;
}

}  // namespace flight::daemon
