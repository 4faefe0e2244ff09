// SPDX-License-Identifier: Apache-2.0
// The real flightd-broker as a child of the test, with its own directories and configuration.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "libcore/base/files.hpp"
#include "libcore/broker/client.hpp"
#include "libcore/recorder/rings.hpp"
#include "tests/unit/environment.hpp"
#include "tests/unit/on_cpu.hpp"
#include "tests/unit/root_test.hpp"

namespace flight::test {

inline constexpr gid_t kGroup = 4242;

class TempFolder {
 public:
  TempFolder() {
    std::string name = "/tmp/flightd-test-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Runs `words` with its stderr in `errors`; `inherited` stays open in it. The child calls `prepare` first.
inline pid_t spawn(std::vector<std::string> words, const std::string& errors, int inherited,
                   const std::function<void()>& prepare = {}) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  const int out = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (inherited >= 0) ::fcntl(inherited, F_SETFD, 0);
  if (prepare) prepare();
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

class BrokerProcess : public RootTest {
 protected:
  BrokerProcess() {
    if (IsSkipped()) return;
    ::mkdir((folder_ / "state").c_str(), 0711);
    ::mkdir(snapshots().c_str(), 0770);
    EXPECT_EQ(::chmod(snapshots().c_str(), 0770), 0);
    // Root without CAP_DAC_OVERRIDE has access only by the group.
    EXPECT_EQ(::chown(snapshots().c_str(), 65534, kGroup), 0);
  }
  ~BrokerProcess() override {
    client_.reset();
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  [[nodiscard]] std::string snapshots() const { return folder_ / "state/snapshots"; }
  [[nodiscard]] std::string config() const { return folder_ / "flightd.json"; }
  void write_config(const std::string& text) const { std::ofstream(config(), std::ios::trunc) << text; }
  [[nodiscard]] std::string errors() const { return read_file(folder_ / "stderr").value_or(""); }
  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& more) const {
    std::vector<std::string> all{test::flightd_broker(), "--config",        config(),
                                 "--state-dir",          folder_ / "state", "--group",
                                 std::to_string(kGroup)};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // As if started by hand: with a socketpair.
  void start(const std::string& text) {
    write_config(text);
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    UniqueFd theirs(ends[1]);
    client_.emplace(UniqueFd(ends[0]));
    pid_ = spawn(words({"--fd", std::to_string(theirs.get())}), folder_ / "stderr", theirs.get());
  }
  // As if started as a service: on a path.
  [[nodiscard]] std::string socket_path() const { return folder_ / "run/broker"; }
  void start_listening(const std::string& text, std::vector<std::string> more = {}) {
    write_config(text);
    more.insert(more.end(), {"--socket", socket_path(), "--runtime-dir", folder_ / "run"});
    pid_ = spawn(words(more), folder_ / "stderr", -1);
  }
  [[nodiscard]] Result<BrokerClient> connect() const {
    for (int i = 0;; ++i) {
      auto client = BrokerClient::connect(socket_path());
      if (client || i == 500) return client;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // -1 if it has not ended within 5 s; a signal's number + 128.
  int wait_for_end() {
    for (int i = 0; i < 500; ++i) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
  }

  TempFolder folder_;
  pid_t pid_ = -1;
  std::optional<BrokerClient> client_;
};

// The attached rings of the channel `name`, mapped; the sideband's with "".
inline std::vector<Ring> map_rings(Attachment& attachment, const std::string& name) {
  std::vector<Ring> rings;
  for (std::size_t i = 0; i < attachment.owners.size(); ++i) {
    if (attachment.manifest.rings[i].channel != name) continue;
    auto ring = Ring::open(std::move(attachment.owners[i]), attachment.manifest.rings[i]);
    EXPECT_TRUE(ring) << ring.error().what;
    if (ring) rings.push_back(std::move(*ring));
  }
  return rings;
}

inline std::vector<std::uint64_t> heads(const std::vector<Ring>& rings) {
  std::vector<std::uint64_t> out;
  for (const Ring& ring : rings) out.push_back(ring.head());
  return out;
}

// A configuration whose channel "calls" records getppid(2) of this process alone.
inline std::string calls_config(const std::string& more_channels = {}) {
  return R"({"channels": {"calls": {"ring": "256K", "events": [{"event": "raw_syscalls:sys_enter", "filter": "id == )" +
         std::to_string(SYS_getppid) + " && common_pid == " + std::to_string(::getpid()) + "\"}]}" + more_channels +
         "}}";
}

// Makes `count` system calls that calls_config() records, on `cpu`.
inline void call_on(int cpu, int count) {
  const OnCpu there(cpu);
  for (int i = 0; i < count; ++i) ::syscall(SYS_getppid);
}

}  // namespace flight::test
