// SPDX-License-Identifier: Apache-2.0
// Runs other programs: each with a time limit, its stdout and stderr in memfds, and ended by its own pid, never by a
// name. A Child that goes out of scope is killed and reaped, so that no test leaves a process behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/unique_fd.hpp"

namespace flight {

using std::chrono_literals::operator""s;
using std::chrono_literals::operator""ms;
using Milliseconds = std::chrono::milliseconds;
using Arguments = std::vector<std::string>;

// The result of a program. 128 + N: ended by signal N.
struct Outcome {
  int exit_status = -1;
  std::string out, err;
  bool timed_out = false;
  // For messages: the command line, the exit status, and both outputs.
  [[nodiscard]] std::string text() const;
  std::string command;
};

struct ChildOptions {
  bool keep_stdin = false;       // a pipe that `go()` closes; else /dev/null
  int nice = 0;                  // absolute
  std::vector<std::string> env;  // "NAME=value", over the test's own
  std::string folder;            // where it runs; empty: where the test does
  // Runs in the child before exec. With it the child begins as a copy of the test, which takes as long as its exec.
  std::function<void()> prepare;
};

// Exit status of tests/testbed/with-systemd if its Debian could not be downloaded.
inline constexpr int kNoDownload = 123;

class Child {
 public:
  // Starts `arguments[0]` (found in $PATH). If a program cannot be started, it ends with 127 and a message on stderr.
  [[nodiscard]] static Child start(const Arguments& arguments, const ChildOptions& options = {});

  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) = delete;
  ~Child();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::string out() const;
  [[nodiscard]] std::string err() const;
  // Waits until stdout contains a line that begins with `prefix`; returns the rest of that line.
  [[nodiscard]] std::optional<std::string> wait_for_line(std::string_view prefix, Milliseconds limit = 20s) const;
  // Waits until its threads have used `time` more of the CPUs, however long that takes beside other programs.
  [[nodiscard]] bool runs_for(Milliseconds time, Milliseconds limit = 60s) const;
  // Closes its stdin.
  void go() { stdin_.reset(); }
  void signal(int number) const;
  // Reaps it; nullopt: it still runs after `limit`.
  [[nodiscard]] std::optional<int> wait(Milliseconds limit);
  [[nodiscard]] bool running();
  void kill();
  // Waits, kills it when the limit is over, and returns the result.
  [[nodiscard]] Outcome finish(Milliseconds limit);

 private:
  Child() = default;
  std::string command_;
  pid_t pid_ = -1;
  UniqueFd pidfd_, out_, err_, stdin_;
  std::optional<int> status_;
};

[[nodiscard]] Outcome run(const Arguments& arguments, Milliseconds limit = 60s, const ChildOptions& options = {});

// The time that a test's action takes, where a limit is promised: the fastest of three, or the first one below `limit`.
// The work of others can make one late; what waits for a disk that hangs makes all late.
[[nodiscard]] Milliseconds fastest_of_three(Milliseconds limit, const std::function<Milliseconds()>& timed_action);
class Stopwatch {
 public:
  [[nodiscard]] Milliseconds gone_by() const {
    return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - begun_);
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

// Polls until `condition` holds, less often the longer it takes; false if it never did.
[[nodiscard]] bool wait_until(const std::function<bool()>& condition, Milliseconds limit);

[[nodiscard]] bool process_exists(pid_t pid);
[[nodiscard]] std::vector<pid_t> children_of(pid_t pid);
// Those that have not ended: flightd reaps a process that has read its configuration at the next reload.
[[nodiscard]] std::vector<pid_t> living_children_of(pid_t pid);
// As Child::runs_for(), for any process.
[[nodiscard]] bool runs_for(pid_t pid, Milliseconds time, Milliseconds limit = 60s);
// Empty if it cannot be read: the process of a file in /proc may have exited.
[[nodiscard]] std::string read_text(const std::string& path);
void write_text(const std::string& path, std::string_view text);
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);
[[nodiscard]] std::size_t count_lines(std::string_view text);
[[nodiscard]] std::size_t count_of(std::string_view text, std::string_view word);
// CLOCK_MONOTONIC.
[[nodiscard]] std::uint64_t now_ns();

}  // namespace flight
