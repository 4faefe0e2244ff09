// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/file_sender.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace flight::daemon {
namespace {

constexpr std::size_t kBytes = 64U << 10U;

}  // namespace

FileSender::FileSender(boost::asio::local::stream_protocol::socket& socket, TaskThread& reader, Pieces pieces,
                       std::chrono::milliseconds limit, std::function<void()> ended)
    : socket_(socket),
      loop_(socket.get_executor()),
      reader_(reader),
      slow_reader_timer_(loop_),
      pieces_(std::move(pieces)),
      left_bytes_(pieces_.bytes()),
      limit_(limit),
      ended_(std::move(ended)),
      buffer_(kBytes) {}

void FileSender::read() {
  if (left_bytes_ == 0) return end();
  reader_.post([self = shared_from_this()]() mutable {
    const std::size_t bytes = self->pieces_.read(self->buffer_);
    const auto loop = self->loop_;
    boost::asio::post(loop, [self = std::move(self), bytes] { self->take(bytes); });
  });
}

// 0: the disk failed or the file became shorter. The client counts bytes and detects that some are missing.
void FileSender::take(std::size_t bytes) {
  if (!ended_) return;
  filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left_bytes_));
  sent_ = 0;
  left_bytes_ -= filled_;
  if (filled_ == 0) return end();
  send();
}

void FileSender::send() {
  watch();
  socket_.async_write_some(boost::asio::buffer(buffer_.data() + sent_, filled_ - sent_),
                           [self = shared_from_this()](const boost::system::error_code& error, std::size_t bytes) {
                             if (!self->ended_) return;
                             self->slow_reader_timer_.cancel();
                             if (error) return self->end();
                             self->sent_ += bytes;
                             self->sent_ < self->filled_ ? self->send() : self->read();
                           });
}

// Restarted whenever bytes were sent.
void FileSender::watch() {
  slow_reader_timer_.expires_after(limit_);
  slow_reader_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    // The timer may have been restarted while this handler was in the loop's queue.
    if (!error && self && self->sent_ < self->filled_ &&
        self->slow_reader_timer_.expiry() <= std::chrono::steady_clock::now())
      self->end();
  });
}

void FileSender::stop() {
  ended_ = nullptr;
  slow_reader_timer_.cancel();
}

void FileSender::end() {
  const auto ended = std::exchange(ended_, nullptr);
  slow_reader_timer_.cancel();
  if (ended) ended();
}

}  // namespace flight::daemon
