// SPDX-License-Identifier: Apache-2.0
// Sends a file, or a data directory as a tar, to one client, one buffer at a time: read on the given thread, because
// the disk may block and the event loop must not, and sent on the event loop.
//
//      loop ── read the next ──▶ reader thread ── a buffer of kBytes ──▶ loop ──▶ the client's socket
//
// A client that reads nothing for `limit` is disconnected; waiting for the disk does not count. Event loop only, except
// for the read itself.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "libcore/base/task_thread.hpp"
#include "libcore/store/pieces.hpp"

namespace flight::daemon {

class FileSender : public std::enable_shared_from_this<FileSender> {
 public:
  // `ended` is called once, when all bytes are sent or no more can be sent, unless stop() was called before. `socket`
  // must outlive this object.
  FileSender(boost::asio::local::stream_protocol::socket& socket, TaskThread& reader, Pieces pieces,
             std::chrono::milliseconds limit, std::function<void()> ended);

  void start() { read(); }
  void stop();

 private:
  void read();
  void take(std::size_t bytes);
  void send();
  void watch();
  void end();

  boost::asio::local::stream_protocol::socket& socket_;  // not used after stop() or end()
  boost::asio::any_io_executor loop_;
  TaskThread& reader_;
  boost::asio::steady_timer slow_reader_timer_;
  Pieces pieces_;  // of the reader's thread while it reads
  std::uint64_t left_bytes_;
  std::chrono::milliseconds limit_;
  std::function<void()> ended_;
  std::vector<char> buffer_;
  std::size_t sent_ = 0, filled_ = 0;  // bytes of the buffer
};

}  // namespace flight::daemon
