// SPDX-License-Identifier: Apache-2.0
#include "libcore/broker/client.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "libcore/base/file_calls.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight {
namespace {

constexpr std::chrono::seconds kConnectWithin(2);

// Whether it is a plain file name, without a directory.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() < 256 &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
}

Error error_of(const BrokerMessage& message) {
  const int number = message.header.error_number > 0 ? message.header.error_number : EIO;
  return Error{std::error_code(number, std::generic_category()), message.text};
}

Result<PartialFile> to_file(BrokerMessage& message) {
  if (message.header.failed != 0) return wrap(error_of(message), "ask the broker for a file");
  // The broker thread must not wait for a disk.
  const auto status = message.fds.size() == 1 ? status_of_open(message.fds[0].get())
                                              : Result<struct stat>(sys_error(EBADMSG, "the descriptor of the file"));
  if (!status) return wrap(status.error(), "the broker's file ('{}')", message.text);
  if (!S_ISREG(status->st_mode) || !is_plain_name(message.text))
    return fail(std::errc::bad_message, "the broker's file is not in the store ('{}')", message.text);
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
  const auto address = UnixAddress::of(path, "the broker's socket");
  if (!address) return propagate(address.error());
  auto socket = open_unix_socket(SOCK_SEQPACKET);
  if (!socket) return propagate(socket.error());
  // If a broker does not accept, its queue fills up, and connect(2) waits as long as a send would.
  send_within(socket->get(), kConnectWithin);
  const auto connected = connect_to(socket->get(), *address);
  if (connected) return BrokerClient(std::move(*socket));
  const int error_number = connected.error().errno_value();
  if (error_number == ENOENT || error_number == ECONNREFUSED)
    return sys_error(error_number, "no broker listens on {} (is flightd-broker running?)", path);
  if (error_number == EAGAIN)
    return fail(std::errc::timed_out,
                "no broker accepts connections on {} (`systemctl status flightd-broker` shows the reason)", path);
  return sys_error(error_number, "connect to the broker's socket {}", path);
}

Failure BrokerClient::give_up(Error error) {
  if (!given_up_) given_up_ = error;
  ::shutdown(socket_.get(), SHUT_RDWR);
  return Failure(std::move(error));
}

Result<BrokerMessage> BrokerClient::answer(Request request) {
  for (;;) {
    auto message = receive_message(socket_.get());
    if (!message) return give_up(message.error());
    if (set_aside(*message)) continue;
    // An error without a request: the end of the connection, or its reason.
    if (message->header.request == 0 && message->header.failed != 0) return give_up(error_of(*message));
    if (message->header.request != static_cast<std::uint8_t>(request))
      return give_up(fail(std::errc::bad_message, "the broker answered '{}' to the request '{}'",
                          static_cast<char>(message->header.request), static_cast<char>(request))
                         .value());
    if (message->header.failed != 0) return Failure(error_of(*message));
    return message;
  }
}

Result<BrokerMessage> BrokerClient::ask(Request request) {
  auto sent = send_request(socket_.get(), request);
  // The broker may have sent the reason before it disconnected.
  if (!sent && sent.error().errno_value() != EPIPE) return give_up(sent.error());
  return answer(request);
}

Result<BrokerMessage> BrokerClient::ask_with_fds(Request request, std::size_t fd_count) {
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
  auto first = ask_with_fds(Request::attach, 1);
  if (!first) return propagate(first.error());
  Attachment attachment;
  // All parts are received before any is checked, so that an error does not desynchronise the connection.
  const std::uint32_t parts = first->header.parts;
  if (parts > 1 + kMaxRings) return give_up(fail(std::errc::bad_message, "{} parts are too many", parts).value());
  for (std::uint32_t part = 1; part < parts; ++part) {
    auto message = answer(Request::attach);
    if (!message) return propagate(message.error());
    const ReplyHeader& header = message->header;
    if (header.part != part || header.parts != parts || header.generation != first->header.generation ||
        header.first_ring != attachment.owners.size())
      return give_up(
          fail(std::errc::bad_message, "part {} of {} does not follow the previous one", header.part, parts).value());
    std::move(message->fds.begin(), message->fds.end(), std::back_inserter(attachment.owners));
    if (attachment.owners.size() > kMaxRings)
      return give_up(fail(std::errc::bad_message, "more than {} rings were sent", kMaxRings).value());
  }

  auto text = read_sealed_memfd(first->fds[0].get(), kMaxManifestBytes);
  if (!text) return wrap(text.error(), "the manifest");
  auto manifest = parse_manifest(*text);
  if (!manifest) return propagate(manifest.error());
  if (manifest->rings.size() != attachment.owners.size())
    return fail(std::errc::bad_message, "the manifest has {} rings, {} came over the broker protocol",
                manifest->rings.size(), attachment.owners.size());
  attachment.manifest = std::move(*manifest);
  return attachment;
}

