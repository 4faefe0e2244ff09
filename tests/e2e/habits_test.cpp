// SPDX-License-Identifier: Apache-2.0
// The first ten minutes of somebody who knows journalctl and perf, but not flightd: twenty commands as they are typed,
// on a terminal of 24 lines of 80 columns. Each answer fits on it, and no manual is needed to go on.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <regex>

#include "libcore/base/columns.hpp"
#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kLines = 24, kColumns = 80;

// What a user sees at the end: without the progress lines, which are removed, and with "\n" after each line.
std::string left_of(const std::string& shown) {
  static const std::regex progress(R"(\r[^\r\n]*\x1b\[K)");
  std::string out = std::regex_replace(shown, progress, "");
  std::erase(out, '\r');
  return out;
}

// Runs `command` by a shell. Its stdin, stdout and stderr are the terminal.
Outcome on_terminal(const std::string& command, ChildOptions options) {
  const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 64> name{};
  EXPECT_TRUE(terminal && ::grantpt(terminal.get()) == 0 && ::unlockpt(terminal.get()) == 0 &&
              ::ptsname_r(terminal.get(), name.data(), name.size()) == 0);
  winsize size{};
  size.ws_row = kLines;
  size.ws_col = kColumns;
  EXPECT_EQ(::ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
  UniqueFd line(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  EXPECT_TRUE(line) << name.data();
  options.prepare = [fd = line.get()] {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(fd, standard);
  };
  Child child = Child::start({"sh", "-c", command}, options);
  line.reset();  // so that reading ends with the command
  std::string shown;
  std::array<char, 4096> piece{};
  pollfd watched{.fd = terminal.get(), .events = POLLIN, .revents = 0};
  constexpr int kLimitMs = 60'000;
  while (::poll(&watched, 1, kLimitMs) == 1) {
    const ssize_t count = ::read(terminal.get(), piece.data(), piece.size());
    if (count <= 0) break;
    shown.append(piece.data(), static_cast<std::size_t>(count));
  }
  Outcome outcome = child.finish(1s);
  outcome.command = command;
  outcome.out = left_of(shown);
  return outcome;
}

// The lines of the terminal that it takes: a longer one goes on in the next.
std::size_t height(const std::string& text) {
  std::size_t out = 0;
  for (const std::string& line : lines_of(text))
    out += std::max<std::size_t>((columns(line) + kColumns - 1) / kColumns, 1);
  return out;
}

// The shipped triggers. While this test runs, none fires by what others do to the machine.
Json newcomers_config() {
  Json config = stacks_config(99, "256K");
  const std::string shipped = read_text(required_env("FLIGHT_SOURCE_ROOT") + "/config/flightd.json");
  config["triggers"] = Json::parse(shipped, nullptr, true, true).at("triggers");
  for (Json& trigger : config["triggers"]) {
    if (trigger.contains("metric"))
      trigger["warmup"] = "1h";
    else
      trigger["enabled"] = false;
  }
  return config;
}

// The command of the README that begins so, without "sudo".
std::string readme_line(const std::string& command) {
  const std::string prompt = "$ sudo ";
  for (const std::string& line : lines_of(read_text(required_env("FLIGHT_SOURCE_ROOT") + "/README.md")))
    if (line.starts_with(prompt + command)) return line.substr(prompt.size());
  ADD_FAILURE() << "the README has no " << command;
  return "false";
}

struct Typed {
  std::string command;
  std::optional<int> exit_status;
  std::string answer;  // a part of it
};

class FirstTenMinutes : public DaemonTest {
 protected:
  FirstTenMinutes() : DaemonTest(newcomers_config()) {
    std::filesystem::create_directory(folder_ / "path");
    std::filesystem::create_symlink(required_env("FLIGHTCTL"), folder_ / "path/flightctl");
  }
  [[nodiscard]] Outcome type(const std::string& command) const {
    const char* path = std::getenv("PATH");
    ChildOptions options;
    options.env = {fmt::format("PATH={}:{}", folder_ / "path", path != nullptr ? path : "/usr/bin:/bin"),
                   "FLIGHTD_SOCKET=" + daemon_.socket(), "TERM=xterm", "LC_ALL=C.UTF-8", "COLUMNS="};
    options.folder = folder_ / "scratch";
    return on_terminal(command, options);
  }
  void expect_answers(const std::vector<Typed>& commands) const {
    for (const Typed& typed : commands) {
      const Outcome outcome = type(typed.command);
      SCOPED_TRACE(fmt::format("$ {}\n{}", typed.command, outcome.out));
      EXPECT_FALSE(outcome.timed_out);
      if (typed.exit_status) {
        EXPECT_EQ(outcome.exit_status, *typed.exit_status);
      }
      EXPECT_THAT(outcome.out, HasSubstr(typed.answer));
      EXPECT_LT(height(outcome.out), kLines);
      EXPECT_THAT(outcome.out,
                  Not(testing::ContainsRegex("\x1b|flightctl\\(1\\)|flightd\\.json\\(5\\)|see the manual")));
    }
  }
};

TEST_F(FirstTenMinutes, TheFirstTenCommandsAreAnsweredOnOneScreenEach) {
  const std::vector<Typed> commands{
      {"flightctl", 0, "There are no snapshots yet; `flightctl snapshot` takes one."},
      {"flightctl --help", 0, "\n  snapshot, record       write the recent past to a file"},
      {"flightctl doctor", std::nullopt, " fail\n"},
      {"flightctl status", 0, ": recording "},
      {"flightctl snapshot --last 10s --reason 'checkout is slow'", 0, "id:       1\n"},
      {"flightctl list", 0, "checkout is slow"},
      {"flightctl info", 0, "snapshot 1: manual on "},
      {"flightctl show 1", 0, "\n  checkout is slow\n"},
      {readme_line("flightctl report "), 0, "Samples: "},
      {"flightctl get 1", 0, "-manual-1.perf.data"}};
  ASSERT_EQ(commands.size(), 10U);
  expect_answers(commands);
  EXPECT_TRUE(daemon_.stop());
}

// Emacs' shells, serial consoles, cron with a terminal. perf does not look at $TERM before it opens its page.
TEST_F(FirstTenMinutes, AReportIsPlainWhereTheTerminalOrTheUserWantsIt) {
  ASSERT_EQ(daemon_.snapshot()["id"], "1");
  for (const char* how :
       {"TERM=dumb flightctl report latest", "TERM= flightctl report latest",
        "TERM=dumb flightctl report latest --stdio", "NO_COLOR=1 PERF_PAGER=cat flightctl report latest --stdio"}) {
    const Outcome outcome = type(fmt::format("{} --no-children --no-demangle -g none --sort comm,dso", how));
    SCOPED_TRACE(fmt::format("$ {}\n{}", how, outcome.out));
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_EQ(outcome.exit_status, 0);
    EXPECT_THAT(outcome.out, testing::AllOf(HasSubstr("Samples: "), Not(HasSubstr("\x1b"))));
  }
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(FirstTenMinutes, TheNextTenAreToo) {
  ASSERT_EQ(daemon_.snapshot({"--reason", "checkout is slow"})["id"], "1");
  const std::vector<Typed> commands{
      {"flightctl record --past 2s --for 1s", 0, "\nended:   asked\n"},
      {"flightctl snapsht", 2, "there is no command 'snapsht': did you mean 'snapshot'?"},
      {"flightctl list --sinc yesterday", 2, "there is no option '--sinc': did you mean '--since'?"},
      {"flightctl list --since '1 hour ago'", 0, "checkout is slow"},
      {"flightctl info 99", 1, "there is no snapshot 99; `flightctl list` shows all"},
      {"flightctl triggers", 0, "\npsi-memory "},
      {"flightctl triggers test cpu-spike", 0, "cpu-spike: snapshot "},
      {"flightctl config", 0, "`flightctl config --all` shows each value"},
      {"flightctl config store.max_use", 0, "store.max_use = 4G  ("},
      {"flightctl snapshot --help", 0, "\n  --last DURATION"}};
  ASSERT_EQ(commands.size(), 10U);
  expect_answers(commands);
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
