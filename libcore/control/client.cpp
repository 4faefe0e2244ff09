// SPDX-License-Identifier: Apache-2.0
#include "libcore/control/client.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "libcore/base/text.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight {
namespace {

constexpr std::size_t kReadBytes = 64U << 10U;
// A socket file without a listener belongs to a flightd that died or is being restarted: the next one starts within
// this time. After an orderly end there is no socket file.
constexpr std::chrono::seconds kRestartWait(2);
constexpr std::chrono::milliseconds kAskAgain(20);
// The time to wait for the rest of something that is no answer, and for the end of the connection: its reason says more
// than the text received so far.
constexpr std::chrono::seconds kNoiseWait(2);
constexpr std::size_t kMaxFirstBytes = 1U << 20U;
constexpr std::size_t kMaxNoiseBytes = 200;  // that are shown
constexpr std::string_view kBlank = " \t\r\n";

// What the user can do about it.
std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ECONNREFUSED:
      return "; start it with `systemctl start flightd`, or as root by hand: `flightd`";
    case EACCES:
      return "; this user may not access the directory of the socket; try as root";
    default:
      return "";
  }
}

Failure no_daemon(int error_number, const std::string& socket_path) {
  const std::error_code code(error_number, std::generic_category());
  return Failure(Error{
      code, fmt::format("cannot connect to flightd at {}: {}{}", socket_path, code.message(), advice(error_number))});
}

// Asks `patience` when its time has come; then there is no limit any more.
Result<void> check(Patience& patience) {
  if (std::chrono::steady_clock::now() < patience.until) return {};
  if (auto over = patience.over(); !over) return over;
  patience.until = std::chrono::steady_clock::time_point::max();
  return {};
}

// Waits until `fd` has bytes or was closed.
Result<void> wait_for_bytes(int fd, Patience& patience) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
  for (;;) {
    const bool endless = patience.until == steady_clock::time_point::max();
    const auto rest = std::chrono::ceil<milliseconds>(patience.until - steady_clock::now());
    const int found = ::poll(&watched, 1, endless ? -1 : static_cast<int>(std::max(rest, milliseconds(0)).count()));
    if (found > 0) return {};
    if (found < 0 && errno != EINTR) return sys_error(errno, "wait for an answer");
    if (auto more = check(patience); !more) return more;
  }
}

// send(2) without SIGPIPE. A failed write is not the end: the daemon may have sent the reason before it closed.
bool send_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Whether `text` begins with `open` and, after blanks, with one of `next`, as far as it goes.
bool begins(std::string_view text, char open, std::string_view next) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return true;
  const std::size_t second = text.find_first_not_of(kBlank, first + 1);
  return text[first] == open && (second == std::string_view::npos || next.find(text[second]) != std::string_view::npos);
}

// Adds what came, if something did.
Failure with_noise(Error error, std::string_view received) {
  if (const std::string noise = noise_text(received); !noise.empty()) error.what += "; " + noise;
  return Failure(std::move(error));
}

constexpr const char* kClosedEarly =
    "flightd closed the connection before it answered: `systemctl status flightd` and its journal show why";

// Reads until `received` contains a whole message; removes and returns that message.
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
    // Reset: the daemon exited before it read the call.
    if (count == 0 || (count < 0 && errno == ECONNRESET)) return fail(std::errc::connection_reset, "{}", kClosedEarly);
    if (count < 0) return sys_error(errno, "reading flightd's reply");
    received.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

Result<Reply> last_reply(int fd, std::string& received, std::string_view method,
                         const std::function<void(const Reply&)>& progress) {
  for (;;) {
    auto message = next_message(fd, received);
    if (!message) return propagate(message.error());
    auto reply = parse_reply(*message);
    if (!reply) return wrap(reply.error(), "flightd's reply to {}", method);
    if (!reply->continues) return reply;
    if (progress) progress(*reply);
  }
}

}  // namespace

