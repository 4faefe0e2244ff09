// SPDX-License-Identifier: Apache-2.0
// The real flightctl against the real control server.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/unique_fd.hpp"
#include "libcore/store/catalogue.hpp"
#include "libcore/store/sidecar.hpp"
#include "tests/unit/daemon/control/control_bench.hpp"
#include "tests/unit/environment.hpp"

namespace flight::test {

using namespace daemon;

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A sidecar with content in every part; its data file is at `path`.
inline Sidecar full_sidecar(const std::string& id, const std::string& path) {
  Sidecar sidecar;
  sidecar.id = id;
  sidecar.path = path;
  sidecar.host = "web3";
  sidecar.boot_id = "b";
  sidecar.kernel = "6.1.0";
  sidecar.version = "0.1.0";
  sidecar.config_digest = "d";
  sidecar.trigger = "manual";
  sidecar.fired = SidecarFired{"cpu.busy", 93, 90, 12, 17};
  sidecar.reason = "why not";
  sidecar.requests = {{0, 12, "flightctl", "2026-11-20T03:12:04.123Z", "why not"}};
  sidecar.capture = "pause";
  sidecar.compression = "zstd";
  sidecar.size_bytes = 4096;
  sidecar.raw_bytes = 40960;
  sidecar.samples = 1234;
  sidecar.window = {1'000'000'000, 11'000'000'000, 10, "2026-11-20T03:11:54.000Z", "2026-11-20T03:12:04.000Z"};
  sidecar.common_window = {2'000'000'000, 11'000'000'000, 9, "2026-11-20T03:11:55.000Z", "2026-11-20T03:12:04.000Z"};
  sidecar.blackout.max_us = 42.5;
  sidecar.blackout.lost = 3;
  sidecar.holes = {{"stacks", 1, 5'000'000'000, 5'000'042'000, 2}};
  sidecar.rings = {{"stacks", 0, 2U << 20U, 1'000'000'000, 11'000'000'000, 2000, 1234, 42.5, 3, 0, 0}};
  sidecar.tracker.processes = 100;
  sidecar.tracker.exited = 7;
  sidecar.timings_us = {1, 2, 3, 4, 5, 15};
  sidecar.top = {{.comm = "evil\x1b[2Jcomm",
                  .pid = 77,
                  .cgroup = "/system.slice",
                  .samples = 1000,
                  .share = 0.81,
                  .cpus = {0, 1}}};
  sidecar.warnings = {"something is less than it should be"};
  return sidecar;
}

// Node.js and others make a pipe or terminal O_NONBLOCK that flightctl has, too. In an earlier version what did not fit
// at once was lost: "Resource temporarily unavailable".
class PipeThatDoesNotBlock {
 public:
  PipeThatDoesNotBlock() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    from_ = UniqueFd(ends[0]);
    to_ = UniqueFd(ends[1]);
    EXPECT_EQ(::fcntl(to_.get(), F_SETFL, O_NONBLOCK), 0);
    EXPECT_GT(::fcntl(to_.get(), F_SETPIPE_SZ, 4096), 0);  // what is written does not fit
  }
  [[nodiscard]] UniqueFd take_to() { return std::move(to_); }
  [[nodiscard]] std::string read_all() const {
    std::string out;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(from_.get(), piece.data(), piece.size())) > 0;)
      out.append(piece.data(), static_cast<std::size_t>(count));
    return out;
  }

 private:
  UniqueFd from_, to_;
};

