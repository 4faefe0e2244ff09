// SPDX-License-Identifier: Apache-2.0
// Other people's programs and disks, for the tests of what flightd reads of them.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "libcore/sysinfo/mapped_file.hpp"
#include "libcore/sysinfo/processes.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {

// The most that a start, a snapshot and an end may each take beside a disk that hangs for ever.
inline Milliseconds limit() { return sanitized() ? 20s : 1s; }
inline constexpr Milliseconds kForEver = 20s;

class Files : public testing::Test {
 protected:
  // Starts a copy of the burner.
  Child burn(const std::string& program, double seconds = 60) {
    Child child = start_load({program, std::to_string(load_cpu()), std::to_string(seconds)});
    EXPECT_TRUE(child.wait_for_line("started")) << child.err();
    return child;
  }
  [[nodiscard]] std::string build_ids(const Json& sidecar) const {
    const Outcome list = Verifier::installed().perf(folder_, {"buildid-list", "-i", sidecar.value("path", "?")});
    EXPECT_EQ(list.exit_status, 0) << list.text();
    return list.out;
  }
  [[nodiscard]] static std::string warnings(const Json& sidecar) {
    return sidecar.value("warnings", Json::array()).dump();
  }
  void TearDown() override { EXPECT_TRUE(daemon_.stop()); }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
  const std::string burner_ = folder_.load("burner");
};

// A FUSE mount that answers nothing, with a program that runs from it.
class HungDisk : public Files {
 protected:
  void SetUp() override {
    for (const std::string& name : {backing_, disk_}) ASSERT_EQ(mkdir(name.c_str(), 0755), 0);
    std::filesystem::copy_file(burner_, backing_ + "/program");
    set_fault("none 0 0 0");
    fuse_.emplace(Child::start(
        {required_env("FLIGHT_SLOW_DISK"), backing_, disk_, control_, "attr_timeout=0.2,entry_timeout=0.2"}));
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(disk_ + "/program"); }, 10s)) << fuse_->err();
  }
  void TearDown() override {
    set_fault("none 0 0 0");
    if (!stopped_) {
      EXPECT_TRUE(daemon_.stop());
    }
    program_.reset();
    unmount(disk_);
  }
  void set_fault(const std::string& text) const {
    write_text(control_ + ".new", text);
    std::filesystem::rename(control_ + ".new", control_);
  }
  void hang() { set_fault("* -1 0 0"); }
  // Until the kernel's copy of names and attributes is too old: it lasts for 0.2 s.
  static void wait_for_old_attributes() { usleep(300'000); }
  void expect_recorded() {
    Json sidecar;
    EXPECT_LT(fastest_of_three(limit(),
                               [&] {
                                 const Stopwatch watch;
                                 sidecar = daemon_.snapshot();
                                 return watch.gone_by();
                               }),
              limit());
    EXPECT_THAT(sidecar.value("top", Json::array()).dump(), testing::HasSubstr("\"program\""))
        << "its samples have its name";
    EXPECT_THAT(build_ids(sidecar), testing::Not(testing::HasSubstr(disk_ + "/program")));
    EXPECT_THAT(sidecar.dump(), testing::HasSubstr("build-id unread: on fuse"));
  }
  // The mapping of the file "program", as a scan reports it.
  static MappedAt program_of(pid_t pid) {
    ProcessInfo info;
    EXPECT_TRUE(read_process(static_cast<std::uint32_t>(pid), info));
    read_mappings(info);
    for (const ProcessMapping& one : info.mappings)
      if (one.name.ends_with("/program"))
        return {.pid = info.pid,
                .address = one.address,
                .file = {.major = one.major, .minor = one.minor, .inode = one.inode},
                .name = one.name};
    ADD_FAILURE() << "it is not mapped";
    return {};
  }
  // In a child: a thread that waits for the disk cannot be ended.
  void expect_comes_back(const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    int status = -1;
    EXPECT_TRUE(wait_until([&] { return waitpid(child, &status, WNOHANG) == child; }, kForEver)) << "it hangs";
    EXPECT_EQ(status, 0) << "another result";
    if (status != -1) return;
    set_fault("none 0 0 0");
    waitpid(child, &status, 0);
  }
  // The same as process 1, so that the host's mounts are the test's, and the disk is among them.
  void expect_comes_back_on_host(const std::function<bool()>& body) {
    expect_comes_back([&] {
      if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return false;
      const pid_t first = fork();
      if (first == 0) _exit(mount("proc", "/proc", "proc", 0, nullptr) == 0 && body() ? 0 : 1);
      int status = -1;
      return waitpid(first, &status, 0) == first && status == 0;
    });
  }
  // SIGTERM while a reader of the broker hangs: the broker ends, and so does flightd. Returns how long that took.
  Milliseconds end() {
    const pid_t broker = daemon_.broker_pid();
    const Stopwatch watch;
    kill(daemon_.pid(), SIGTERM);
    stopped_ = true;
    EXPECT_TRUE(daemon_.process().wait(kForEver)) << daemon_.log();
    EXPECT_TRUE(wait_until([&] { return !process_exists(broker); }, kForEver));
    return watch.gone_by();
  }
  Milliseconds start() {
    const Stopwatch watch;
    EXPECT_TRUE(daemon_.start(stacks_config(199, "256K")));
    stopped_ = false;
    return watch.gone_by();
  }
  // `start_again`: if the first end took too long, another one is measured.
  void expect_ends_in_time(const std::function<void()>& start_again) {
    const auto end_again = [&] {
      if (stopped_) start_again();
      return end();
    };
    EXPECT_LT(fastest_of_three(limit(), end_again), limit());
  }

  const std::string backing_ = folder_ / "backing", disk_ = folder_ / "disk", control_ = folder_ / "fault";
  std::optional<Child> fuse_, program_;
  bool stopped_ = false;
};

}  // namespace flight
