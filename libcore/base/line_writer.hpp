// SPDX-License-Identifier: Apache-2.0
// Writes log lines to stderr without blocking the caller. If stderr is a pipe without a reader, or a journal that
// hangs, write(2) blocks after about 40 lines, and would block the event loop.
//
//   any thread ── queue of kMostLines, kMostBytes ──▶ thread "log" ── write(2) ──▶ stderr
//
// If the queue is full, lines are dropped and counted, and the count is written when lines can be written again. Before
// start() there is no thread: a line is then written at once, and dropped if stderr accepts none within kPatience.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "libcore/base/result.hpp"

namespace flight {

class LineWriter {
 public:
  static constexpr std::size_t kMostLines = 1024;
  static constexpr std::size_t kMostBytes = 1U << 20U;
  static constexpr std::chrono::milliseconds kPatience{500};  // for a line without a thread, and for the end

  // `fd` stays open and is not changed: others may share it.
  explicit LineWriter(int fd);
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  // Waits for the queued lines, kPatience at most.
  ~LineWriter();

  // Call it after privileges are dropped: otherwise the thread would keep them. A second call does nothing.
  [[nodiscard]] Result<void> start();
  // Any thread, at any time. `line` includes its newline.
  void write(std::string line);
  // Waits until the queue is written, kPatience at most.
  void flush();
  // Number of lines that were dropped since the start; any thread.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this object if a write hangs
};

}  // namespace flight
