// SPDX-License-Identifier: Apache-2.0
// flightctl -H: the real client and the real bridge behind a fake ssh, which runs the command on this machine as a
// login shell would run it on the host.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <span>

#include "libcore/compress/zstd.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::AllOf;
using testing::HasSubstr;

class HostTest : public FlightctlTest {
 protected:
  HostTest() {
    std::filesystem::create_directory(bin_);
    std::filesystem::create_symlink(test::flightctl(), bin_ + "/flightctl");
    // Like sshd, it passes one line to the user's shell.
    write_ssh(
        "shift_to_command() { while [ \"$1\" != -- ]; do shift; done; shift 2; exec sh -c \"$*\"; }\n"
        "shift_to_command \"$@\"\n");
  }
  void write_ssh(const std::string& body) {
    std::ofstream(ssh_) << "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" > " + bench.folder() + "/words\n" + body;
    ::chmod(ssh_.c_str(), 0755);
  }
  // flightctl on the host, with the host's socket.
  Outcome there(std::vector<std::string> words, const std::string& host = "root@web3:2222") {
    words.insert(words.begin(), {"-H", host, "--socket", bench.socket()});
    return bare(std::move(words), environment());
  }
  [[nodiscard]] std::vector<std::string> environment() const {
    return {"FLIGHTCTL_SSH=" + ssh_, "PATH=" + bin_ + ":/usr/bin:/bin"};
  }
  [[nodiscard]] std::string ssh_words() const { return text_of(bench.folder() + "/words"); }

  std::string bin_ = bench.folder() + "/bin", ssh_ = bench.folder() + "/ssh";
};

TEST_F(HostTest, EveryKindOfAnswerComesThrough) {
  run();
  const Outcome taken = there({"snapshot", "--reason", "it's slow"});
  EXPECT_EQ(taken.code, 0) << taken.err;
  EXPECT_THAT(taken.out, HasSubstr("id:       1"));
  EXPECT_THAT(taken.out, HasSubstr("\nnext:     flightctl -H root@web3:2222 stacks 1\n"));
  EXPECT_THAT(ssh_words(),
              testing::EndsWith("\n-p\n2222\n--\nroot@web3\nflightctl --socket '" + bench.socket() + "' bridge\n"));
  EXPECT_EQ(there({"--json", "info", "1"}).out, ctl({"--json", "info", "1"}).out);
  EXPECT_EQ(there({"status"}).code, 0);
  // 4 MB in one direction, twice.
  EXPECT_TRUE(there({"get", "1", "-o", "-"}).out == bytes_of_data());
  EXPECT_EQ(there({"get", "1", "-o", bench.folder() + "/copy"}).code, 0);
  EXPECT_TRUE(text_of(bench.folder() + "/copy") == bytes_of_data());
  const Outcome no = there({"--json", "info", "99"});
  EXPECT_EQ(no.code, 1);
  EXPECT_EQ(error_of(no), "io.flightd.Recorder.NoSuchSnapshot");
}

