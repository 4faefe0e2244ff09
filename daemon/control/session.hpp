// SPDX-License-Identifier: Apache-2.0
// One client's connection. Calls are answered one at a time, in order:
//
//      ┌──────────▶ read until a NUL ──▶ call ──▶ progress* ──▶ reply written ──┐
//      └────────────────────────────────────────────────────────────────────────┘
//
// Nothing is read while a call runs: pipelined calls wait in a buffer of kMaxCallBytes and then in the client's
// socket. If a client reads slowly, only the newest progress reply is kept, and the newest kMaxEvents events with the
// number of dropped ones. A client that sends half a message or does not read its reply is disconnected. A Monitor may
// read slowly, and so may a client that records: it delays no other client. A disconnect cancels nothing: the slot is
// free at once, and the call continues. ReadSnapshot is a connection's last call: the file's bytes follow the reply.
// A user other than root waits for his turn before each call and each read (call_rates.hpp). Event loop only.
#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/control/backend.hpp"
#include "daemon/control/call_rates.hpp"
#include "daemon/control/calls.hpp"
#include "daemon/control/file_sender.hpp"
#include "daemon/control/peer.hpp"

namespace flight::daemon {

struct SessionLimits {
  std::chrono::milliseconds half_message = std::chrono::seconds(30);  // from its first byte to its NUL
  std::chrono::milliseconds slow_reader = std::chrono::seconds(30);   // for one reply
};

class ControlSession : public std::enable_shared_from_this<ControlSession> {
 public:
  static constexpr std::size_t kMaxEvents = 256;  // queued for a slow listener

  // For AnswerSink::admit, of this caller.
  using Admit = std::function<std::string(const Caller&, CallSpan)>;
  // `ended` is called once, when the connection is closed, unless forget() was called before. `reader` reads files.
  // `admit` empty: each call is run. `rates`: where this user has a limited rate; nullptr: he has none.
  ControlSession(boost::asio::local::stream_protocol::socket socket, Caller caller, ControlAccess access,
                 ControlBackend& backend, TaskThread& reader, SessionLimits limits,
                 std::function<void(ControlSession*)> ended, Admit admit = nullptr, CallRates* rates = nullptr);

  void start() { next(); }
  // Closes after the running call, if any, has been answered; a Monitor closes at once.
  void finish();
  // Closes now without calling `ended`: the server is being destroyed.
  void forget();

  [[nodiscard]] const Caller& caller() const { return caller_; }
  // True if no call runs and none was received: closing the connection loses nothing.
  [[nodiscard]] bool idle() const;
  // The span of the running call; brief: no call runs.
  [[nodiscard]] CallSpan span() const { return running_ || sender_ ? span_ : CallSpan::brief; }
  // Number of calls on this connection.
  [[nodiscard]] std::uint64_t calls() const { return call_number_; }
  // Closes an idle connection, with a message that gives the reason.
  void drop(std::string_view why);

 private:
  void next();
  void wait_for_turn();
  void take_turn();
  void read();
  void run(const std::string& message);
  [[nodiscard]] std::string admit(CallSpan span);
  void take_reply(std::uint64_t call_number, bool oneway, const Reply& reply);
  void upgrade(std::uint64_t call_number, const Reply& reply, OpenSnapshot snapshot);
  void watch_hang_up();
  void hung_up();
  void queue_event(std::uint64_t call_number, const std::string& event);
  [[nodiscard]] std::string next_event();
  void refuse_and_close(std::string_view why);
  void write();
  void written(bool was_last);
  void watch(boost::asio::steady_timer& timer, std::chrono::milliseconds limit);
  void close();

  boost::asio::local::stream_protocol::socket socket_;
  boost::asio::steady_timer half_message_timer_, slow_reader_timer_, turn_timer_;
  Caller caller_;
  ControlAccess access_;
  ControlBackend& backend_;
  TaskThread& reader_;
  SessionLimits limits_;
  std::function<void(ControlSession*)> ended_;
  Admit admit_;
  CallRates* rates_;
  std::optional<EventTime> turn_;  // it waits until then

  std::array<char, 4096> chunk_{};
  std::string received_;
  std::size_t searched_ = 0;  // this many bytes of received_ have no NUL
  bool half_message_watched_ = false;

  std::uint64_t call_number_ = 0;  // a reply to an earlier call is a bug and is dropped
  bool running_ = false;           // the backend handles a call
  CallSpan span_ = CallSpan::brief;
  bool hang_up_watched_ = false;

  std::string writing_;  // not empty: a write is running
  std::optional<std::string> progress_, last_;
  std::shared_ptr<FileSender> sender_;  // starts after the reply is written; its end closes the session

  bool listening_ = false;  // the running call is Monitor
  bool patient_ = false;    // the running call is Record: progress that is not read is dropped
  std::deque<std::string> events_;
  std::uint64_t missed_events_ = 0;
  bool finishing_ = false, closed_ = false;
};

}  // namespace flight::daemon
