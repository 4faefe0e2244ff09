// SPDX-License-Identifier: Apache-2.0
// flightctl and a peer that does not answer: a stopped flightd, and an ssh that waits for ever.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto kMost = 60s;  // far more than flightctl's 15 s, and not for ever

// The ends of a pseudo-terminal (pty(7)).
class Terminal {
 public:
  Terminal() : here_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK)) {
    EXPECT_EQ(grantpt(here_.get()), 0);
    EXPECT_EQ(unlockpt(here_.get()), 0);
    path_ = ptsname(here_.get());
  }
  // For ChildOptions::prepare: it becomes the controlling terminal, stdin and stderr.
  [[nodiscard]] std::function<void()> become() const {
    return [path = path_] {
      setsid();
      const int fd = open(path.c_str(), O_RDWR);  // controls the session that has no terminal yet
      dup2(fd, 0);
      dup2(fd, 2);
    };
  }
  // Everything that was written to it.
  const std::string& text() {
    char chunk[4096];
    for (ssize_t count = 0; (count = read(here_.get(), chunk, sizeof chunk)) > 0;)
      text_.append(chunk, static_cast<std::size_t>(count));
    return text_;
  }

 private:
  UniqueFd here_;
  std::string path_, text_;
};

class SilenceLong : public DaemonTest {
 protected:
  SilenceLong() : DaemonTest(stacks_config(99, "256K")) {}
  // Without any terminal, as a timer starts it.
  static Child alone(const Arguments& arguments, std::vector<std::string> env = {}) {
    return Child::start(arguments, {.env = std::move(env), .prepare = [] { setsid(); }});
  }
};

// All at the same time, as each of them waits for 10 to 15 s.
TEST_F(SilenceLong, AScriptGetsAnErrorAndAPersonIsNotCutOff) {
  const std::string ssh = folder_ / "ssh";
  write_text(ssh, "#!/bin/sh\necho 'Confirm user presence for key' >&2\nexec sleep 1000\n");
  chmod(ssh.c_str(), 0755);
  const Arguments remote{required_env("FLIGHTCTL"), "-H", "root@web3:2222"};
  const auto with = [](Arguments words, const Arguments& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  // It has asked already, and is not cut: nothing happens to report for longer than the limit.
  Child monitor = alone(daemon_.ctl_command({"--json", "monitor"}));
  ASSERT_TRUE(wait_until([&] { return monitor.out().find("monitoring") != std::string::npos; }, 30s)) << monitor.err();
  Child long_one = alone(daemon_.ctl_command({"--json", "snapshot", "--post", "20s"}));
  ASSERT_TRUE(wait_until([&] { return monitor.out().find("snapshot_begun") != std::string::npos; }, 30s))
      << monitor.out() << long_one.err();

  daemon_.process().signal(SIGSTOP);
  Terminal terminal, terminal_there;
  Child person = Child::start(daemon_.ctl_command({"list"}), {.prepare = terminal.become()});
  Child person_there =
      Child::start(with(remote, {"status"}), {.env = {"FLIGHTCTL_SSH=" + ssh}, .prepare = terminal_there.become()});
  Child script = alone(daemon_.ctl_command({"snapshot", "--reason", "never asked for"}));
  Child script_there = alone(with(remote, {"--json", "list"}), {"FLIGHTCTL_SSH=" + ssh});
  Child doctor_there = alone(with(remote, {"doctor"}), {"FLIGHTCTL_SSH=" + ssh});

  const Outcome local = script.finish(kMost);
  EXPECT_EQ(local.exit_status, 1) << local.text();
  EXPECT_THAT(local.err, AllOf(HasSubstr(daemon_.socket()), HasSubstr("has not answered for 15 s"),
                               HasSubstr("systemctl status flightd")));
  const Outcome far = script_there.finish(kMost);
  EXPECT_EQ(far.exit_status, 1) << far.text();
  EXPECT_THAT(far.err, AllOf(HasSubstr("io.flightd.Client.NotConnected"), HasSubstr("root@web3"),
                             HasSubstr("has not answered for 15 s"), HasSubstr("Confirm user presence"),
                             HasSubstr("ssh -p 2222 root@web3 flightctl status")));
  const Outcome findings = doctor_there.finish(kMost);
  EXPECT_EQ(findings.exit_status, 1) << findings.text();
  EXPECT_THAT(findings.err, AllOf(HasSubstr("root@web3"), HasSubstr("has not answered for 15 s")));

  const auto is_warned = [](Terminal& at) { return at.text().find("has not answered for 10 s") != std::string::npos; };
  EXPECT_TRUE(wait_until([&] { return is_warned(terminal); }, kMost)) << terminal.text();
  EXPECT_TRUE(wait_until([&] { return is_warned(terminal_there); }, kMost)) << terminal_there.text();
  EXPECT_THAT(terminal.text(), AllOf(HasSubstr(daemon_.socket()), HasSubstr("still waiting")));
  EXPECT_THAT(terminal_there.text(), AllOf(HasSubstr("root@web3"), HasSubstr("Confirm user presence")));
  EXPECT_TRUE(person.running());
  EXPECT_TRUE(person_there.running());

  daemon_.process().signal(SIGCONT);
  const Outcome listed = person.finish(kMost);
  EXPECT_EQ(listed.exit_status, 0) << listed.text() << terminal.text();
  EXPECT_EQ(count_of(terminal.text(), "still waiting"), 1U) << terminal.text();
  const Outcome taken = long_one.finish(kMost);
  EXPECT_EQ(taken.exit_status, 0) << taken.text();
  EXPECT_TRUE(monitor.running()) << monitor.err();
  // The call that was reported as failed did not take a snapshot later.
  EXPECT_EQ(daemon_.ctl_json({"list"}).size(), 1U);
}

}  // namespace
}  // namespace flight
