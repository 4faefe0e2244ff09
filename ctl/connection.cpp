// SPDX-License-Identifier: Apache-2.0
#include "ctl/connection.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "ctl/patience.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::ctl {
namespace {

// Time for ssh to exit. A shared connection (ControlMaster) stays open for its other users until this process ends.
constexpr std::chrono::seconds kToEnd(2);
constexpr std::chrono::seconds kToReport(10);  // when the connection is closed already
constexpr std::size_t kMaxOutputBytes = 1U << 20U;

struct Started {
  Host host;
  UniqueFd socket;
  Child child;
};

// Each connection is one socketpair and one ssh, whose stdin and stdout are the socket. ssh ends with this process
// (see child.hpp): flightd keeps a Monitor that closed one half, so an orphaned ssh would occupy its slot until the
// next event.
Result<Started> start_ssh(const Common& common, std::string_view command) {
  auto host = parse_host(common.host);
  if (!host) return propagate(host.error());
  auto pair = socket_pair(SOCK_STREAM);
  if (!pair) return propagate(pair.error());
  auto child = Child::start(ssh_words(*host, common.socket, command), pair->other.get());
  if (!child) return wrap(child.error(), "--host runs ssh");
  return Started{std::move(*host), std::move(pair->own), std::move(*child)};
}

// An error about output that is not flightctl's.
std::string noisy(const Host& host, std::string_view what) {
  return fmt::format("{}: {}; {} `ssh {}{} true` must print nothing and end", host.destination, what, kNoisyShell,
                     host.port.empty() ? "" : fmt::format("-p {} ", host.port), host.destination);
}

// `output`: what was read until there is more than a bracket, which another flightctl writes before it has anything to
// say. What ends before is not an error here: it is judged as a whole.
Result<void> wait_for_list(int fd, std::string& output, Patience& patience) {
  const auto bracket = [](std::string_view text) {
    return begins_list(text) && text.find('[') != std::string_view::npos;
  };
  const auto element = [](std::string_view text) {
    return begins_list(text) && text.find_first_of("{]") != std::string_view::npos;
  };
  FirstAnswer first{.fits = begins_list, .found = bracket};
  auto read = wait_for_answer(fd, first, patience);
  if (read) {
    first.found = element;
    Patience endless{std::chrono::steady_clock::time_point::max(), {}};
    read = wait_for_answer(fd, first, endless);
  }
  output = std::move(first.received);
  if (!read && (read.error().code == std::errc::connection_reset || read.error().code == std::errc::message_size))
    return {};
  return read;
}

}  // namespace

Result<Connection> Connection::open(const Common& common) {
  if (common.host.empty()) {
    Patience patience = patience_here(common.socket);
    auto client = ControlClient::connect(common.socket, patience);
    if (!client) return propagate(client.error());
    return Connection(std::move(*client), std::move(patience));
  }
  auto started = start_ssh(common, "bridge");
  if (!started) return propagate(started.error());
  auto ssh = std::make_unique<Ssh>(Ssh{std::move(started->host), std::move(started->child)});
  Patience patience = patience_there(ssh->host, "bridge", [child = &ssh->child] { return child->err(); });
  return Connection(ControlClient::on(std::move(started->socket)), std::move(patience), std::move(ssh));
}

Connection::~Connection() {
  client_.reset();
  if (ssh_) static_cast<void>(ssh_->child.wait(kToEnd));
}

Error Connection::explained(Error error) {
  if (!ssh_) return error;
  if (error.code == std::errc::timed_out) {  // patience's own words
    ssh_->child.kill();
    return error;
  }
  if (error.code == std::errc::bad_message) {
    error.what = noisy(ssh_->host, error.what);
    return error;
  }
  const auto status = ssh_->child.wait(kToReport);
  if (!status || *status == 0) {
    error.what = fmt::format("{}: {}", ssh_->host.destination, error.what);
    return error;
  }
  error.what = ssh_failure(ssh_->host, *status, ssh_->child.err());
  if (!begins_object(client_->unanswered())) error.what += "; " + noise_text(client_->unanswered());
  return error;
}

Result<Reply> Connection::call(const Call& call, const std::function<void(const Reply&)>& progress) {
  if (auto patience = std::exchange(patience_, std::nullopt)) {
    auto alive = client_->greet(*patience);
    if (!alive) return propagate(explained(std::move(alive.error())));
    if (!alive->error.empty()) return alive;  // it accepts no call on this connection
  }
  auto reply = client_->call(call, progress);
  if (!reply) return propagate(explained(std::move(reply.error())));
  return reply;
}

Result<std::size_t> Connection::read_raw(std::span<char> buffer) {
  auto count = client_->read_raw(buffer);
  if (!count) return propagate(explained(std::move(count.error())));
  if (*count > 0 || !ssh_) return count;
  const auto status = ssh_->child.wait(kToReport);
  if (!status || *status == 0) return count;
  return fail(std::errc::connection_reset, "{}", ssh_failure(ssh_->host, *status, ssh_->child.err()));
}

namespace {

bool is_whole_list(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return begins_list(text) && last != std::string_view::npos && text[last] == ']';
}

}  // namespace

Result<std::string> output_there(const Common& common, std::string_view command) {
  auto started = start_ssh(common, command);
  if (!started) return propagate(started.error());
  ::shutdown(started->socket.get(), SHUT_WR);
  Patience patience =
      patience_there(started->host, std::string(command), [&child = started->child] { return child.err(); });
  std::string output;
  if (auto begun = wait_for_list(started->socket.get(), output, patience); !begun) {
    started->child.kill();
    static_cast<void>(started->child.wait(kToEnd));
    if (begun.error().code != std::errc::bad_message) return propagate(begun.error());
    return fail(std::errc::bad_message, "{}", noisy(started->host, begun.error().what));
  }
  std::array<char, 64U << 10U> chunk;
  while (output.size() <= kMaxOutputBytes) {
    const ssize_t count = ::recv(started->socket.get(), chunk.data(), chunk.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    output.append(chunk.data(), static_cast<std::size_t>(count));
  }
  if (output.size() > kMaxOutputBytes) {
    started->child.kill();
    return fail(std::errc::message_size, "{}: `flightctl {}` wrote more than {} KiB there", started->host.destination,
                command, kMaxOutputBytes >> 10U);
  }
  const auto status = started->child.wait(kToReport);
  const std::string words = started->child.err();
  // doctor ends with kRefused if a finding is bad. What ssh says beside it (a banner, a new host key) does not matter.
  if (status && (*status == kDone || (*status == kRefused && (words.empty() || is_whole_list(output))))) return output;
  return fail(std::errc::connection_reset, "{}{}", ssh_failure(started->host, status.value_or(kRefused), words),
              begins_list(output) ? "" : "; " + noise_text(output));
}

}  // namespace flight::ctl
