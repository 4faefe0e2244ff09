// SPDX-License-Identifier: Apache-2.0
// A file's bytes on their way to one client, a buffer at a time: read on the thread that is given, because a disk may
// take its time and the event loop must not, sent on the event loop.
//
//      loop ── read the next ──▶ reader thread ── a buffer of kBytes ──▶ loop ──▶ the client's socket
//
// A reader who takes nothing for `limit` is given up; how long the disk takes is not his fault. Event loop only, but
// for the read itself.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight {

class FileSender : public std::enable_shared_from_this<FileSender> {
 public:
  // `ended` is called once, when all is sent or nothing more can be, unless stop() was called before. `socket` must
  // live until then.
  FileSender(boost::asio::local::stream_protocol::socket& socket, boost::asio::thread_pool& reader, UniqueFd file,
             std::uint64_t bytes, std::chrono::milliseconds limit, std::function<void()> ended);

  void start() { read(); }
  void stop();

 private:
  void read();
  void take(std::size_t bytes);
  void send();
  void watch();
  void end();

  boost::asio::local::stream_protocol::socket& socket_;  // not to be touched after stop() or end()
  boost::asio::any_io_executor loop_;
  boost::asio::thread_pool& reader_;
  boost::asio::steady_timer slow_reader_timer_;
  UniqueFd file_;
  std::uint64_t left_bytes_;
  std::chrono::milliseconds limit_;
  std::function<void()> ended_;
  std::vector<char> buffer_;
  std::size_t sent_ = 0, filled_ = 0;  // of the buffer
};

}  // namespace flight
