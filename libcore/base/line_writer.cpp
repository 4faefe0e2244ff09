// SPDX-License-Identifier: Apache-2.0
#include "libcore/base/line_writer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "libcore/base/bytes.hpp"
#include "libcore/base/files.hpp"
#include "libcore/base/thread.hpp"
#include "libcore/base/unique_fd.hpp"
#include "libcore/base/units.hpp"

namespace flight {

struct LineWriter::State {
  explicit State(int to) : fd(to) {}
  const int fd;
  // The thread's own descriptor: if the thread is left behind, it cannot write to another file with the number of
  // `fd`.
  UniqueFd own;
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<std::string> queue;
  std::size_t bytes = 0;
  bool writing = false, ending = false, has_thread = false;
  std::atomic<std::uint64_t> dropped = 0;
  std::uint64_t reported = 0;  // the part of the dropped lines that was reported
  std::thread thread;

  // The report about dropped lines, written after the last line before them.
  [[nodiscard]] std::string lost_lines() {
    const std::uint64_t all = dropped;
    if (all == reported) return "";
    const std::uint64_t count = all - std::exchange(reported, all);
    return fmt::format("{} {} dropped: stderr was not read for a while\n", counted(count, "log line"),
                       was_or_were(count));
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return ending || !queue.empty(); });
      if (queue.empty()) return;
      std::string text = std::move(queue.front());
      queue.pop_front();
      bytes -= text.size();
      if (queue.empty()) text += lost_lines();
      writing = true;
      lock.unlock();
      // EPIPE, EIO: there is no way to report it.
      static_cast<void>(write_patiently(own ? own.get() : fd, bytes_of(text)));
      lock.lock();
      writing = false;
      if (queue.empty()) idle.notify_all();
    }
  }

  // For a pipe, POLLOUT means that PIPE_BUF bytes fit, so that the write does not wait.
  void write_at_once(const std::string& line) {
    pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
    const bool fits = ::poll(&ready, 1, static_cast<int>(kPatience.count())) == 1 && (ready.revents & POLLOUT) != 0;
    if (!fits || !write_all(fd, lost_lines() + line)) ++dropped;
  }
};

LineWriter::LineWriter(int fd) : state_(std::make_shared<State>(fd)) {}

Result<void> LineWriter::start() {
  const std::lock_guard lock(state_->mutex);
  if (state_->has_thread) return {};
  state_->own = UniqueFd(::fcntl(state_->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  auto thread = start_thread("log", [state = state_] { state->run(); });
  if (!thread) return propagate(thread.error());
  state_->thread = std::move(*thread);
  state_->has_thread = true;
  return {};
}

void LineWriter::write(std::string line) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->has_thread) return state_->write_at_once(line);
  if (state_->queue.size() >= kMostLines || state_->bytes + line.size() > kMostBytes) {
    ++state_->dropped;
    return;
  }
  line = state_->lost_lines() + line;
  state_->bytes += line.size();
  state_->queue.push_back(std::move(line));
  state_->wake.notify_all();
}

void LineWriter::flush() {
  std::unique_lock lock(state_->mutex);
  state_->idle.wait_for(lock, kPatience, [this] { return state_->queue.empty() && !state_->writing; });
}

std::uint64_t LineWriter::dropped() const { return state_->dropped; }

LineWriter::~LineWriter() {
  flush();
  std::unique_lock lock(state_->mutex);
  if (!state_->has_thread) return;
  state_->ending = true;
  state_->wake.notify_all();
  const bool done = state_->queue.empty() && !state_->writing;
  // A thread that is left behind in write(2) must write nothing else.
  state_->queue.clear();
  std::thread thread = std::move(state_->thread);
  lock.unlock();
  if (done)
    thread.join();
  else
    thread.detach();
}

}  // namespace flight
