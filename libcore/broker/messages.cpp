// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/messages.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "libcore/base/passed_fds.hpp"
#include "libcore/base/poll.hpp"
#include "libcore/base/spare_descriptors.hpp"

namespace flight {
namespace {

constexpr std::size_t kKernelMaxFds = 253;  // SCM_MAX_FD
constexpr std::size_t kControlBytes = CMSG_SPACE(kKernelMaxFds * sizeof(int));

rlim_t descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

Failure send_error(int error_number, std::size_t fd_count) {
  if (error_number == EAGAIN)
    return fail(std::errc::timed_out,
                "the other side of the broker protocol does not read its messages: sending timed out");
  if (error_number == ETOOMANYREFS)
    return sys_error(error_number,
                     "send of {} descriptors: too many are in flight for this user, raise RLIMIT_NOFILE (now {}; "
                     "LimitNOFILE= in the unit, ulimit -n by hand)",
                     fd_count, descriptor_limit());
  return sys_error(error_number, "send of a message with {} descriptors over the broker protocol", fd_count);
}

Result<void> check(const BrokerMessage& message, const msghdr& raw) {
  const ReplyHeader& header = message.header;
  if ((static_cast<unsigned>(raw.msg_flags) & MSG_TRUNC) != 0)
    return fail(std::errc::bad_message, "a message over the broker protocol is longer than {} bytes",
                sizeof(ReplyHeader) + kMaxMessageTextBytes);
  if (header.protocol != kBrokerProtocol)
    return fail(std::errc::bad_message, "the broker uses protocol {}, this flightd uses {}: {}", header.protocol,
                kBrokerProtocol, kProtocolAdvice);
  if ((static_cast<unsigned>(raw.msg_flags) & MSG_CTRUNC) != 0 || header.fd_count != message.fds.size())
    return fail(std::errc::too_many_files_open,
                "only {} of {} descriptors of the broker's message arrived: RLIMIT_NOFILE is {}, raise it "
                "(LimitNOFILE= in the unit, ulimit -n by hand)",
                message.fds.size(), header.fd_count, descriptor_limit());
  return {};
}

// A look at the next message, which stays in the queue. `flags`: 0 or MSG_DONTWAIT. -1: errno says why. `space` is what
// recvmsg(2) may fill; it is in `seen`, too.
ssize_t look_at(int socket, int flags, const msghdr& space, msghdr& seen) {
  ssize_t count = 0;
  do {
    seen = space;
    count = ::recvmsg(socket, &seen, MSG_PEEK | MSG_CMSG_CLOEXEC | flags);
  } while (count < 0 && errno == EINTR);
  return count;
}

// `flags`: 0 or MSG_DONTWAIT.
Result<BrokerMessage> receive(int socket, int flags) {
  BrokerMessage message;
  std::string text(kMaxMessageTextBytes, '\0');
  alignas(cmsghdr) std::array<std::byte, kControlBytes> control;
  std::array<iovec, 2> parts{iovec{&message.header, sizeof message.header}, iovec{text.data(), text.size()}};
  msghdr space{};
  space.msg_iov = parts.data();
  space.msg_iovlen = parts.size();
  space.msg_control = control.data();
  space.msg_controllen = control.size();
  msghdr raw{};
  ssize_t count = 0;
  // Other threads open files at the same moment, so it cannot be known before whether the descriptors fit.
  do {
    message.fds.clear();
    count = look_at(socket, flags, space, raw);
    if (count < 0) return sys_error(errno, "receive over the broker protocol");
    take_fds(raw, message.fds);
  } while ((static_cast<unsigned>(raw.msg_flags) & MSG_CTRUNC) != 0 && SpareDescriptors::free_number());
  static_cast<void>(::recv(socket, nullptr, 0, MSG_DONTWAIT));  // it leaves the queue, with the sender's descriptors
  if (count == 0) return fail(std::errc::connection_reset, "the broker closed the connection");
  if (static_cast<std::size_t>(count) < sizeof message.header)
    return fail(std::errc::bad_message, "received a message of {} bytes over the broker protocol, which is too short",
                count);
  text.resize(static_cast<std::size_t>(count) - sizeof message.header);
  message.text = std::move(text);
  if (auto checked = check(message, raw); !checked) return propagate(checked.error());
  return message;
}

Result<void> check_count(std::span<const int> fds) {
  if (fds.size() > kMaxFdsPerMessage)
    return fail(std::errc::invalid_argument, "{} descriptors are too many for one message", fds.size());
  return {};
}

// `flags`: 0 or MSG_DONTWAIT. 0, or the errno.
int send_once(int socket, const ReplyHeader& header, std::string_view text, std::span<const int> fds, int flags) {
  ReplyHeader out = header;
  out.fd_count = static_cast<std::uint32_t>(fds.size());
  std::string body(text.substr(0, kMaxMessageTextBytes));
  std::array<iovec, 2> parts{iovec{&out, sizeof out}, iovec{body.data(), body.size()}};
  FdSpace<kMaxFdsPerMessage> space;
  msghdr raw{};
  raw.msg_iov = parts.data();
  raw.msg_iovlen = body.empty() ? 1 : 2;
  if (!fds.empty()) attach_fds(raw, space.bytes, fds);
  while (::sendmsg(socket, &raw, MSG_NOSIGNAL | flags) < 0)
    if (errno != EINTR) return errno;
  return 0;
}

}  // namespace

Result<void> send_message(int socket, const ReplyHeader& header, std::string_view text, std::span<const int> fds) {
  if (auto checked = check_count(fds); !checked) return checked;
  if (const int why = send_once(socket, header, text, fds, 0); why != 0) return send_error(why, fds.size());
  return {};
}

Result<void> send_message(int socket, const ReplyHeader& header, std::string_view text, std::span<const int> fds,
                          const SendWait& wait) {
  if (auto checked = check_count(fds); !checked) return checked;
  const auto until = std::chrono::steady_clock::now() + wait.within;
  for (;;) {
    const int why = send_once(socket, header, text, fds, MSG_DONTWAIT);
    if (why == 0) return {};
    const auto left = until - std::chrono::steady_clock::now();
    if (why != EAGAIN || left.count() <= 0) return send_error(why, fds.size());
    std::array<pollfd, 2> watched{pollfd{socket, POLLOUT, 0}, pollfd{wait.stop_fd, POLLIN, 0}};
    wait_for_any(watched, left);
    if (watched[1].revents != 0)
      return fail(std::errc::operation_canceled, "asked to end while the other side did not read its messages");
  }
}

Result<BrokerMessage> receive_message(int socket) {
  auto message = receive(socket, 0);
  if (!message && message.error().errno_value() == EAGAIN)
    return fail(std::errc::timed_out, "the broker does not answer (is another flightd attached to it?)");
  return message;
}

Result<std::optional<BrokerMessage>> try_receive_message(int socket) {
  auto message = receive(socket, MSG_DONTWAIT);
  if (message) return std::optional<BrokerMessage>(std::move(*message));
  if (message.error().errno_value() == EAGAIN) return std::optional<BrokerMessage>();
  return propagate(message.error());
}

Result<void> send_request(int socket, Request request) {
  const auto byte = static_cast<std::uint8_t>(request);
  while (::send(socket, &byte, sizeof byte, MSG_NOSIGNAL) < 0)
    if (errno != EINTR) return sys_error(errno, "send the request '{}' to the broker", static_cast<char>(byte));
  return {};
}

Result<std::uint8_t> receive_request(int socket) {
  std::uint8_t byte = 0;
  ssize_t count = 0;
  do {
    // recv(2) without ancillary data: the kernel closes descriptors that were sent.
    count = ::recv(socket, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return sys_error(errno, "receive a request");
  if (count == 0) return fail(std::errc::connection_reset, "the client disconnected");
  if (count > 1) return fail(std::errc::bad_message, "a request is one byte, this message has {}", count);
  return byte;
}

}  // namespace flight