// As on the host itself, though the data has to come from there first.
TEST_F(HostTest, ViewsOfASnapshotComeThrough) {
  std::filesystem::remove(data_);
  {
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_TRUE(file);
    RecordBuffer records;
    append_comm(records, {.pid = 10, .tid = 10, .name = "server"}, {});
    append_mmap2(records, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/no/where/a"}, {});
    for (const EventTime time_ns : {3'000'000'000U, 3'000'000'001U})
      append_sample(records, {.time_ns = time_ns, .ip = 0x400010});
    append_to_another(records, {.time_ns = 3'000'000'000, .cpu = 0, .prev = 0, .state = kStateR, .next = 10});
    append_to_another(records, {.time_ns = 5'000'000'000, .cpu = 0, .prev = 10, .state = kStateD, .next = 0});
    write_sched_file(file->get(), records);
  }
  // Otherwise it waits for them.
  const std::string symbols = "ffffffff81000000 T _text\n";
  const auto frame = compress_all(std::as_bytes(std::span(symbols.data(), symbols.size())), 1);
  ASSERT_TRUE(frame) << frame.error().what;
  bench.backend.kallsyms_to_read = bench.folder() + "/kallsyms.zst";
  std::ofstream(bench.backend.kallsyms_to_read, std::ios::binary)
      .write(reinterpret_cast<const char*>(frame->data()), static_cast<std::streamsize>(frame->size()));
  run();
  for (int i = 0; i < 2; ++i) ASSERT_EQ(there({"snapshot"}).code, 0);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"--json", "stacks", "1"},
                                             {"--json", "sched", "1"},
                                             {"--json", "diff", "1", "2"},
                                             {"export", "1", "--format", "folded", "-o", "-"},
                                             {"export", "1", "--format", "pprof", "-o", "-"},
                                             {"export", "1", "--format", "firefox", "-o", "-"},
                                             {"html", "2", "--against", "1", "-o", "-"}}) {
    const Outcome far = there(words), near = ctl(words);
    EXPECT_EQ(far.code, 0) << testing::PrintToString(words) << far.err;
    EXPECT_NE(far.out, "") << testing::PrintToString(words);
    EXPECT_TRUE(far.out == near.out) << testing::PrintToString(words);
  }
}

TEST_F(HostTest, ThisMachinesSocketIsNotTheOthers) {
  run();
  auto variables = environment();
  variables.push_back("FLIGHTD_SOCKET=/nowhere");
  const Outcome outcome = bare({"--host=web3", "status"}, variables);
  EXPECT_THAT(ssh_words(), testing::EndsWith("\nflightctl bridge\n"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("web3: cannot connect to flightd at /nowhere"))
      << "that is the other side's environment";
  // A path that a shell would split.
  const std::string odd = bench.folder() + "/a b'c;touch PWNED";
  const Outcome quoted = bare({"-H", "web3", "--socket", odd, "status"}, environment());
  EXPECT_THAT(quoted.err, HasSubstr(odd));
  EXPECT_FALSE(std::filesystem::exists("PWNED"));
}

TEST_F(HostTest, AHostThatIsNoneIsWrongUsage) {
  run();
  for (const char* host : {"-oProxyCommand=touch PWNED", "web3;touch PWNED", "", "web3:x", "a b", "root@-x"}) {
    SCOPED_TRACE(host);
    const Outcome outcome = bare({std::string("--host=") + host, "status"}, environment());
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(bench.folder() + "/words")) << "ssh was started";
  }
  EXPECT_EQ(bare({"-H", "-x", "status"}, environment()).code, 2);
  EXPECT_EQ(bare({"-H", "web3", "bridge"}, environment()).code, 2);
}

TEST_F(HostTest, TheOutputOfSshIsShown) {
  run();
  write_ssh("echo 'ssh: connect to host web3 port 22: Connection refused' >&2; exit 255\n");
  const Outcome refused = there({"list"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(
      refused.err,
      testing::MatchesRegex(
          "flightctl: [^\n]*cannot connect to root@web3: ssh: connect to host web3 port 22: Connection refused\n"));
  const Outcome json = there({"--json", "list"});
  EXPECT_EQ(error_of(json), "io.flightd.Client.NotConnected");
  write_ssh("exec sh -c 'no-such-flightctl bridge'\n");
  EXPECT_THAT(there({"list"}).err, HasSubstr("no flightctl in the $PATH of ssh on root@web3"));
  write_ssh("exec " + test::flightctl() + " no-such-command\n");
  EXPECT_THAT(there({"list"}).err, HasSubstr("older"));
  write_ssh("echo Welcome; printf '\\0'; exec cat >/dev/null\n");
  EXPECT_THAT(there({"list"}).err, HasSubstr("start-up files of the shell"));
  write_ssh("kill -9 $$\n");
  EXPECT_THAT(there({"list"}).err, HasSubstr("signal 9"));
  // More output on stderr than is kept does not block it.
  write_ssh("head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 255\n");
  EXPECT_THAT(there({"list"}).err, HasSubstr("ssh cannot connect"));
  std::filesystem::remove(ssh_);
  EXPECT_THAT(there({"list"}).err, AllOf(HasSubstr("start " + ssh_), HasSubstr("No such file")));
}

// `exec zsh` in the start-up files of the shell there: a banner, and then silence. Nothing else ends that wait.
TEST_F(HostTest, NoiseAndThenSilenceIsAnError) {
  run();
  struct Case {
    std::string command, printed, shown;
  };
  // The output of doctor is a list; a bracket alone is the begin of one.
  for (const Case& one : {Case{"list", "x", "'x'"},
                          {"list", "Welcome to \\033[31mweb3\\nLast login: today\\n", "'Welcome to ?[31mweb3'"},
                          {"doctor", "x", "'x'"},
                          {"doctor", "[root@web3] # ", "'[root@web3] # '"}}) {
    SCOPED_TRACE(one.command + " " + one.printed);
    write_ssh("printf '" + one.printed + "'; exec " + (one.command == "list" ? "cat >/dev/null\n" : "sleep 60\n"));
    const Outcome outcome = there({one.command});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("root@web3: " + one.shown + " came instead of an answer"),
                                   HasSubstr("start-up files of the shell"),
                                   HasSubstr("`ssh -p 2222 root@web3 true` must print nothing")));
  }
  write_ssh("echo Your account has expired; exit 1\n");
  for (const char* command : {"list", "doctor"}) {
    const Outcome outcome = there({command});
    EXPECT_THAT(outcome.err, HasSubstr("'Your account has expired' came")) << command;
  }
}

// The remote side's output never reaches this terminal unfiltered, and doctor accepts only a list of findings.
TEST_F(HostTest, DoctorsFindingsAreCheckedLocally) {
  run();
  const auto doctor = [this](const std::string& body) {
    write_ssh(body);
    return there({"doctor"});
  };
  const std::string good = R"([{"check":"tracefs","state":"%s","found":"\u001b[31mred","why":"so","do":"that"}])";
  const auto with_state = [&good](const char* state, const char* status) {
    return "printf '" + std::string(good).replace(good.find("%s"), 2, state) + "'; exit " + status + "\n";
  };
  Outcome outcome = doctor(with_state("note", "0"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("note  tracefs: ?[31mred (so). To do: that\n0 ok, 1 note"));
  EXPECT_EQ(doctor(with_state("fail", "1")).code, 1);
  EXPECT_EQ(doctor(with_state("fail", "0")).code, 1) << "its status is not believed either";
  outcome = doctor("echo 'Authorized use only' >&2; " + with_state("fail", "1"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("0 ok, 0 note, 0 warn, 1 fail")) << outcome.err;
  const std::string json = there({"--json", "doctor"}).out;
  EXPECT_THAT(json, HasSubstr("\"fail\""));
  for (const char* body :
       {"exit 0\n", "echo Welcome; exit 0\n", "echo '[]'\n", "echo '[1]'\n", "echo '[{}]'\n", "echo '{}'\n",
        "echo '[{\"check\":\"a\",\"state\":\"fine\",\"found\":\"\",\"why\":\"\",\"do\":\"\"}]'\n",
        "head -c 20000 /dev/zero | tr '\\0' '['\n"}) {
    SCOPED_TRACE(body);
    outcome = doctor(body);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("root@web3"), HasSubstr("finding")));
  }
  outcome = doctor("exec head -c 200000000 /dev/zero\n");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("more than 1024 KiB"));
  outcome = doctor("echo 'Permission denied' >&2; exit 255\n");
  EXPECT_EQ(error_of(there({"--json", "doctor"})), "io.flightd.Client.NotConnected");
  EXPECT_THAT(outcome.err, HasSubstr("Permission denied"));
  // The real program.
  write_ssh("while [ \"$1\" != -- ]; do shift; done; shift 2; exec sh -c \"$*\"\n");
  outcome = there({"doctor"});
  EXPECT_THAT(outcome.out, HasSubstr(" fail\n")) << outcome.err;
}

// Another flightctl waits for the first byte, and the checks can take long on a sick machine. Each write is one
// message.
TEST_F(HostTest, DoctorsListBeginsAtOnce) {
  run();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd there_end(ends[0]), here(ends[1]);
  const std::string socket = bench.socket();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(there_end.get(), STDOUT_FILENO);
    ::execl(test::flightctl().c_str(), "flightctl", "--socket", socket.c_str(), "--json", "doctor", nullptr);
    ::_exit(127);
  }
  there_end.reset();
  std::vector<std::string> writes;
  std::vector<char> chunk(1U << 20U);
  for (ssize_t count = 0; (count = ::recv(here.get(), chunk.data(), chunk.size(), 0)) > 0;)
    writes.emplace_back(chunk.data(), static_cast<std::size_t>(count));
  ::waitpid(pid, nullptr, 0);
  ASSERT_GT(writes.size(), 1U);
  EXPECT_EQ(writes.front(), "[");
  std::string all;
  for (const std::string& one : writes) all += one;
  EXPECT_TRUE(nlohmann::json::parse(all, nullptr, false).is_array()) << all;
}

TEST_F(HostTest, AnUnfinishedFileIsNone) {
  bench.backend.bytes_too_many = 1;
  run();
  const Outcome outcome = there({"get", "1", "-o", bench.folder() + "/copy"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("1 byte before the end"));
  EXPECT_FALSE(std::filesystem::exists(bench.folder() + "/copy"));
}

// The bridge alone: data that comes after stdin was half-closed is still answered, and the end of either side ends the
// bridge.
TEST_F(HostTest, TheBridgeEndsWithEitherSide) {
  run();
  const auto start = [&](int in, int out) {
    const std::string socket = bench.socket();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::dup2(in, 0);
      ::dup2(out, 1);
      ::close_range(3, ~0U, 0);
      ::execl(test::flightctl().c_str(), "flightctl", "--socket", socket.c_str(), "bridge", nullptr);
      ::_exit(127);
    }
    return pid;
  };
  const auto exit_status = [](pid_t pid) {
    int status = -1;
    for (int attempt = 0; attempt < 1000; ++attempt) {
      if (::waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
      std::this_thread::sleep_for(10ms);
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    return -1;
  };
  const std::string call = R"({"method":"org.varlink.service.GetInfo"})" + std::string(1, '\0');
  const std::string listen = R"({"method":"io.flightd.Recorder.Monitor","more":true})" + std::string(1, '\0');
  for (const bool pipes : {false, true}) {
    SCOPED_TRACE(pipes);
    int to[2], from[2];
    if (pipes) {
      ASSERT_EQ(::pipe2(to, O_CLOEXEC), 0);
      ASSERT_EQ(::pipe2(from, O_CLOEXEC), 0);
      std::swap(from[0], from[1]);
    } else {
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, to), 0);
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, from), 0);
    }
    UniqueFd in_there(to[0]), in_here(to[1]), out_there(from[0]), out_here(from[1]);
    const auto read_answer = [&] {
      std::string text;
      std::array<char, 4096> chunk;
      while (text.find('\0') == std::string::npos) {
        pollfd watched{out_here.get(), POLLIN, 0};
        if (::poll(&watched, 1, 10'000) != 1) break;
        const ssize_t count = ::read(out_here.get(), chunk.data(), chunk.size());
        if (count <= 0) break;
        text.append(chunk.data(), static_cast<std::size_t>(count));
      }
      return text;
    };
    pid_t pid = start(in_there.get(), out_there.get());
    out_there.reset();
    ASSERT_EQ(::write(in_here.get(), call.data(), call.size()), static_cast<ssize_t>(call.size()));
    in_here.reset();
    EXPECT_THAT(read_answer(), HasSubstr("io.flightd.Recorder"));
    EXPECT_EQ(exit_status(pid), 0) << "flightd closes what nobody asks on any more";
  }
  // A monitor on a quiet day: the reader of its stdout has gone.
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  UniqueFd there_end(ends[0]), here(ends[1]);
  const pid_t pid = start(there_end.get(), there_end.get());
  there_end.reset();
  ASSERT_EQ(::write(here.get(), listen.data(), listen.size()), static_cast<ssize_t>(listen.size()));
  std::array<char, 4096> chunk;
  ASSERT_GT(::read(here.get(), chunk.data(), chunk.size()), 0);
  here.reset();
  EXPECT_GE(exit_status(pid), 0) << "it stayed";
}

// If flightctl is killed, its ssh ends too. Otherwise it would keep the listener's slot on the host.
TEST_F(HostTest, SshEndsWithFlightctl) {
  run();
  write_ssh("echo $$ > " + bench.folder() + "/pid\nexec sh -c 'exec flightctl --socket " + bench.socket() +
            " bridge'\n");
  std::vector<std::string> words{test::flightctl(), "-H", "web3", "monitor"};
  std::vector<std::string> variables = environment();
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, (bench.folder() + "/events").c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t pid = -1;
  ASSERT_EQ(::posix_spawn(&pid, test::flightctl().c_str(), &actions, nullptr, argv.data(), envp.data()), 0);
  ::posix_spawn_file_actions_destroy(&actions);
  for (int attempt = 0; attempt < 1000 && text_of(bench.folder() + "/events").empty(); ++attempt)
    std::this_thread::sleep_for(10ms);
  EXPECT_THAT(text_of(bench.folder() + "/events"), HasSubstr("monitoring"));
  const pid_t ssh = std::stoi(text_of(bench.folder() + "/pid"));
  EXPECT_EQ(::kill(ssh, 0), 0);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  bool gone = false;
  for (int attempt = 0; attempt < 1000 && !gone; ++attempt) {
    gone = text_of("/proc/" + std::to_string(ssh) + "/cmdline").empty();  // or it is a zombie that init has yet to reap
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_TRUE(gone);
}

}  // namespace
}  // namespace flight
