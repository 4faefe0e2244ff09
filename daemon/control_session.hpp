// SPDX-License-Identifier: Apache-2.0
// One client's connection. Calls are answered one at a time, in order:
//
//      ┌──────────▶ read until a NUL ──▶ call ──▶ progress* ──▶ reply written ──┐
//      └────────────────────────────────────────────────────────────────────────┘
//
// Nothing is read while a call runs, so what a client pipelines waits in a buffer of kMaxCallBytes and then in its own
// socket. Of progress replies that a slow reader has not taken only the newest is kept; of events, the newest
// kMaxEvents, and how many are missing before them. Whoever leaves half a message lying, or does not read its reply, is
// dropped; who listens (Monitor) may be as slow as it likes, it holds up nobody. A client that leaves cancels nothing:
// its place is free at once, and its call's late answer finds nobody. ReadSnapshot is a connection's last call: a
// file's bytes follow the reply. Event loop only.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/control_backend.hpp"
#include "daemon/control_calls.hpp"
#include "daemon/file_sender.hpp"
#include "daemon/peer.hpp"

namespace flight {

struct SessionLimits {
  std::chrono::milliseconds half_message = std::chrono::seconds(30);  // from its first byte to its NUL
  std::chrono::milliseconds slow_reader = std::chrono::seconds(30);   // for one reply
};

class ControlSession : public std::enable_shared_from_this<ControlSession> {
 public:
  static constexpr std::size_t kMaxEvents = 256;  // that wait for a slow listener

  // `ended` is called once, when the connection is closed, unless forget() was called before. `reader` reads files.
  ControlSession(boost::asio::local::stream_protocol::socket socket, Caller caller, ControlAccess access,
                 ControlBackend& backend, boost::asio::thread_pool& reader, SessionLimits limits,
                 std::function<void(ControlSession*)> ended);

  void start() { next(); }
  // Closes as soon as the call under way, if there is one, has been answered; one that listens is told no more.
  void finish();
  // Closes now and tells nobody: the server goes away.
  void forget();

  [[nodiscard]] const Caller& caller() const { return caller_; }

 private:
  void next();
  void read();
  void run(const std::string& message);
  void take_reply(std::uint64_t call_number, bool oneway, const Reply& reply);
  void upgrade(std::uint64_t call_number, const Reply& reply, OpenSnapshot snapshot);
  void watch_hang_up();
  void hung_up();
  void hear(std::uint64_t call_number, const std::string& event);
  [[nodiscard]] std::string next_event();
  void refuse_and_close(std::string_view why);
  void write();
  void written(bool was_last);
  void watch(boost::asio::steady_timer& timer, std::chrono::milliseconds limit);
  void close();

  boost::asio::local::stream_protocol::socket socket_;
  boost::asio::steady_timer half_message_timer_, slow_reader_timer_;
  Caller caller_;
  ControlAccess access_;
  ControlBackend& backend_;
  boost::asio::thread_pool& reader_;
  SessionLimits limits_;
  std::function<void(ControlSession*)> ended_;

  std::array<char, 4096> chunk_{};
  std::string received_;
  std::size_t searched_ = 0;  // so much of received_ has no NUL
  bool half_message_watched_ = false;

  std::uint64_t call_number_ = 0;  // an answer to an earlier call is a mistake and is dropped
  bool running_ = false;           // a call is with the backend
  bool hang_up_watched_ = false;

  std::string writing_;  // not empty: a write is under way
  std::optional<std::string> progress_, last_;
  std::shared_ptr<FileSender> sender_;  // begins when the reply is written, and ends the session

  bool listening_ = false;  // the call that runs is Monitor
  std::deque<std::string> events_;
  std::uint64_t missed_events_ = 0;
  bool finishing_ = false, closed_ = false;
};

}  // namespace flight
