// SPDX-License-Identifier: Apache-2.0
// flightd does not disturb other users' perf. Each command runs without flightd, beside a running flightd, and with a
// flightd that starts while perf runs: the exit status, stderr and the mappings in perf's file must be the same.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

// Programs start, map their libraries and end.
constexpr const char* kShortPrograms = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done";

// Removes what differs between runs: counts, sizes, file names.
std::string without_numbers(const std::string& text) {
  return std::regex_replace(text, std::regex("[0-9]+(\\.[0-9]+)?"), "N");
}

// Returns the offset, the inode's field, the protection and the path of each MMAP2 record in perf's file. A build-id or
// a device number in that field does not compare equal to "fe:00 247230 0".
std::set<std::string> mappings_in(const std::string& script) {
  static const std::regex record(
      R"(PERF_RECORD_MMAP2 \d+/\d+: \[0x[0-9a-f]+\(0x[0-9a-f]+\) (@ .*\]: \S+ /usr/(?:bin|lib)/.*(?:true|dash|libc\.so\.6|ld-linux.*))$)");
  std::set<std::string> found;
  for (const std::string& line : lines_of(script)) {
    std::smatch match;
    if (std::regex_search(line, match, record)) found.insert(match[1]);
  }
  return found;
}

// Whether the process or one that it started has mapped the ring of an event.
bool records_already(pid_t pid) {
  const std::string folder = fmt::format("/proc/{}/", pid);
  if (read_text(folder + "maps").find("[perf_event]") != std::string::npos) return true;
  std::istringstream children(read_text(fmt::format("{}task/{}/children", folder, pid)));
  for (pid_t child = 0; children >> child;)
    if (records_already(child)) return true;
  return false;
}

struct Seen {
  int exit_status = -1, script_exit_status = 0;
  std::string err;                 // without numbers
  std::string script_err;          // of the perf that reads the file
  std::set<std::string> mappings;  // in the file
  friend bool operator==(const Seen&, const Seen&) = default;
};

class Beside : public testing::Test {
 protected:
  // `shell` is a command line; $PERF in it is stock perf, $FILE is perf's output file, and $GO waits until perf runs
  // and `then` is done.
  Seen look(
      const std::string& shell, bool reads_file, const std::function<void()>& then = [] {}) {
    std::string file = folder_ / fmt::format("scratch/{}.data", ++files_);
    const std::string go = file + ".go";
    EXPECT_EQ(mkfifo(go.c_str(), 0600), 0);
    ChildOptions options;
    options.env = {"HOME=" + folder_ / "scratch",
                   "LC_ALL=C.UTF-8",
                   "PAGER=cat",
                   "PERF=perf",
                   "FILE=" + file,
                   "GO=read go < " + go,
                   std::string("PROGRAMS=") + kShortPrograms};
    Child perf = Child::start({"sh", "-c", shell}, options);
    UniqueFd start;  // opens when the command waits
    EXPECT_TRUE(wait_until(
        [&] {
          start = UniqueFd(open(go.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
          return static_cast<bool>(start) || !perf.running();
        },
        20s));
    EXPECT_TRUE(wait_until([&] { return !perf.running() || records_already(perf.pid()); }, 20s));
    usleep(enables_late_ ? 700'000 : 100'000);
    then();
    if (start) {
      EXPECT_EQ(write(start.get(), "go\n", 3), 3);
    }
    start.reset();
    Outcome outcome = perf.finish(60s);
    Seen seen{
        .exit_status = outcome.exit_status, .err = without_numbers(outcome.err), .script_err = {}, .mappings = {}};
    EXPECT_FALSE(outcome.timed_out) << outcome.text();
    if (!reads_file) return seen;
    Outcome script = run({"perf", "script", "-i", file, "--show-mmap-events"}, 60s, options);
    seen.script_exit_status = script.exit_status;
    seen.script_err = without_numbers(script.err);
    seen.mappings = mappings_in(script.out);
    return seen;
  }

  // Another program on this machine can disturb perf as well: an attempt counts only if perf gives the same result
  // without flightd before and after.
  void same_beside(const std::string& shell, bool reads_file) {
    constexpr int kAttempts = 8;
    for (int attempt = 1; attempt <= kAttempts; ++attempt) {
      const Seen before = look(shell, reads_file);
      ASSERT_TRUE(daemon_.start(stacks_config(99, "64K")));
      const Seen beside = look(shell, reads_file);
      ASSERT_TRUE(daemon_.stop());
      const Seen first = look(shell, reads_file, [this] { EXPECT_TRUE(daemon_.start(stacks_config(99, "64K"))); });
      ASSERT_TRUE(daemon_.stop());
      if (before != look(shell, reads_file) || before.exit_status != 0) {
        fmt::print("flaky: Beside, attempt {} of {}: perf alone ended with {}, or not twice with the same\n", attempt,
                   kAttempts, before.exit_status);
        continue;
      }
      if (reads_file) {
        ASSERT_FALSE(before.mappings.empty()) << "perf saw no mapping: nothing would be compared";
      }
      expect_same(beside, before, "flightd ran before perf");
      expect_same(first, before, "flightd started while perf ran");
      return;
    }
    FAIL() << "perf does not work here without flightd: another program breaks it";
  }

  static void expect_same(const Seen& beside, const Seen& alone, const char* when) {
    EXPECT_EQ(beside.exit_status, 0) << when;
    EXPECT_EQ(beside.script_exit_status, alone.script_exit_status) << when;
    EXPECT_EQ(beside.err, alone.err) << when;
    EXPECT_EQ(beside.script_err, alone.script_err) << when;
    EXPECT_EQ(beside.mappings, alone.mappings) << when;
  }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  int files_ = 0;
  // -p and top: perf opens its events while the command waits, and enables them a moment later. Those of a command that
  // perf starts are enabled before it waits.
  bool enables_late_ = false;
};

using BesideLong = Beside;

TEST_F(Beside, RecordOfACommand) { same_beside("exec $PERF record -o $FILE -- sh -c \"$GO; $PROGRAMS\"", true); }

TEST_F(BesideLong, RecordOfACommandWithStacks) {
  same_beside("exec $PERF record -g -o $FILE -- sh -c \"$GO; $PROGRAMS\"", true);
}

TEST_F(BesideLong, RecordOfAProcess) {
  enables_late_ = true;
  same_beside(
      "sh -c \"$GO; $PROGRAMS\" & pid=$!\n"
      "$PERF record -o $FILE -p $pid & perf=$!\n"
      "wait $pid; wait $perf",
      true);
}

TEST_F(BesideLong, RecordOfAll) { same_beside("exec $PERF record -a -o $FILE -- sh -c \"$GO; $PROGRAMS\"", true); }

TEST_F(BesideLong, Trace) { same_beside("exec $PERF trace -o $FILE -- sh -c \"$GO; $PROGRAMS\"", false); }

TEST_F(BesideLong, Top) {
  enables_late_ = true;
  same_beside(
      "(eval \"$GO\"; for i in 1 2 3 4 5; do sh -c \"$PROGRAMS\"; sleep 0.2; done; printf q) |\n"
      "$PERF top --stdio -d 1 > $FILE",
      false);
}

}  // namespace
}  // namespace flight