Result<UniqueFd> connect_control(const std::string& socket_path, Patience& patience) {
  const auto address = UnixAddress::of(socket_path, "the control socket");
  if (!address) return propagate(address.error());
  auto fd = open_unix_socket(SOCK_STREAM | SOCK_NONBLOCK);
  if (!fd) return fd;
  // A flightd that was started by hand and killed leaves its socket file: without a listener, retry for a while.
  // EAGAIN: the listener accepts nothing, and its queue is full.
  const auto until = std::chrono::steady_clock::now() + kRestartWait;
  for (;;) {
    const auto connected = connect_to(fd->get(), *address);
    if (connected) break;
    const int error_number = connected.error().errno_value();
    if (error_number == EAGAIN) {
      if (auto more = check(patience); !more) return propagate(more.error());
    } else if (error_number != ECONNREFUSED || std::chrono::steady_clock::now() >= until) {
      return no_daemon(error_number, socket_path);
    }
    std::this_thread::sleep_for(kAskAgain);
  }
  if (::fcntl(fd->get(), F_SETFL, 0) != 0) return sys_error(errno, "make the control socket blocking");
  return fd;
}

bool begins_object(std::string_view text) { return begins(text, '{', "\"}"); }
bool begins_list(std::string_view text) { return begins(text, '[', "{]"); }

std::string noise_text(std::string_view received) {
  const std::size_t first = received.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  received.remove_prefix(first);
  const std::string_view line = received.substr(0, received.find_first_of(std::string_view("\r\n\0", 3)));
  return fmt::format("'{}{}' came instead of an answer", printable(line.substr(0, kMaxNoiseBytes)),
                     line.size() > kMaxNoiseBytes ? "…" : "");
}

Result<void> wait_for_answer(int fd, FirstAnswer& first, Patience& patience) {
  std::array<char, kReadBytes> chunk;
  std::optional<Patience> noisy;
  for (;;) {
    const bool fits = first.fits(first.received), found = first.found(first.received);
    if (found && fits) return {};
    if (found) return fail(std::errc::bad_message, "{}", noise_text(first.received));
    if (first.received.size() > kMaxFirstBytes)
      return with_noise(
          fail(fits ? std::errc::message_size : std::errc::bad_message, "more than {} KiB came", kMaxFirstBytes >> 10U)
              .value(),
          first.received);
    if (!fits && !noisy)
      noisy = Patience{std::chrono::steady_clock::now() + kNoiseWait, [&first]() -> Result<void> {
                         return fail(std::errc::bad_message, "{}", noise_text(first.received));
                       }};
    if (auto more = wait_for_bytes(fd, noisy ? *noisy : patience); !more)
      return noisy ? more : with_noise(more.error(), first.received);
    if (noisy && std::chrono::steady_clock::now() >= noisy->until) return noisy->over();
    const ssize_t count = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0 || (count < 0 && errno == ECONNRESET))
      return with_noise(fail(std::errc::connection_reset, "{}", kClosedEarly).value(), first.received);
    if (count < 0) return sys_error(errno, "reading the answer");
    first.received.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

Result<ControlClient> ControlClient::connect(const std::string& socket_path, Patience& patience) {
  auto fd = connect_control(socket_path, patience);
  if (!fd) return propagate(fd.error());
  return ControlClient(std::move(*fd));
}

Result<Reply> ControlClient::greet(Patience& patience) {
  const Call hello{"org.varlink.service.GetInfo", "{}", false, false, false};
  static_cast<void>(send_all(fd_.get(), encode(hello)));
  const auto whole = [](std::string_view text) { return text.find('\0') != std::string_view::npos; };
  FirstAnswer first{.fits = begins_object, .found = whole, .received = std::exchange(received_, {})};
  const auto alive = wait_for_answer(fd_.get(), first, patience);
  received_ = std::move(first.received);
  if (!alive) return propagate(alive.error());
  return last_reply(fd_.get(), received_, hello.method, {});
}

Result<Reply> ControlClient::call(const Call& call, const std::function<void(const Reply&)>& progress) {
  const bool sent = send_all(fd_.get(), encode(call));
  if (call.oneway && sent) return Reply{"{}", "", false};
  return last_reply(fd_.get(), received_, call.method, progress);
}

Result<std::size_t> ControlClient::read_raw(std::span<char> buffer) {
  if (!received_.empty()) {  // received together with the reply
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
