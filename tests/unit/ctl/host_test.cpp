// SPDX-License-Identifier: Apache-2.0
// The machine that --host names, the arguments of ssh, and the message if ssh fails.
#include "ctl/host.hpp"

#include <gmock/gmock.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace flight::ctl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Host, IsWhatSystemctlUnderstands) {
  const std::vector<std::array<std::string, 3>> good{
      {"web3", "web3", ""},
      {"root@web3", "root@web3", ""},
      {"web3:2222", "web3", "2222"},
      {"ops.team@web-3.example.com:22", "ops.team@web-3.example.com", "22"},
      {"10.0.0.7", "10.0.0.7", ""},
      {"fe80::1%eth0", "fe80::1%eth0", ""},
      {"root@2001:db8::7", "root@2001:db8::7", ""},
      {"[2001:db8::7]", "2001:db8::7", ""},
      {"root@[2001:db8::7]:65535", "root@2001:db8::7", "65535"},
      {"me@corp.example@jump", "me@corp.example@jump", ""},
  };
  for (const auto& [text, destination, port] : good) {
    const auto host = parse_host(text);
    ASSERT_TRUE(host) << text;
    EXPECT_EQ(host->destination, destination);
    EXPECT_EQ(host->port, port);
  }
}

TEST(Host, NothingElseReachesSsh) {
  for (const std::string text : {"",
                                 "-oProxyCommand=touch${IFS}x",
                                 "--",
                                 "-",
                                 "root@-oProxyCommand=x",
                                 "-x@web3",
                                 "@web3",
                                 "root@",
                                 "web3:",
                                 "web3:0",
                                 "web3:65536",
                                 "web3:22x",
                                 "web3:-1",
                                 "web3:022",
                                 "a b",
                                 "web3;reboot",
                                 "web3|x",
                                 "$(reboot)",
                                 "`x`",
                                 "web3\n",
                                 "we'b",
                                 "we\"b",
                                 "web3&",
                                 "web3>x",
                                 "web3/machine",
                                 "ssh://web3",
                                 "[web3]:22",
                                 "[::1",
                                 "[::1]22",
                                 "[::1]:",
                                 "[-x::]",
                                 "\\x",
                                 "web\x01",
                                 "wéb",
                                 "a,b",
                                 "*",
                                 "~",
                                 "#"}) {
    const auto host = parse_host(text);
    ASSERT_FALSE(host) << text;
    EXPECT_THAT(host.error().what, HasSubstr("[USER@]HOST[:PORT]"));
  }
  EXPECT_FALSE(parse_host(std::string(256, 'a')));
}

TEST(Host, SshIsStartedWithoutAShellHereAndWithOneWordThere) {
  ::unsetenv("FLIGHTCTL_SSH");
  const auto words = [](const Host& host, const std::string& socket) {
    std::vector<std::string> out = ssh_words(host, socket, "bridge");
    for (std::size_t i = 0; i + 1 < out.size();)  // the options against lines of ssh_config
      if (out[i] == "-o")
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(i), out.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      else
        ++i;
    return out;
  };
  EXPECT_THAT(words({"root@web3", ""}, ""), ElementsAre("ssh", "-xT", "--", "root@web3", "flightctl bridge"));
  EXPECT_THAT(words({"web3", "2222"}, "/run/a b'c;$(x)"),
              ElementsAre("ssh", "-xT", "-p", "2222", "--", "web3", "flightctl --socket '/run/a b'\\''c;$(x)' bridge"));
  EXPECT_THAT(ssh_words({"web3", ""}, "", "bridge"), testing::Contains("RemoteCommand=none"));
  ::setenv("FLIGHTCTL_SSH", "/opt/my ssh", 1);
  EXPECT_EQ(ssh_words({"web3", ""}, "", "bridge")[0], "/opt/my ssh");
  ::unsetenv("FLIGHTCTL_SSH");
}

// Lines for another system's ssh, and for interactive sessions. `ssh -G` prints what is in force.
TEST(Host, AUsersConfigurationOfSshDoesNotMatter) {
  ::unsetenv("FLIGHTCTL_SSH");
  const std::string file = "/tmp/flightctl-ssh-config-" + std::to_string(::getpid());
  std::ofstream(file) << "IgnoreUnknown UseKeychain\nUseKeychain yes\nRemoteCommand tmux attach\nRequestTTY force\n"
                         "PermitLocalCommand yes\nLocalCommand echo hello\nStdinNull yes\nSessionType none\n"
                         "ForkAfterAuthentication yes\nLocalForward 8080 localhost:80\nExitOnForwardFailure yes\n"
                         "LogLevel QUIET\n";
  std::string command = "ssh -G -F " + file;
  const auto words = ssh_words({"web3", ""}, "", "bridge");
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "-o") command += " -o '" + words[i + 1] + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " web3 2>&1").c_str(), "r"), &::pclose);
  ASSERT_TRUE(pipe);
  std::string text;
  for (int character = std::getc(pipe.get()); character != EOF; character = std::getc(pipe.get()))
    text += static_cast<char>(character);
  std::filesystem::remove(file);
  EXPECT_THAT(text, HasSubstr("hostname web3")) << "ssh accepts it";
  EXPECT_THAT(text, HasSubstr("clearallforwardings yes"));
  EXPECT_THAT(text, HasSubstr("permitlocalcommand no"));
  EXPECT_THAT(text, Not(HasSubstr("tmux")));
  EXPECT_THAT(text, Not(HasSubstr("stdinnull yes")));
  EXPECT_THAT(text, HasSubstr("loglevel INFO")) << "ssh says why it cannot connect";
}

TEST(Host, AFailureNamesItsSource) {
  const Host host{"web3", ""};
  EXPECT_THAT(
      ssh_failure(host, 255, "Warning: x\nssh: Could not resolve hostname web3\r\n"),
      AllOf(HasSubstr("cannot connect to web3"), EndsWith(": Warning: x; ssh: Could not resolve hostname web3")));
  EXPECT_THAT(ssh_failure(host, 127, "bash: line 1: flightctl: command not found\n"),
              AllOf(HasSubstr("no flightctl in the $PATH of ssh on web3"), HasSubstr("install flightd there")));
  EXPECT_THAT(ssh_failure(host, 1, "banner\nflightctl: no flightd answers on /run/x: No such file\n"),
              AllOf(StartsWith("web3: "), EndsWith(" no flightd answers on /run/x: No such file"),
                    Not(HasSubstr("banner")), Not(HasSubstr("flightctl"))));
  EXPECT_THAT(ssh_failure(host, 2, "flightctl: The following argument was not expected: bridge; see flightctl --help"),
              HasSubstr("older"));
  EXPECT_THAT(ssh_failure(host, 143, ""), HasSubstr("signal 15"));
  for (const char* words : {"Error: unknown command \"bridge\" for \"flightctl\"\nRun 'flightctl --help' for usage.\n",
                            "Error: unknown flag: --socket\n"})
    EXPECT_THAT(ssh_failure(host, 1, words), HasSubstr("Flight Control")) << words;
  EXPECT_THAT(ssh_failure(host, 3, ""), HasSubstr("ended with 3 on web3"));
  // A hostile machine's output can neither control nor fill the terminal.
  const std::string long_words = ssh_failure(host, 255, std::string(100'000, 'x') + "\x1b[2J");
  EXPECT_LT(long_words.size(), 500U);
  EXPECT_EQ(long_words.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace flight::ctl
