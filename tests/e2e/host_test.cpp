// SPDX-License-Identifier: Apache-2.0
// flightctl -H through the real ssh and a real sshd on this machine.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

// A real sshd on this machine, with its own keys, folders and port.
class SshLong : public DaemonTest {
 protected:
  SshLong() : DaemonTest(stacks_config(99, "256K")) {}
  void SetUp() override {
    DaemonTest::SetUp();
    ASSERT_FALSE(HasFatalFailure());
    const std::string program = sshd_program();
    ASSERT_TRUE(fs::exists(program)) << "there is no sshd; scripts/install-deps unpacks one";
    fs::create_directories("/run/sshd");
    fs::create_directory(folder_ / "ssh");
    chmod((folder_ / "ssh").c_str(), 0700);
    for (const char* key : {"ssh/host", "ssh/user"})
      ASSERT_EQ(run({"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder_ / key}).exit_status, 0);
    fs::copy_file(folder_ / "ssh/user.pub", folder_ / "ssh/authorized");
    fs::create_directory(folder_ / "bin-there");
    fs::create_symlink(required_env("FLIGHTCTL"), folder_ / "bin-there/flightctl");
    for (int attempt = 0; attempt < 20 && !sshd_; ++attempt) {
      port_ = 20'000 + (getpid() * 7 + attempt * 131) % 20'000;
      write_text(folder_ / "ssh/config",
                 fmt::format("Port {0}\nListenAddress 127.0.0.1\nHostKey {1}/host\nAuthorizedKeysFile {1}/authorized\n"
                             "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
                             "PermitRootLogin yes\nPidFile none\nSetEnv PATH={2}:/usr/bin:/bin\n{3}",
                             port_, folder_ / "ssh", folder_ / "bin-there", helpers(program)));
      sshd_.emplace(Child::start({program, "-D", "-e", "-f", folder_ / "ssh/config"}));
      if (!wait_until([&] { return sshd_->err().find("Server listening") != std::string::npos; }, 5s)) {
        log_ += sshd_->err();
        sshd_.reset();
      }
    }
    ASSERT_TRUE(sshd_) << log_;
    write_text(folder_ / "ssh/ssh",
               fmt::format("#!/bin/sh\nexec ssh -F none -i {0}/user -o IdentitiesOnly=yes -o StrictHostKeyChecking=no "
                           "-o UserKnownHostsFile={0}/known -o BatchMode=yes \"$@\"\n",
                           folder_ / "ssh"));
    chmod((folder_ / "ssh/ssh").c_str(), 0755);
  }
  Outcome there(const Arguments& arguments, const std::string& socket = "") {
    Arguments command{required_env("FLIGHTCTL"), "-H", fmt::format("root@127.0.0.1:{}", port_), "--socket",
                      socket.empty() ? daemon_.socket() : socket};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return run(command, 120s, {.env = {"FLIGHTCTL_SSH=" + (folder_ / "ssh/ssh")}});
  }
  // sshd may be installed or only unpacked. The test needs no installed ssh server.
  static std::string sshd_program() {
    const char* cache = std::getenv("FLIGHT_TESTBED_CACHE");
    const std::string unpacked =
        std::string(cache != nullptr ? cache : "/var/cache/flightd-testbed") + "/openssh/usr/sbin/sshd";
    return fs::exists("/usr/sbin/sshd") ? "/usr/sbin/sshd" : unpacked;
  }
  // Since OpenSSH 9.8 sshd starts other programs, which it expects in the installed package's directory.
  static std::string helpers(const std::string& program) {
    const fs::path folder = fs::path(program).parent_path() / "../lib/openssh";
    std::string out;
    for (const auto& [option, name] : {std::pair("SshdSessionPath", "sshd-session"), {"SshdAuthPath", "sshd-auth"}})
      if (fs::exists(folder / name)) out += fmt::format("{} {}\n", option, (folder / name).lexically_normal().string());
    return out;
  }
  int port_ = 0;
  std::optional<Child> sshd_;
  std::string log_;
};

TEST_F(SshLong, AnotherMachineIsAsNearAsThisOne) {
  const Outcome taken = there({"--json", "snapshot", "--reason", "over 'there'; $(x)"});
  ASSERT_EQ(taken.exit_status, 0) << taken.text() << sshd_->err();
  const Json sidecar = Json::parse(taken.out);
  EXPECT_EQ(sidecar["reason"], "over 'there'; $(x)");
  EXPECT_EQ(sidecar, daemon_.ctl_json({"info", "latest"}));
  EXPECT_EQ(there({"list"}).out, daemon_.ctl({"list"}).out);
  EXPECT_TRUE(there({"get", "latest", "-o", "-"}).out == read_text(sidecar["path"]));
  const std::string tar = folder_ / "scratch/there.tar";
  const Outcome bundle = there({"get", "latest", "--with-symbols", "-o", tar});
  EXPECT_EQ(bundle.exit_status, 0) << bundle.text();
  EXPECT_THAT(run({"tar", "-tf", tar}).out, HasSubstr("/kallsyms\n"));
  const Outcome report = there({"report", "latest", "--stdio"});
  EXPECT_EQ(report.exit_status, 0) << report.text();
  EXPECT_THAT(report.out, HasSubstr("Total Lost Samples"));
  const Outcome doctor = there({"--json", "doctor"});
  EXPECT_EQ(doctor.exit_status, 0) << doctor.text();
  EXPECT_THAT(doctor.out, HasSubstr("\"found\": \"" + daemon_.socket() + "\""));
  // A remote monitor reports the snapshots that other clients request. When the local flightctl is killed, the remote
  // one ends too.
  Child monitor = Child::start({required_env("FLIGHTCTL"), "-H", fmt::format("root@127.0.0.1:{}", port_), "--socket",
                                daemon_.socket(), "--json", "monitor"},
                               {.env = {"FLIGHTCTL_SSH=" + (folder_ / "ssh/ssh")}});
  ASSERT_TRUE(wait_until([&] { return monitor.out().find("monitoring") != std::string::npos; }, 30s)) << monitor.err();
  const Json second = daemon_.snapshot();
  EXPECT_TRUE(
      wait_until([&] { return monitor.out().find(second["path"].get<std::string>()) != std::string::npos; }, 30s));
  const auto bridges = [this] {
    return run({"pgrep", "-fc", "flightctl --socket " + daemon_.socket() + " bridge"}).out;
  };
  EXPECT_NE(bridges(), "0\n");
  monitor.kill();
  EXPECT_TRUE(wait_until([&] { return bridges() == "0\n"; }, 30s)) << bridges();
  EXPECT_TRUE(daemon_.stop());
  const Outcome gone = there({"list"});
  EXPECT_EQ(gone.exit_status, 1);
  EXPECT_THAT(gone.err, AllOf(HasSubstr("127.0.0.1: "), HasSubstr(daemon_.socket())));
  const Outcome nobody = run({required_env("FLIGHTCTL"), "-H", "root@127.0.0.1:1", "list"}, 60s,
                             {.env = {"FLIGHTCTL_SSH=" + (folder_ / "ssh/ssh")}});
  EXPECT_EQ(nobody.exit_status, 1);
  EXPECT_THAT(nobody.err, AllOf(HasSubstr("root@127.0.0.1"), HasSubstr("refused")));
  fs::remove(folder_ / "bin-there/flightctl");
  EXPECT_THAT(there({"list"}).err, HasSubstr("no flightctl in the $PATH of ssh on root@127.0.0.1"));
}

// Its parts are copied through ssh when they are whole. If the connection is lost, flightd ends it in order.
TEST_F(SshLong, ARecordingThereIsCopiedHere) {
  const std::string copy = folder_ / "scratch/recorded";
  const Outcome outcome = there({"--json", "record", "--for", "1s", "-o", copy});
  ASSERT_EQ(outcome.exit_status, 0) << outcome.text() << sshd_->err();
  const Json result = Json::parse(outcome.out);
  EXPECT_EQ(result["ended"], "asked");
  ASSERT_EQ(result["paths"].size(), 1U);
  const std::string stored = read_text(result["paths"][0]);
  EXPECT_FALSE(stored.empty());
  EXPECT_TRUE(read_text(copy) == stored);
  // Either side of ssh ends.
  const auto is_running = [&] { return daemon_.status().dump().find(" is running: ") != std::string::npos; };
  for (const bool of_ssh : {false, true}) {
    Child recorder = Child::start({required_env("FLIGHTCTL"), "-H", fmt::format("root@127.0.0.1:{}", port_), "--socket",
                                   daemon_.socket(), "record"},
                                  {.env = {"FLIGHTCTL_SSH=" + (folder_ / "ssh/ssh")}});
    ASSERT_TRUE(wait_until(is_running, 30s)) << recorder.err();
    if (of_ssh) {
      const std::vector<pid_t> ssh = living_children_of(recorder.pid());
      ASSERT_EQ(ssh.size(), 1U);
      ASSERT_EQ(::kill(ssh[0], SIGKILL), 0);
      const Outcome cut = recorder.finish(30s);
      EXPECT_EQ(cut.exit_status, 1) << cut.text();
      EXPECT_THAT(cut.err, HasSubstr("127.0.0.1"));
    } else {
      recorder.kill();
    }
    const auto has_ended = [&] {
      const Json rows = daemon_.ctl_json({"list"});
      return rows.size() == (of_ssh ? 3U : 2U) && rows.back()["record"]["ended"] == "asked";
    };
    EXPECT_TRUE(wait_until(has_ended, 30s)) << daemon_.log();
  }
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
