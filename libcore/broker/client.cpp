// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libcore/base/files.hpp"

namespace flight {
namespace {

constexpr std::chrono::seconds kConnectWithin(2);

// A plain name of a file in one folder.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

Error error_of(const WallMessage& message) {
  const int number = message.header.error_number > 0 ? message.header.error_number : EIO;
  return Error{std::error_code(number, std::generic_category()), message.text};
}

Result<PartialFile> to_file(WallMessage& message) {
  if (message.header.failed != 0) return wrap(error_of(message), "ask the broker for a file");
  // The recorder thread must not wait for a disk: what kind of file it is, is known without asking.
  struct statx status {};
  const bool known = message.fds.size() == 1 &&
                     ::statx(message.fds[0].get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &status) == 0;
  if (!known || !S_ISREG(status.stx_mode) || !is_plain_name(message.text))
    return fail(std::errc::bad_message, "the broker's file is none of the store's ('{}')", message.text);
  return PartialFile{.fd = std::move(message.fds[0]), .name = std::move(message.text)};
}

}  // namespace

BrokerClient::BrokerClient(UniqueFd socket) : socket_(std::move(socket)) { answer_within(kAnswerTimeout); }

void BrokerClient::answer_within(std::chrono::seconds timeout) {
  const timeval limit{.tv_sec = timeout.count(), .tv_usec = 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

Result<BrokerClient> BrokerClient::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(std::errc::filename_too_long, "the broker's socket {}: a socket's path has at most {} bytes", path,
                sizeof address.sun_path - 1);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return sys_error(errno, "socket");
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  // Of a broker that accepts nobody the queue is full some day, and connect(2) waits as long as a send would.
  const timeval limit{.tv_sec = kConnectWithin.count(), .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  while (::connect(socket.get(), raw, sizeof address) != 0) {
    const int error_number = errno;
    if (error_number == EINTR) continue;
    if (error_number == ENOENT || error_number == ECONNREFUSED)
      return sys_error(error_number, "no broker listens on {} (is flightd-broker running?)", path);
    if (error_number == EAGAIN)
      return fail(std::errc::timed_out,
                  "nobody serves the broker's socket {} (`systemctl status flightd-broker` says why)", path);
    return sys_error(error_number, "connect to the broker's socket {}", path);
  }
  return BrokerClient(std::move(socket));
}

Failure BrokerClient::give_up(Error error) const {
  ::shutdown(socket_.get(), SHUT_RDWR);
  return Failure(std::move(error));
}

Result<WallMessage> BrokerClient::answer(Request request) {
  for (;;) {
    auto message = receive_message(socket_.get());
    if (!message) return give_up(message.error());
    if (set_aside(*message)) continue;
    // No answer to this request but the end of the conversation, or what was there to say instead of one.
    if (message->header.request == 0 && message->header.failed != 0) return give_up(error_of(*message));
    if (message->header.request != static_cast<std::uint8_t>(request))
      return give_up(fail(std::errc::bad_message, "the broker answered '{}' to the request '{}'",
                          static_cast<char>(message->header.request), static_cast<char>(request))
                         .value());
    if (message->header.failed != 0) return Failure(error_of(*message));
    return message;
  }
}

Result<WallMessage> BrokerClient::ask(Request request) {
  auto sent = send_request(socket_.get(), request);
  // It may have said why it hung up.
  if (!sent && sent.error().errno_value() != EPIPE) return give_up(sent.error());
  return answer(request);
}

Result<WallMessage> BrokerClient::ask_with_fds(Request request, std::size_t fd_count) {
  auto message = ask(request);
  if (message && message->fds.size() != fd_count)
    return give_up(fail(std::errc::bad_message, "the broker's answer to '{}' has {} descriptors instead of {}",
                        static_cast<char>(request), message->fds.size(), fd_count)
                       .value());
  return message;
}

Result<Attachment> BrokerClient::attach() {
  auto attachment = receive_attachment();
  if (!attachment) return wrap(attachment.error(), "attach to the broker");
  return attachment;
}

Result<Attachment> BrokerClient::receive_attachment() {
  auto first = ask_with_fds(Request::attach, 2);
  if (!first) return pass(first.error());
  Attachment attachment;
  // All parts are taken before anything is judged, so that an error leaves the connection in step.
  const std::uint32_t parts = first->header.parts;
  if (parts > 1 + kMaxRings) return give_up(fail(std::errc::bad_message, "{} parts are too many", parts).value());
  for (std::uint32_t part = 1; part < parts; ++part) {
    auto message = answer(Request::attach);
    if (!message) return pass(message.error());
    const ReplyHeader& header = message->header;
    if (header.part != part || header.parts != parts || header.generation != first->header.generation ||
        header.first_ring != attachment.owners.size())
      return give_up(
          fail(std::errc::bad_message, "part {} of {} does not follow the one before", header.part, parts).value());
    std::move(message->fds.begin(), message->fds.end(), std::back_inserter(attachment.owners));
    if (attachment.owners.size() > kMaxRings)
      return give_up(fail(std::errc::bad_message, "more than {} rings were sent", kMaxRings).value());
  }

  auto text = read_sealed_memfd(first->fds[0].get(), kMaxManifestBytes);
  if (!text) return wrap(text.error(), "the manifest");
  auto manifest = parse_manifest(*text);
  if (!manifest) return pass(manifest.error());
  auto kallsyms = read_sealed_memfd(first->fds[1].get(), kMaxKallsymsBytes);
  if (!kallsyms) return wrap(kallsyms.error(), "kallsyms");
  if (manifest->rings.size() != attachment.owners.size())
    return fail(std::errc::bad_message, "the manifest has {} rings, {} came over the wall", manifest->rings.size(),
                attachment.owners.size());
  attachment.manifest = std::move(*manifest);
  attachment.kallsyms = std::move(*kallsyms);
  return attachment;
}

Result<std::string> BrokerClient::processes() {
  auto message = ask_with_fds(Request::processes, 1);
  if (!message) return wrap(message.error(), "ask the broker what runs now");
  return read_sealed_memfd(message->fds[0].get(), kMaxProcessesBytes);
}

Result<Counts> BrokerClient::counts() {
  auto message = ask_with_fds(Request::counts, 1);
  if (!message) return wrap(message.error(), "ask the broker for its counts");
  auto text = read_sealed_memfd(message->fds[0].get(), kMaxCountsBytes);
  if (!text) return pass(text.error());
  return parse_counts(*text);
}

Result<void> BrokerClient::ask_for_file(bool spare) {
  if (file_asked_)
    return fail(std::errc::device_or_resource_busy,
                "the file that was asked for before is not made yet: the disk below the snapshots does not answer");
  const Request request = spare ? Request::spare : Request::file;
  if (auto sent = send_request(socket_.get(), request); !sent) return give_up(sent.error());
  file_asked_ = request;
  return {};
}

std::optional<Result<PartialFile>> BrokerClient::take_file() { return std::exchange(file_, std::nullopt); }

Result<PartialFile> BrokerClient::file() {
  if (auto asked = ask_for_file(); !asked) return pass(asked.error());
  while (!file_) {
    auto message = receive_message(socket_.get());
    if (!message) return give_up(message.error());
    if (!set_aside(*message))
      return give_up(fail(std::errc::bad_message, "the broker sent another answer in a file's place").value());
  }
  return *take_file();
}

bool BrokerClient::set_aside(WallMessage& message) {
  if (message.header.request == static_cast<std::uint8_t>(Request::changed)) return changed_ = true;
  if (!file_asked_ || message.header.request != static_cast<std::uint8_t>(*file_asked_)) return false;
  file_ = to_file(message);
  if (*file_) (*file_)->spare = file_asked_ == Request::spare;
  file_asked_.reset();
  return true;
}

Result<void> BrokerClient::reload() {
  auto message = ask_with_fds(Request::reload, 0);
  if (!message) return wrap(message.error(), "the broker's reload");
  return {};
}

Result<void> BrokerClient::disable() {
  auto message = ask_with_fds(Request::disable, 0);
  if (!message) return wrap(message.error(), "stop recording");
  return {};
}

Result<void> BrokerClient::enable() {
  auto message = ask_with_fds(Request::enable, 0);
  if (!message) return wrap(message.error(), "start recording");
  return {};
}

Result<bool> BrokerClient::take_changed() {
  for (;;) {
    auto message = try_receive_message(socket_.get());
    if (!message) return give_up(message.error());
    if (!message->has_value()) return std::exchange(changed_, false);
    if (!set_aside(**message))
      return give_up(fail(std::errc::bad_message, "the broker sent an answer that nobody asked for").value());
  }
}

}  // namespace flight
