// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/client.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace flight {
namespace {

constexpr std::size_t kReadBytes = 64U << 10U;
// A socket at which nobody listens is left by a flightd that died, or is just being restarted: the next one takes less.
// After an orderly end there is none.
constexpr std::chrono::seconds kRestartWait(2);
constexpr std::chrono::milliseconds kAskAgain(20);

// What a person does about it.
std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ECONNREFUSED:
      return "; start it with `systemctl start flightd`, or as root by hand: `flightd`";
    case EACCES:
      return "; the folder of the socket is closed to you, ask as root";
    default:
      return "";
  }
}

Failure no_daemon(int error_number, const std::string& socket_path) {
  const std::error_code code(error_number, std::generic_category());
  return Failure(
      Error{code, fmt::format("no flightd answers on {}: {}{}", socket_path, code.message(), advice(error_number))});
}

// send(2) without SIGPIPE. A refused write is not the end: the daemon may have said why before it closed.
bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Reads on until `received` has a whole message; takes that message out.
Result<std::string> next_message(int fd, std::string& received) {
  std::size_t searched = 0;
  std::array<char, kReadBytes> chunk;
  for (;;) {
    if (const std::size_t end = received.find('\0', searched); end != std::string::npos) {
      std::string message = received.substr(0, end);
      received.erase(0, end + 1);
      return message;
    }
    searched = received.size();
    if (received.size() > kMaxReplyBytes)
      return fail(std::errc::message_size, "flightd's reply has more than {} bytes", kMaxReplyBytes);
    const ssize_t count = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    // Reset: it ended with our call unread.
    if (count == 0 || (count < 0 && errno == ECONNRESET))
      return fail(
          std::errc::connection_reset,
          "flightd closed the connection before it answered: `systemctl status flightd` and its journal say why");
    if (count < 0) return sys_error(errno, "reading flightd's reply");
    received.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Result<UniqueFd> connect_control(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.empty() || socket_path.size() >= sizeof(address.sun_path))
    return fail(std::errc::filename_too_long, "'{}' cannot be a socket's path: it must have 1 to {} bytes", socket_path,
                sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return sys_error(errno, "socket");
  const auto until = std::chrono::steady_clock::now() + kRestartWait;
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EINTR) continue;
    if (errno != ECONNREFUSED || std::chrono::steady_clock::now() >= until) return no_daemon(errno, socket_path);
    std::this_thread::sleep_for(kAskAgain);
  }
  return fd;
}

Result<ControlClient> ControlClient::connect(const std::string& socket_path) {
  auto fd = connect_control(socket_path);
  if (!fd) return pass(fd.error());
  return ControlClient(std::move(*fd));
}

Result<Reply> ControlClient::call(const Call& call, const std::function<void(const Reply&)>& progress) {
  const bool sent = send_all(fd_.get(), encode(call));
  if (call.oneway && sent) return Reply{"{}", "", false};
  for (;;) {
    auto message = next_message(fd_.get(), received_);
    if (!message) return pass(message.error());
    auto reply = parse_reply(*message);
    if (!reply) return wrap(reply.error(), "flightd's reply to {}", call.method);
    if (!reply->continues) return reply;
    if (progress) progress(*reply);
  }
}

Result<std::size_t> ControlClient::read_raw(std::span<char> buffer) {
  if (!received_.empty()) {  // came together with the reply
    const std::size_t bytes = std::min(buffer.size(), received_.size());
    std::copy_n(received_.begin(), bytes, buffer.begin());
    received_.erase(0, bytes);
    return bytes;
  }
  for (;;) {
    const ssize_t count = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) return sys_error(errno, "reading from flightd");
  }
}

}  // namespace flight