class FlightctlTest : public testing::Test {
 protected:
  FlightctlTest() {
    data_ = bench.folder() + "/flight-web3-20261120T031204.123Z-manual-1.perf.data";
    std::ofstream(data_, std::ios::binary) << bytes_of_data();
    bench.backend.file_to_read = data_;
    bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
      Sidecar sidecar = full_sidecar(id, data_);
      sidecar.reason = parameters.reason;
      return to_json(sidecar);
    };
  }
  // Made once: each case has a file of it.
  static const std::string& bytes_of_data() {
    static const std::string all = [] {
      std::string bytes = "PERFILE2";
      for (int number = 0; number < 700'000; ++number) bytes += std::to_string(number);  // more than one copy buffer
      return bytes;
    }();
    return all;
  }
  void run(ControlAccess access = {}) {
    auto started = bench.run({}, access);
    ASSERT_TRUE(started) << started.error().what;
  }
  // Adds --socket of the bench.
  Outcome ctl(std::vector<std::string> words) {
    words.insert(words.begin(), {"--socket", bench.socket()});
    return bare(std::move(words));
  }
  Outcome bare(std::vector<std::string> words, std::vector<std::string> environment = {}) {
    words.insert(words.begin(), test::flightctl());
    environment.insert(environment.end(), {"TZ=UTC", "LC_ALL=C.UTF-8"});
    const std::string out = bench.folder() + "/stdout", err = bench.folder() + "/stderr";
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, stdout_path.empty() ? out.c_str() : stdout_path.c_str(),
                                       O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, test::flightctl().c_str(), &actions, nullptr, argv.data(), envp.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << "flightctl crashed";
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(out), text_of(err)};
  }
  // As ctl(), on a terminal of 24 lines of 80 columns: what it shows is `out`, with "\r\n" as the end of a line.
  Outcome on_terminal(std::vector<std::string> words, std::vector<std::string> environment) {
    words.insert(words.begin(), {test::flightctl(), "--socket", bench.socket()});
    environment.insert(environment.end(), {"TZ=UTC", "LC_ALL=C.UTF-8"});
    const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    EXPECT_TRUE(terminal && ::grantpt(terminal.get()) == 0 && ::unlockpt(terminal.get()) == 0);
    std::array<char, 64> name{};
    EXPECT_EQ(::ptsname_r(terminal.get(), name.data(), name.size()), 0);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    EXPECT_EQ(::ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& variable : environment) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, name.data(), O_RDWR | O_NOCTTY, 0);
    for (const int fd : {1, 2}) ::posix_spawn_file_actions_adddup2(&actions, 0, fd);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, words[0].c_str(), &actions, nullptr, argv.data(), envp.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    Outcome out;
    std::array<char, 4096> piece{};
    for (ssize_t count = 0; (count = ::read(terminal.get(), piece.data(), piece.size())) > 0;)  // then EIO
      out.out.append(piece.data(), static_cast<std::size_t>(count));
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
  }
  // As ctl(), with PipeThatDoesNotBlock as stdout; stderr is that of the test.
  Outcome ctl_into_pipe(std::vector<std::string> words) {
    words.insert(words.begin(), {test::flightctl(), "--socket", bench.socket()});
    PipeThatDoesNotBlock pipe;
    UniqueFd to = pipe.take_to();
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to.get(), 1);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, words[0].c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    to.reset();
    std::string out = pipe.read_all();
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, std::move(out), ""};
  }
  // As ctl(), with a pipe as stdout that nobody reads: the status of wait(2). `ignored`: as in a parent such as Python
  // or systemd, which ignores SIGPIPE.
  int without_reader(std::vector<std::string> words, bool ignored, std::string& err) {
    words.insert(words.begin(), {test::flightctl(), "--socket", bench.socket()});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    UniqueFd to(ends[1]);
    ::close(ends[0]);
    const std::string path = bench.folder() + "/stderr";
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, to.get(), 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const auto before = std::signal(SIGPIPE, ignored ? SIG_IGN : SIG_DFL);
    pid_t pid = -1;
    EXPECT_EQ(::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    static_cast<void>(std::signal(SIGPIPE, before));
    ::posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    err = text_of(path);
    return status;
  }
  // One line of JSON on stderr, nothing on stdout.
  static std::string error_of(const Outcome& outcome) {
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    const auto json = nlohmann::json::parse(outcome.err, nullptr, false);
    EXPECT_TRUE(json.is_object() && json.size() == 2 && json.contains("message")) << outcome.err;
    return json.is_object() ? json.value("error", "") : "";
  }

  ControlBench bench;
  std::string stdout_path;
  std::string data_;
};

}  // namespace flight::test
