// SPDX-License-Identifier: Apache-2.0
#include "ctl/connection.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace flight::ctl {
namespace {

// For ssh to end by itself. One that others use, too (ControlMaster), goes on for them until this process ends.
constexpr std::chrono::seconds kToEnd(2);
constexpr std::chrono::seconds kToTell(10);  // when the connection is closed already
constexpr std::size_t kMaxOutputBytes = 1U << 20U;

struct Started {
  Host host;
  UniqueFd socket;
  Child child;
};

// ssh's stdin and stdout are one socket, as a daemon's connection is.
Result<Started> start_ssh(const Common& common, std::string_view command) {
  auto host = parse_host(common.host);
  if (!host) return pass(host.error());
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return sys_error(errno, "socketpair");
  UniqueFd here(ends[0]);
  const UniqueFd there(ends[1]);
  auto child = Child::start(ssh_words(*host, common.socket, command), there.get());
  if (!child) return wrap(child.error(), "--host runs ssh");
  return Started{std::move(*host), std::move(here), std::move(*child)};
}

}  // namespace

Result<Connection> Connection::open(const Common& common) {
  if (common.host.empty()) {
    auto client = ControlClient::connect(common.socket);
    if (!client) return pass(client.error());
    return Connection(std::move(*client));
  }
  auto started = start_ssh(common, "bridge");
  if (!started) return pass(started.error());
  return Connection(ControlClient::on(std::move(started->socket)),
                    std::make_unique<Ssh>(Ssh{std::move(started->host), std::move(started->child)}));
}

Connection::~Connection() {
  client_.reset();
  if (ssh_) static_cast<void>(ssh_->child.wait(kToEnd));
}

Error Connection::explained(Error error) {
  if (!ssh_) return error;
  if (error.code == std::errc::bad_message) {
    error.what = fmt::format("{}: {}; {}", ssh_->host.destination, error.what, kNoisyShell);
    return error;
  }
  const auto status = ssh_->child.wait(kToTell);
  error.what = status && *status != 0 ? ssh_failure(ssh_->host, *status, ssh_->child.err())
                                      : fmt::format("{}: {}", ssh_->host.destination, error.what);
  return error;
}

Result<Reply> Connection::call(const Call& call, const std::function<void(const Reply&)>& progress) {
  auto reply = client_->call(call, progress);
  if (!reply) return pass(explained(std::move(reply.error())));
  return reply;
}

Result<std::size_t> Connection::read_raw(std::span<char> buffer) {
  auto count = client_->read_raw(buffer);
  if (!count) return pass(explained(std::move(count.error())));
  if (*count > 0 || !ssh_) return count;
  const auto status = ssh_->child.wait(kToTell);
  if (!status || *status == 0) return count;
  return fail(std::errc::connection_reset, "{}", ssh_failure(ssh_->host, *status, ssh_->child.err()));
}

Result<std::string> output_there(const Common& common, std::string_view command) {
  auto started = start_ssh(common, command);
  if (!started) return pass(started.error());
  ::shutdown(started->socket.get(), SHUT_WR);
  std::string output;
  std::array<char, 64U << 10U> chunk;
  for (;;) {
    const ssize_t count = ::recv(started->socket.get(), chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    output.append(chunk.data(), static_cast<std::size_t>(count));
    if (output.size() <= kMaxOutputBytes) continue;
    started->child.kill();
    return fail(std::errc::message_size, "{}: `flightctl {}` there wrote more than {} KiB", started->host.destination,
                command, kMaxOutputBytes >> 10U);
  }
  const auto status = started->child.wait(kToTell);
  const std::string words = started->child.err();
  if (status && (*status == kDone || (*status == kRefused && words.empty()))) return output;
  return fail(std::errc::connection_reset, "{}", ssh_failure(started->host, status.value_or(kRefused), words));
}

}  // namespace flight::ctl
