// SPDX-License-Identifier: Apache-2.0
#include "daemon/control_session.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>

namespace flight {

using boost::system::error_code;
using Socket = boost::asio::local::stream_protocol::socket;

ControlSession::ControlSession(Socket socket, Caller caller, ControlAccess access, ControlBackend& backend,
                               SessionLimits limits, std::function<void(ControlSession*)> ended)
    : socket_(std::move(socket)),
      half_message_timer_(socket_.get_executor()),
      slow_reader_timer_(socket_.get_executor()),
      caller_(std::move(caller)),
      access_(access),
      backend_(backend),
      limits_(limits),
      ended_(std::move(ended)) {}

void ControlSession::next() {
  if (closed_ || running_ || !writing_.empty()) return;
  if (finishing_) return close();
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
  const std::uint64_t number = ++call_number_;
  // Weak: a snapshot may be finished long after its asker and this session have gone.
  answer(*call, caller_, access_, backend_,
         [weak = weak_from_this(), number, oneway = call->oneway](const Reply& reply) {
           if (const auto self = weak.lock()) self->take_reply(number, oneway, reply);
         });
}

void ControlSession::take_reply(std::uint64_t call_number, bool oneway, const Reply& reply) {
  if (closed_ || !running_ || call_number != call_number_) return;
  if (!reply.continues) running_ = false;
  if (oneway) {
    // Posted, not called: a thousand pipelined oneway calls must not become a thousand stack frames.
    if (!running_) boost::asio::post(socket_.get_executor(), [self = shared_from_this()] { self->next(); });
    return;
  }
  (reply.continues ? progress_ : last_) = encode(reply);
  write();
}

// Whoever sends this speaks no Varlink; what follows in its stream means nothing either.
void ControlSession::refuse_and_close(std::string_view why) {
  finishing_ = true;
  last_ = encode(error_reply(invalid_parameter("call", why)));
  write();
}

void ControlSession::write() {
  if (closed_ || !writing_.empty() || (!last_ && !progress_)) return;
  const bool is_last = last_.has_value();
  writing_ = std::move(is_last ? *last_ : *progress_);
  progress_.reset();  // older than a last reply, or the one that goes out now
  if (is_last) last_.reset();
  watch(slow_reader_timer_, limits_.slow_reader);
  boost::asio::async_write(socket_, boost::asio::buffer(writing_),
                           [self = shared_from_this(), is_last](const error_code& error, std::size_t) {
                             if (self->closed_) return;
                             if (error) return self->close();
                             self->written(is_last);
                           });
}

void ControlSession::written(bool was_last) {
  slow_reader_timer_.cancel();
  writing_ = std::string();  // gives a long list's memory back
  if (was_last) return next();
  write();
}

void ControlSession::watch(boost::asio::steady_timer& timer, std::chrono::milliseconds limit) {
  timer.expires_after(limit);
  timer.async_wait([weak = weak_from_this(), &timer](const error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->closed_) return;
    // It may have been cancelled or set anew while this was in the loop's queue.
    const bool wanted = &timer == &self->half_message_timer_ ? self->half_message_watched_ : !self->writing_.empty();
    if (wanted && timer.expiry() <= std::chrono::steady_clock::now()) self->close();
  });
}

void ControlSession::finish() {
  finishing_ = true;
  if (!running_ && writing_.empty()) close();
}

void ControlSession::forget() {
  ended_ = nullptr;
  close();
}

void ControlSession::close() {
  if (std::exchange(closed_, true)) return;
  half_message_timer_.cancel();
  slow_reader_timer_.cancel();
  error_code ignored;  // a client that is gone makes both of these fail
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  if (const auto ended = std::exchange(ended_, nullptr)) ended(this);
}

}  // namespace flight
