// SPDX-License-Identifier: Apache-2.0
// An unread log blocks no caller, and lost lines are counted.
#include "libcore/base/line_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <sstream>
#include <string>
#include <thread>

#include "libcore/base/unique_fd.hpp"

namespace flight {
namespace {

using namespace std::chrono_literals;
using testing::StartsWith;

struct Pipe {
  Pipe() {
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));  // as the programs do
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    out = UniqueFd(ends[0]);
    in = UniqueFd(ends[1]);
    ::fcntl(in.get(), F_SETPIPE_SZ, 4096);
  }
  // Reads until nothing has come for a while.
  [[nodiscard]] std::string read() const {
    std::string text;
    pollfd ready{.fd = out.get(), .events = POLLIN, .revents = 0};
    std::array<char, 65536> chunk{};
    while (::poll(&ready, 1, 1500) == 1) {
      const ssize_t count = ::read(out.get(), chunk.data(), chunk.size());
      if (count <= 0) break;
      text.append(chunk.data(), static_cast<std::size_t>(count));
    }
    return text;
  }
  UniqueFd out, in;
};

// The lines that begin so. (The writer's own report about a single lost line has "line " in it, too.)
std::size_t lines_in(const std::string& text, std::string_view word) {
  std::size_t found = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(word)) ++found;
  return found;
}

TEST(LineWriter, LinesComeInTheirOrder) {
  const Pipe pipe;
  LineWriter writer(pipe.in.get());
  writer.write("before\n");
  ASSERT_TRUE(writer.start());
  for (int i = 0; i < 3; ++i) writer.write(fmt::format("{}\n", i));
  writer.flush();
  EXPECT_EQ(pipe.read(), "before\n0\n1\n2\n");
  EXPECT_EQ(writer.dropped(), 0U);
}

// The flag belongs to the open file: another program has set it.
TEST(LineWriter, APipeThatDoesNotBlockLosesNothing) {
  const Pipe pipe;
  ASSERT_EQ(::fcntl(pipe.in.get(), F_SETFL, O_NONBLOCK), 0);
  LineWriter writer(pipe.in.get());
  ASSERT_TRUE(writer.start());
  constexpr std::size_t kLines = 200;
  for (std::size_t i = 0; i < kLines; ++i) writer.write(fmt::format("line {} {}\n", i, std::string(90, '.')));
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(lines_in(pipe.read(), "line "), kLines);
  EXPECT_EQ(writer.dropped(), 0U);
}

// Without the queue the first write behind the pipe's 4 KiB would wait for ever.
TEST(LineWriter, AnUnreadPipeBlocksNoWriterAndIsCounted) {
  const Pipe pipe;
  LineWriter writer(pipe.in.get());
  ASSERT_TRUE(writer.start());
  constexpr std::size_t kLines = 3000;
  for (std::size_t i = 0; i < kLines; ++i) writer.write(fmt::format("line {} {}\n", i, std::string(90, '.')));
  const std::uint64_t dropped = writer.dropped();
  EXPECT_GT(dropped, kLines / 2);
  const std::string text = pipe.read();
  EXPECT_EQ(lines_in(text, "line "), kLines - dropped);
  EXPECT_THAT(text, StartsWith("line 0 "));
  // One report for each gap. A thread that starts late makes two gaps.
  std::uint64_t reported = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.find(" dropped: ") != std::string::npos) reported += std::stoull(line);
  EXPECT_EQ(reported, dropped);
}

TEST(LineWriter, LongLinesAreBoundedByTheirBytes) {
  const Pipe pipe;
  LineWriter writer(pipe.in.get());
  ASSERT_TRUE(writer.start());
  for (int i = 0; i < 40; ++i) writer.write(std::string(64U << 10U, 'x') + "\n");
  EXPECT_GT(writer.dropped(), 20U);
}

TEST(LineWriter, WithoutAThreadAFullPipeCostsItsPatienceOnly) {
  const Pipe pipe;
  ASSERT_EQ(::write(pipe.in.get(), std::string(4096, 'x').data(), 4096), 4096);
  LineWriter writer(pipe.in.get());
  writer.write("one\n");
  EXPECT_EQ(writer.dropped(), 1U);
  EXPECT_EQ(pipe.read().size(), 4096U);
  writer.write("two\n");
  EXPECT_THAT(pipe.read(), testing::MatchesRegex("1 log line [^\n]*dropped: stderr [^\n]*not read[^\n]*\ntwo\n"));
}

}  // namespace
}  // namespace flight
