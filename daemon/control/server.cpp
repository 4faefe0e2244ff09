// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/server.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/log/log.hpp"
#include "libcore/base/unix_socket.hpp"

namespace flight::daemon {
namespace {

using boost::asio::local::stream_protocol;
using boost::system::error_code;

constexpr int kMaxAcceptsAtOnce = 16;                          // then other work of the loop runs
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);  // out of fds or memory

// Connections of a user in a loop are refused in rounds: one wake-up of the loop for each would cost it most of a CPU.
// A round takes the whole queue (systemd/flightd.socket has the same number), so nobody else waits longer than a pause.
constexpr int kQueue = 128;
constexpr auto kFloodPause = std::chrono::milliseconds(25);

// Access is decided per method, not by the mode of the socket.
constexpr UnixListen kControlSocket{.type = SOCK_STREAM, .backlog = kQueue, .mode = 0666, .listener = "flightd"};

// The number of `connections` that may have calls of this span at a time. The others are kept free for shorter calls,
// and the last sixteenth for calls that are answered at once.
std::size_t most_calls(std::size_t connections, CallSpan span) {
  switch (span) {
    case CallSpan::brief:
      break;
    case CallSpan::snapshot:
      return connections - connections / 16;
    case CallSpan::slow:
      return connections - connections / 8;
    case CallSpan::endless:
      return connections - connections / 4;
  }
  return connections;
}

// Best effort: the buffer of a new socket has space for one short message.
void send_and_close(const UniqueFd& fd, CallError error) {
  const std::string message = encode(error_reply(std::move(error)));
  static_cast<void>(::send(fd.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Why a connection cannot be served: epoll_ctl(2) refused it.
std::string why_unwatched(int error_number) {
  if (error_number != ENOSPC) return sys_error(error_number, "flightd cannot watch one more connection").value().what;
  return "flightd cannot watch one more connection: its user has as many epoll watches as fs.epoll.max_user_watches "
         "permits; raise it with `sysctl -w fs.epoll.max_user_watches=NUMBER`, or end programs that watch many files";
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::open(boost::asio::io_context& io, const std::string& path,
                                                           ControlBackend& backend, ControlAccess access,
                                                           ControlLimits limits, const WaitingClock& clock) {
  auto fd = listen_on(path, kControlSocket);
  if (!fd) return propagate(fd.error());
  auto server = adopt(io, std::move(*fd), backend, access, limits, clock);
  if (server) (*server)->path_ = path;
  return server;
}

Result<std::unique_ptr<ControlServer>> ControlServer::adopt(boost::asio::io_context& io, UniqueFd listening,
                                                            ControlBackend& backend, ControlAccess access,
                                                            ControlLimits limits, const WaitingClock& clock) {
  // accept4(2) is called directly (Asio 1.74's accept has no SOCK_CLOEXEC) and must not block.
  const int flags = ::fcntl(listening.get(), F_GETFL);
  if (flags < 0 || ::fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return sys_error(errno, "making the control socket non-blocking");
  auto reader = TaskThread::start("reader");
  if (!reader) return propagate(reader.error());
  std::unique_ptr<ControlServer> server(new ControlServer(io, backend, access, limits, clock, std::move(*reader)));
  error_code error;
  server->acceptor_.assign(stream_protocol(), listening.get(), error);
  if (error) return sys_error(error.value(), "watching the control socket");
  static_cast<void>(listening.release());  // the acceptor owns it now
  server->wait();
  return server;
}

ControlServer::~ControlServer() {
  alive_.reset();
  for (auto& [address, session] : std::exchange(sessions_, {})) session->forget();
  unlink_socket();
  error_code ignored;
  acceptor_.close(ignored);
  reader_->join();  // at most one read is running: no session remains to start another
}

void ControlServer::unlink_socket() {
  if (const std::string path = std::exchange(path_, {}); !path.empty()) ::unlink(path.c_str());
}

void ControlServer::stop(std::function<void()> closed) {
  closed_ = std::move(closed);
  unlink_socket();
  retry_timer_.cancel();
  error_code ignored;
  acceptor_.close(ignored);
  const auto sessions = sessions_;  // finish() removes idle sessions from the list
  for (const auto& [address, session] : sessions) session->finish();
  notify_when_closed();
}

void ControlServer::notify_when_closed() {
  if (sessions_.empty() && closed_) boost::asio::post(io_, std::exchange(closed_, nullptr));
}

void ControlServer::wait() {
  acceptor_.async_wait(stream_protocol::acceptor::wait_read,
                       [this, alive = std::weak_ptr<const bool>(alive_)](const error_code& error) {
                         if (!alive.expired() && !error) accept_some();
                       });
}

void ControlServer::accept_some() {
  if (!acceptor_.is_open()) return;
  bool flooded = false;
  for (int count = 0; count < (flooded ? kQueue : kMaxAcceptsAtOnce); ++count) {
    UniqueFd fd(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      if (!admit_at_rate(std::move(fd))) flooded = true;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // EMFILE, ENFILE, ENOMEM: the client stays in the queue; trying again at once would spin.
      return retry_after(kAcceptRetry);
    }
  }
  if (flooded) return retry_after(kFloodPause);
  wait();
}

void ControlServer::retry_after(std::chrono::milliseconds time) {
  retry_timer_.expires_after(time);
  retry_timer_.async_wait([this, alive = std::weak_ptr<const bool>(alive_)](const error_code& error) {
    if (!alive.expired() && !error) accept_some();
  });
}

ControlServer::Kind ControlServer::kind_of(const Caller& caller) const {
  if (caller.uid == 0) return Kind::root;
  if (access_.trusts(caller)) return Kind::trusted;
  return access_.may_fire(caller) ? Kind::firing : Kind::stranger;
}

ControlServer::Places ControlServer::places_for(const Caller& caller) const {
  switch (kind_of(caller)) {
    case Kind::root:
      return {.all = limits_.root, .of_uid = limits_.root};
    case Kind::trusted:
      return {.all = limits_.trusted, .of_uid = limits_.per_trusted_uid};
    case Kind::firing:
      return {.all = limits_.firing, .of_uid = limits_.per_firing_uid};
    case Kind::stranger:
      break;
  }
  return {.all = limits_.strangers, .of_uid = limits_.per_stranger_uid};
}

ControlServer::Places ControlServer::taken(const Caller& caller, CallSpan span) const {
  const Kind kind = kind_of(caller);
  Places out;
  for (const auto& [address, session] : sessions_) {
    if (session->span() < span) continue;
    if (session->caller().uid == caller.uid) ++out.of_uid;
    if (kind_of(session->caller()) == kind) ++out.all;
  }
  return out;
}

std::string ControlServer::refusal(const Caller& caller) const {
  const Places most = places_for(caller);
  const Places now = taken(caller, CallSpan::brief);
  if (now.of_uid >= most.of_uid)
    return fmt::format("uid {} already has {} connections to flightd, which is the maximum; close some", caller.uid,
                       now.of_uid);
  if (now.all >= most.all)
    return fmt::format(
        "flightd already has {} connections of users with the same access, which is the maximum; try again later",
        now.all);
  return "";
}

// A longer call also takes a place of the shorter ones.
std::string ControlServer::refusal_of_call(const Caller& caller, CallSpan span) const {
  const Places most = places_for(caller);
  for (const CallSpan each : {CallSpan::snapshot, CallSpan::slow, CallSpan::endless}) {
    if (each > span) break;
    const Places now = taken(caller, each);
    if (now.of_uid >= most_calls(most.of_uid, each))
      return fmt::format(
          "uid {} already has {} long calls at flightd, which is the maximum; end some: the other connections are kept "
          "for shorter calls",
          caller.uid, now.of_uid);
    if (now.all >= most_calls(most.all, each))
      return fmt::format(
          "users with the same access already have {} long calls at flightd, which is the maximum; try again later: "
          "the other connections are kept for shorter calls",
          now.all);
  }
  return "";
}

// Drops the oldest idle connection of this user, first those without any call: many half-open connections must not
// keep their owner from a status. A user cannot drop another user's connections.
bool ControlServer::drop_idle(std::uint32_t uid) {
  std::shared_ptr<ControlSession> oldest;
  const auto age = [this](const ControlSession& session) {
    return std::pair(session.calls() > 0, order_.at(&session));
  };
  for (const auto& [address, session] : sessions_)
    if (session->caller().uid == uid && session->idle() && (!oldest || age(*session) < age(*oldest))) oldest = session;
  if (!oldest) return false;
  ++dropped_connections_;
  oldest->drop("this connection was idle and was closed for a new connection of the same user; connect again");
  return true;
}

bool ControlServer::has_rate(std::uint32_t uid) const { return uid != 0 && access_.own_uid != uid; }

// Cheaper than admit(): only the uid is read, and once a minute its groups.
bool ControlServer::admit_at_rate(UniqueFd fd) {
  const auto peer = peer_credentials(fd.get());
  auto admission = Admission::admitted;
  if (peer && has_rate(peer->uid)) {
    if (rates_.wants_groups(peer->uid))
      if (const auto caller = unnamed_peer_of(fd.get()); caller && access_.may_fire(*caller))
        rates_.note_member(peer->uid);
    admission = rates_.admit(peer->uid);
  }
  if (admission == Admission::admitted) {
    admit(std::move(fd));
    return true;
  }
  ++refused_connections_;
  const auto& rates = limits_.rates;
  send_and_close(
      fd,
      permission_denied(
          admission == Admission::own_is_empty
              ? fmt::format("uid {} connects to flightd, or calls it, more often than it may ({} calls a second for "
                            "long); wait a second, and use one connection for several calls",
                            peer->uid, rates.per_second / 4)
              : fmt::format("users outside of flightd's groups connect to flightd, or call it, more often than they "
                            "may together ({} calls a second for long); wait a second, or become a member of one",
                            rates.strangers * rates.per_second / 4)));
  return false;
}

// Connections that flightd has are served further.
void ControlServer::refuse_unwatched(const UniqueFd& fd, int error_number) {
  ++refused_connections_;
  const std::string why = why_unwatched(error_number);
  if (!std::exchange(logged_unwatched_, true)) log::warn("a connection is refused: {}. This is logged once", why);
  send_and_close(fd, permission_denied(why));
}

void ControlServer::admit(UniqueFd fd) {
  auto caller = peer_of(fd.get());
  if (!caller) return send_and_close(fd, permission_denied(caller.error().what));
  if (has_rate(caller->uid) && access_.may_fire(*caller)) rates_.note_member(caller->uid);
  std::string why = refusal(*caller);
  if (!why.empty() && drop_idle(caller->uid)) why = refusal(*caller);
  if (!why.empty()) {
    ++refused_connections_;
    return send_and_close(fd, permission_denied(why));
  }
  stream_protocol::socket socket(io_);
  error_code error;
  socket.assign(stream_protocol(), fd.get(), error);
  if (error) return refuse_unwatched(fd, error.value());
  static_cast<void>(fd.release());  // the socket owns it now
  CallRates* const rates = has_rate(caller->uid) ? &rates_ : nullptr;
  auto session = std::make_shared<ControlSession>(
      std::move(socket), std::move(*caller), access_, backend_, *reader_, limits_.session,
      [this](ControlSession* ended) {
        sessions_.erase(ended);
        order_.erase(ended);
        notify_when_closed();
      },
      [this](const Caller& one, CallSpan span) { return refusal_of_call(one, span); }, rates);
  sessions_.emplace(session.get(), session);
  order_.emplace(session.get(), ++admitted_);
  session->start();
}

}  // namespace flight::daemon
