// SPDX-License-Identifier: Apache-2.0
#include "daemon/control_server.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/control_socket.hpp"

namespace flight {
namespace {

using boost::asio::local::stream_protocol;
using boost::system::error_code;

constexpr int kMaxAcceptsAtOnce = 16;                          // then other work of the loop has its turn
constexpr auto kAcceptRetry = std::chrono::milliseconds(100);  // out of fds or memory

// Best effort: a new socket's buffer has room for one short message.
void say_and_close(const UniqueFd& fd, CallError error) {
  const std::string message = encode(error_reply(std::move(error)));
  static_cast<void>(::send(fd.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::open(boost::asio::io_context& io, const std::string& path,
                                                           ControlBackend& backend, ControlAccess access,
                                                           ControlLimits limits) {
  auto fd = listen_on(path);
  if (!fd) return pass(fd.error());
  auto server = adopt(io, std::move(*fd), backend, access, limits);
  if (server) (*server)->path_ = path;
  return server;
}

Result<std::unique_ptr<ControlServer>> ControlServer::adopt(boost::asio::io_context& io, UniqueFd listening,
                                                            ControlBackend& backend, ControlAccess access,
                                                            ControlLimits limits) {
  // accept4(2) is called by hand (Asio 1.74's has no SOCK_CLOEXEC) and must not block.
  const int flags = ::fcntl(listening.get(), F_GETFL);
  if (flags < 0 || ::fcntl(listening.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return sys_error(errno, "making the control socket non-blocking");
  std::unique_ptr<ControlServer> server(new ControlServer(io, backend, access, limits));
  error_code error;
  server->acceptor_.assign(stream_protocol(), listening.get(), error);
  if (error) return sys_error(error.value(), "watching the control socket");
  static_cast<void>(listening.release());  // the acceptor's now
  server->wait();
  return server;
}

ControlServer::~ControlServer() {
  alive_.reset();
  for (auto& [address, session] : std::exchange(sessions_, {})) session->forget();
  unlink_socket();
  error_code ignored;
  acceptor_.close(ignored);
  reader_.join();  // at most one read is under way: nobody is left to ask for the next
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
  const auto sessions = sessions_;  // finish() takes idle ones out at once
  for (const auto& [address, session] : sessions) session->finish();
  tell_when_closed();
}

void ControlServer::tell_when_closed() {
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
  for (int count = 0; count < kMaxAcceptsAtOnce; ++count) {
    UniqueFd fd(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd) {
      admit(std::move(fd));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // EMFILE, ENFILE, ENOMEM: the client stays in the queue, and asking again at once would spin.
      return retry_later();
    }
  }
  wait();
}

void ControlServer::retry_later() {
  retry_timer_.expires_after(kAcceptRetry);
  retry_timer_.async_wait([this, alive = std::weak_ptr<const bool>(alive_)](const error_code& error) {
    if (!alive.expired() && !error) accept_some();
  });
}

// Why `caller` gets no place, or empty.
std::string ControlServer::refusal(const Caller& caller) const {
  enum class Kind { root, trusted, firing, stranger };
  const auto kind_of = [this](const Caller& one) {
    if (one.uid == 0) return Kind::root;
    if (access_.trusts(one)) return Kind::trusted;
    return access_.may_fire(one) ? Kind::firing : Kind::stranger;
  };
  const Kind kind = kind_of(caller);
  std::size_t of_uid = 0;
  std::size_t of_kind = 0;
  for (const auto& [address, session] : sessions_) {
    if (session->caller().uid == caller.uid) ++of_uid;
    if (kind_of(session->caller()) == kind) ++of_kind;
  }
  struct Places {
    std::size_t all, per_uid;
  };
  const std::array<Places, 4> places{{{limits_.root, limits_.root},
                                      {limits_.trusted, limits_.per_trusted_uid},
                                      {limits_.firing, limits_.per_firing_uid},
                                      {limits_.strangers, limits_.per_stranger_uid}}};
  const Places& mine = places.at(static_cast<std::size_t>(kind));
  if (of_uid >= mine.per_uid)
    return fmt::format("uid {} has {} connections to flightd already, and more are not allowed; close some", caller.uid,
                       of_uid);
  if (of_kind >= mine.all)
    return fmt::format("flightd has {} connections of users like you, and the other places are kept; try again later",
                       of_kind);
  return "";
}

void ControlServer::admit(UniqueFd fd) {
  auto caller = peer_of(fd.get());
  if (!caller) return say_and_close(fd, permission_denied(caller.error().what));
  if (const std::string why = refusal(*caller); !why.empty()) {
    ++refused_connections_;
    return say_and_close(fd, permission_denied(why));
  }
  stream_protocol::socket socket(io_);
  error_code error;
  socket.assign(stream_protocol(), fd.get(), error);
  if (error) return;
  static_cast<void>(fd.release());  // the socket's now
  auto session = std::make_shared<ControlSession>(std::move(socket), std::move(*caller), access_, backend_, reader_,
                                                  limits_.session, [this](ControlSession* ended) {
                                                    sessions_.erase(ended);
                                                    tell_when_closed();
                                                  });
  sessions_.emplace(session.get(), session);
  session->start();
}

}  // namespace flight
