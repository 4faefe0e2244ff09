// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/session.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "libcore/base/clock.hpp"
#include "libcore/base/units.hpp"
#include "libcore/control/events.hpp"

namespace flight::daemon {

using boost::system::error_code;
using Socket = boost::asio::local::stream_protocol::socket;

ControlSession::ControlSession(Socket socket, Caller caller, ControlAccess access, ControlBackend& backend,
                               TaskThread& reader, SessionLimits limits, std::function<void(ControlSession*)> ended,
                               Admit admit, CallRates* rates)
    : socket_(std::move(socket)),
      half_message_timer_(socket_.get_executor()),
      slow_reader_timer_(socket_.get_executor()),
      turn_timer_(socket_.get_executor()),
      caller_(std::move(caller)),
      access_(access),
      backend_(backend),
      reader_(reader),
      limits_(limits),
      ended_(std::move(ended)),
      admit_(std::move(admit)),
      rates_(rates) {}

void ControlSession::next() {
  if (closed_ || running_ || !writing_.empty() || turn_) return;
  if (finishing_) return close();
  if (rates_ == nullptr) return take_turn();
  turn_ = rates_->begin(caller_.uid);
  wait_for_turn();
}

// Meanwhile nothing is read: the client's next calls wait in its socket.
void ControlSession::wait_for_turn() {
  const auto left = rates_->left(*turn_);
  if (left.count() == 0) {
    turn_.reset();
    return take_turn();
  }
  turn_timer_.expires_after(left);
  turn_timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    if (const auto self = weak.lock(); self && !error && !self->closed_) self->wait_for_turn();
  });
}

void ControlSession::take_turn() {
  const std::size_t end = received_.find('\0', searched_);
  if ((end == std::string::npos ? received_.size() : end) > kMaxCallBytes)
    return refuse_and_close(fmt::format("a call may have at most {} bytes", kMaxCallBytes));
  if (end == std::string::npos) {
    searched_ = received_.size();
    return read();
  }
  const std::string message = received_.substr(0, end);
  received_.erase(0, end + 1);
  searched_ = 0;
  half_message_watched_ = false;
  half_message_timer_.cancel();
  run(message);
}

void ControlSession::read() {
  if (!received_.empty() && !half_message_watched_) {
    half_message_watched_ = true;
    watch(half_message_timer_, limits_.half_message);
  }
  socket_.async_read_some(boost::asio::buffer(chunk_),
                          [self = shared_from_this()](const error_code& error, std::size_t bytes) {
                            if (self->closed_) return;
                            if (error) return self->close();
                            self->received_.append(self->chunk_.data(), bytes);
                            self->next();
                          });
}

void ControlSession::run(const std::string& message) {
  auto call = parse_call(message);
  if (!call) return refuse_and_close(call.error().what);
  running_ = true;
  patient_ = false;
  span_ = CallSpan::brief;
  const std::uint64_t number = ++call_number_;
  // Weak: a snapshot may finish long after its client and this session are gone.
  AnswerSink sink{.reply =
                      [weak = weak_from_this(), number, oneway = call->oneway](const Reply& reply) {
                        if (const auto self = weak.lock()) self->take_reply(number, oneway, reply);
                      },
                  .upgrade =
                      [weak = weak_from_this(), number](const Reply& reply, OpenSnapshot snapshot) {
                        if (const auto self = weak.lock()) self->upgrade(number, reply, std::move(snapshot));
                      },
                  .listen = {.client = weak_from_this(),
                             .send =
                                 [weak = weak_from_this(), number](const std::string& event) {
                                   if (const auto self = weak.lock()) self->queue_event(number, event);
                                 }},
                  .be_patient =
                      [weak = weak_from_this()] {
                        if (const auto self = weak.lock()) self->patient_ = true;
                      },
                  .admit =
                      [weak = weak_from_this()](CallSpan span) {
                        const auto self = weak.lock();
                        return self ? self->admit(span) : std::string();
                      }};
  answer(*call, caller_, access_, backend_, std::move(sink));
  if (running_ || sender_) watch_hang_up();
}

std::string ControlSession::admit(CallSpan span) {
  std::string why = admit_ ? admit_(caller_, span) : std::string();
  if (why.empty()) span_ = span;
  return why;
}

// While a connection is not read (a running call, a Monitor), it is watched for hang-up. Otherwise clients that gave
// up on a blocked disk would keep their slots and could exclude root. A disconnect frees the slot at once; the call
// continues.
void ControlSession::watch_hang_up() {
  if (closed_ || std::exchange(hang_up_watched_, true)) return;
  socket_.async_wait(Socket::wait_error, [weak = weak_from_this()](const error_code& error) {
    if (const auto self = weak.lock(); self && !error) self->hung_up();
  });
}

// Calls that were sent before the hang-up and not read yet still run: a oneway call expects no reply.
void ControlSession::hung_up() {
  hang_up_watched_ = false;
  if (closed_ || (!running_ && !sender_)) return;
  pollfd state{.fd = socket_.native_handle(), .events = 0, .revents = 0};
  const bool gone = ::poll(&state, 1, 0) == 1 && (state.revents & (POLLHUP | POLLERR)) != 0;
  error_code error;
  if (gone && (listening_ || sender_ || (received_.empty() && socket_.available(error) == 0))) close();
}