Result<Mapping> BrokerClient::processes() {
  auto message = ask_with_fds(Request::processes, 1);
  if (!message) return wrap(message.error(), "request a scan from the broker");
  processes_warning_ = message->text;
  return map_sealed_memfd(message->fds[0].get(), kMaxProcessesBytes);
}

Result<KnownFiles> BrokerClient::build_ids() {
  auto message = ask_with_fds(Request::build_ids, 1);
  if (!message) return wrap(message.error(), "request build-ids from the broker");
  auto bytes = read_sealed_memfd(message->fds[0].get(), kMaxBuildIdsBytes);
  if (!bytes) return propagate(bytes.error());
  return parse_build_ids(std::as_bytes(std::span<const char>(*bytes)));
}

Result<KernelReply> BrokerClient::kernel() {
  auto message = ask(Request::kernel);
  if (!message) return wrap(message.error(), "request the kernel's maps from the broker");
  if (message->fds.empty() || message->fds.size() > 2)
    return give_up(fail(std::errc::bad_message, "the broker's answer to 'k' has {} descriptors instead of 1 or 2",
                        message->fds.size())
                       .value());
  auto bytes = read_sealed_memfd(message->fds[0].get(), kMaxKernelNamesBytes);
  if (!bytes) return wrap(bytes.error(), "the kernel's maps");
  auto names = parse_kernel_names(std::as_bytes(std::span<const char>(*bytes)));
  if (!names) return propagate(names.error());
  if ((names->kallsyms == Kallsyms::sent) != (message->fds.size() == 2))
    return fail(std::errc::bad_message, "kallsyms was announced but not sent, or sent but not announced");
  KernelReply out{.names = std::move(*names), .kallsyms = {}};
  if (message->fds.size() == 1) return out;
  auto text = map_sealed_memfd(message->fds[1].get(), kMaxKallsymsBytes);
  if (!text) return wrap(text.error(), "kallsyms");
  out.kallsyms = std::move(*text);
  return out;
}

Result<Counts> BrokerClient::counts() {
  auto message = ask_with_fds(Request::counts, 1);
  if (!message) return wrap(message.error(), "request counts from the broker");
  auto text = read_sealed_memfd(message->fds[0].get(), kMaxCountsBytes);
  if (!text) return propagate(text.error());
  return parse_counts(*text);
}

Result<void> BrokerClient::ask_for_file(bool spare) {
  if (file_asked_)
    return fail(std::errc::device_or_resource_busy,
                "the previously requested file does not exist yet: the disk below the snapshots does not answer");
  const Request request = spare ? Request::spare : Request::file;
  if (auto sent = send_request(socket_.get(), request); !sent) return give_up(sent.error());
  file_asked_ = request;
  return {};
}

std::optional<Result<PartialFile>> BrokerClient::take_file() { return std::exchange(file_, std::nullopt); }

Result<PartialFile> BrokerClient::file() {
  if (auto asked = ask_for_file(); !asked) return propagate(asked.error());
  while (!file_) {
    auto message = receive_message(socket_.get());
    if (!message) return give_up(message.error());
    if (!set_aside(*message))
      return give_up(fail(std::errc::bad_message, "the broker sent another reply instead of a file").value());
  }
  return *take_file();
}

bool BrokerClient::set_aside(BrokerMessage& message) {
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
  if (given_up_) return Failure(*given_up_);
  for (;;) {
    auto message = try_receive_message(socket_.get());
    if (!message) return give_up(message.error());
    if (!message->has_value()) return std::exchange(changed_, false);
    if (!set_aside(**message))
      return give_up(fail(std::errc::bad_message, "the broker sent a reply without a request").value());
  }
}

}  // namespace flight