void ControlSession::take_reply(std::uint64_t call_number, bool oneway, const Reply& reply) {
  if (closed_ || !running_ || call_number != call_number_) return;
  if (!reply.continues) {
    running_ = false;
    // Its last reply must be read; a step may be stuck before it.
    if (std::exchange(patient_, false) && !writing_.empty()) watch(slow_reader_timer_, limits_.slow_reader);
  }
  if (oneway) {
    // Posted, not called: a thousand pipelined oneway calls must not become a thousand stack frames.
    if (!running_) boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->next(); });
    return;
  }
  (reply.continues ? progress_ : last_) = encode(reply);
  write();
}

void ControlSession::upgrade(std::uint64_t call_number, const Reply& reply, OpenSnapshot snapshot) {
  if (closed_ || !running_ || call_number != call_number_) return;
  running_ = false;
  Pieces pieces =
      snapshot.tar.empty() ? Pieces(std::move(snapshot.file), snapshot.size_bytes) : std::move(snapshot.tar);
  sender_ = std::make_shared<FileSender>(socket_, reader_, std::move(pieces), limits_.slow_reader,
                                         [self = shared_from_this()] { self->close(); });
  last_ = encode(reply);
  write();
}

void ControlSession::queue_event(std::uint64_t call_number, const std::string& event) {
  if (closed_ || !running_ || call_number != call_number_) return;
  listening_ = true;
  events_.push_back(event);
  if (events_.size() > kMaxEvents) {
    events_.pop_front();
    ++missed_events_;
  }
  write();
}

// The oldest queued event. If events were dropped, their number comes first.
std::string ControlSession::next_event() {
  std::string event;
  if (missed_events_ > 0) {
    event = to_json(RecorderEvent{
        .event = std::string(kMissed),
        .time = to_rfc3339(wall_now()),
        .message = fmt::format("{} dropped: this client reads too slowly", counted(missed_events_, "event")),
        .missed = missed_events_});
    missed_events_ = 0;
  } else {
    event = std::move(events_.front());
    events_.pop_front();
  }
  return encode(Reply{std::move(event), "", true});
}

// The client does not speak Varlink, so the rest of its input is not parsed.
void ControlSession::refuse_and_close(std::string_view why) {
  finishing_ = true;
  last_ = encode(error_reply(invalid_parameter("call", why)));
  write();
}

void ControlSession::write() {
  if (closed_ || !writing_.empty() || (!last_ && !progress_ && events_.empty())) return;
  const bool is_last = last_.has_value();
  if (is_last || progress_) {
    writing_ = std::move(is_last ? *last_ : *progress_);
    progress_.reset();  // outdated by the last reply, or being sent now
    if (is_last) last_.reset();
  } else {
    writing_ = next_event();
  }
  if (!listening_ && !patient_) watch(slow_reader_timer_, limits_.slow_reader);
  boost::asio::async_write(socket_, boost::asio::buffer(writing_),
                           [self = shared_from_this(), is_last](const error_code& error, std::size_t) {
                             if (self->closed_) return;
                             if (error) return self->close();
                             self->written(is_last);
                           });
}

void ControlSession::written(bool was_last) {
  slow_reader_timer_.cancel();
  writing_ = std::string();  // frees the memory of a long list
  if (was_last && sender_) return sender_->start();
  if (was_last) return next();
  write();
}

void ControlSession::watch(boost::asio::steady_timer& timer, std::chrono::milliseconds limit) {
  timer.expires_after(limit);
  timer.async_wait([weak = weak_from_this(), &timer](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->closed_) return;
    // The timer may have been cancelled or restarted while this handler was in the loop's queue.
    const bool wanted = &timer == &self->half_message_timer_ ? self->half_message_watched_ : !self->writing_.empty();
    if (wanted && timer.expiry() <= std::chrono::steady_clock::now()) self->close();
  });
}

void ControlSession::finish() {
  finishing_ = true;
  if (listening_ || (!running_ && writing_.empty() && !sender_)) close();
}

bool ControlSession::idle() const {
  error_code error;  // received data that was not parsed yet may be a whole call
  return !closed_ && !running_ && writing_.empty() && !sender_ &&
         received_.find('\0', searched_) == std::string::npos && socket_.available(error) == 0;
}

// Best effort: an empty send buffer has space for one short message; never wait for a client that does not read.
void ControlSession::drop(std::string_view why) {
  const std::string message = encode(error_reply(permission_denied(why)));
  static_cast<void>(::send(socket_.native_handle(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  close();
}

void ControlSession::forget() {
  ended_ = nullptr;
  admit_ = nullptr;
  close();
}

void ControlSession::close() {
  if (std::exchange(closed_, true)) return;
  half_message_timer_.cancel();
  slow_reader_timer_.cancel();
  turn_timer_.cancel();
  if (sender_) sender_->stop();
  error_code ignored;  // both fail if the client is gone
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  if (const auto ended = std::exchange(ended_, nullptr)) ended(this);
}

}  // namespace flight::daemon
