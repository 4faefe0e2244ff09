// SPDX-License-Identifier: Apache-2.0
// A process or a disk that does not answer while its file is read. Every flightd of the machine waits for it, so these
// tests run one at a time.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/hung_disk.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

// The broker's processes that read for it, with their states in proc_pid_stat(5).
std::map<pid_t, char> helpers_of(pid_t broker) {
  std::map<pid_t, char> out;
  std::istringstream children(read_text(fmt::format("/proc/{0}/task/{0}/children", broker)));
  for (pid_t child = 0; children >> child;) {
    const std::string stat = read_text(fmt::format("/proc/{}/stat", child));
    const std::size_t end = stat.rfind(") ");
    if (end != std::string::npos) out[child] = stat.at(end + 2);
  }
  return out;
}
// The number of those that wait for a disk all the time.
std::size_t waiting_for_a_disk(pid_t broker) {
  std::map<pid_t, char> waiting = helpers_of(broker);
  for (int i = 0; i < 6; ++i) {
    const auto now = helpers_of(broker);
    std::erase_if(waiting, [&](const auto& helper) {
      const auto same = now.find(helper.first);
      return same == now.end() || same->second != 'D';
    });
    if (waiting.empty()) break;
    usleep(50'000);
  }
  return waiting.size();
}

// A process whose mappings stay locked: a program that opens a file that it has mapped waits for that lock.
class SilentProcess : public HungDisk {
 protected:
  void SetUp() override {
    HungDisk::SetUp();
    if (HasFatalFailure()) return;
    write_text(backing_ + "/page", std::string(1U << 20U, 'x'));
    stopped_ = true;  // not started
    silent_.emplace(start_load({folder_.load("silent"), disk_ + "/page", std::to_string(load_cpu()), "60"}, 0, true));
    ASSERT_TRUE(silent_->wait_for_line("started")) << silent_->err();
    hang();
    usleep(100'000);
    silent_->go();
    ASSERT_TRUE(silent_->wait_for_line("silent")) << silent_->err();
  }
  void TearDown() override {
    set_fault("none 0 0 0");
    silent_.reset();
    HungDisk::TearDown();
  }
  std::optional<Child> silent_;
};

TEST_F(SilentProcess, IsGivenUpAndAllOthersAreRead) {
  EXPECT_LT(start(), 20s);
  const pid_t broker = daemon_.broker_pid();
  const Child burner = burn(burner_);
  const std::string wanted = build_id_of(burner_) + " " + burner_;
  Json sidecar;
  constexpr const char* kWarning = "the mappings of 1 process cannot be read: reading them hangs";
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        return build_ids(sidecar).find(wanted) != std::string::npos &&
               warnings(sidecar).find(kWarning) != std::string::npos;
      },
      20s))
      << build_ids(sidecar) << warnings(sidecar);
  EXPECT_THAT(sidecar.value("top", Json::array()).dump(), HasSubstr("\"silent\"")) << "its samples have its name";
  // The helper that waited was killed and made again.
  EXPECT_TRUE(wait_until([&] { return waiting_for_a_disk(broker) == 0 && helpers_of(broker).size() >= 2; }, 20s));
  EXPECT_LT(fastest_of_three(limit(),
                             [&] {
                               const Stopwatch watch;
                               (void)daemon_.snapshot();
                               return watch.gone_by();
                             }),
            limit());
  expect_ends_in_time([&] { (void)start(); });
}

// A disk of the machine that hangs, below a file system that waits for no server: nothing shows it before the read.
class DeadDisk : public HungDisk {
 protected:
  void SetUp() override {
    HungDisk::SetUp();
    if (HasFatalFailure()) return;
    stopped_ = true;  // not started
    ASSERT_TRUE(fs::create_directory(dead_));
    const std::string image = backing_ + "/image";
    ASSERT_EQ(run({"truncate", "-s", "16M", image}).exit_status, 0);
    ASSERT_EQ(run({"mkfs.ext4", "-q", "-F", image}).exit_status, 0);
    ASSERT_TRUE(mount_image(image));
    fs::copy_file(burner_, dead_ + "/program");
    unmount(dead_);
    ASSERT_TRUE(mount_image(disk_ + "/image"));
    // Maps it, and reads nothing of it.
    mapper_.emplace(
        start_load({folder_.load("silent"), dead_ + "/program", std::to_string(load_cpu()), "60"}, 0, true));
    ASSERT_TRUE(mapper_->wait_for_line("started")) << mapper_->err();
    hang();
    usleep(100'000);
  }
  [[nodiscard]] bool mount_image(const std::string& image) const {
    const Outcome mounted = run({"mount", "-o", "loop", image, dead_});
    EXPECT_EQ(mounted.exit_status, 0) << mounted.text();
    return mounted.exit_status == 0;
  }
  void TearDown() override {
    set_fault("none 0 0 0");
    mapper_.reset();
    if (!stopped_) {
      EXPECT_TRUE(daemon_.stop());
    }
    stopped_ = true;
    unmount(dead_);
    HungDisk::TearDown();
  }
  const std::string dead_ = folder_ / "dead";
  std::optional<Child> mapper_;
};

TEST_F(DeadDisk, OneHelperWaitsAndAllElseGoesOn) {
  EXPECT_LT(start(), 20s);
  pid_t broker = daemon_.broker_pid();
  ASSERT_TRUE(wait_until([&] { return waiting_for_a_disk(broker) == 1; }, 20s)) << "nothing hangs: this is of no use";
  // A file of another disk.
  const std::string other = folder_ / "other";
  ASSERT_TRUE(fs::create_directory(other));
  ASSERT_TRUE(mount_tmpfs(other, "size=16m"));
  fs::copy_file(burner_, other + "/program");
  std::optional<Child> program = burn(other + "/program");
  const std::string wanted = build_id_of(burner_) + " " + other + "/program";
  EXPECT_TRUE(wait_until([&] { return build_ids(daemon_.snapshot()).find(wanted) != std::string::npos; }, 20s))
      << build_ids(daemon_.snapshot());
  EXPECT_EQ(waiting_for_a_disk(broker), 1U) << "the other one reads nothing of this disk";
  for (const auto& [helper, state] : helpers_of(broker)) {
    const std::string held = run({"ls", "-l", fmt::format("/proc/{}/fd", helper)}).out;
    EXPECT_THAT(held, Not(HasSubstr("perf_event"))) << state;
  }
  EXPECT_LT(fastest_of_three(limit(),
                             [&] {
                               const Stopwatch watch;
                               (void)daemon_.snapshot();
                               return watch.gone_by();
                             }),
            limit());
  expect_ends_in_time([&] {
    (void)start();
    broker = daemon_.broker_pid();
    EXPECT_TRUE(wait_until([&] { return waiting_for_a_disk(broker) == 1; }, 20s));
  });
  program.reset();
  unmount(other);
}

// As in a container of LXC: files and folders of lxcfs, which hangs, are mounted over the kernel's.
class CoveredKernel : public HungDisk {
 protected:
  void SetUp() override {
    HungDisk::SetUp();
    stopped_ = true;  // not started
  }
  void cover(const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    if (fs::is_directory(path))
      fs::create_directory(backing_ + "/" + name);
    else
      write_text(backing_ + "/" + name, read_text(path));
    ASSERT_EQ(mount((disk_ + "/" + name).c_str(), path.c_str(), nullptr, MS_BIND, nullptr), 0) << path;
    covered_.push_back(path);
  }
  void hang_all() {
    hang();
    wait_for_old_attributes();
  }
  void TearDown() override {
    set_fault("none 0 0 0");
    for (const std::string& path : covered_) unmount(path);
    HungDisk::TearDown();
  }
  std::vector<std::string> covered_;
};

// In an earlier version flightd and its broker hung at the start, and neither could be ended.
TEST_F(CoveredKernel, FilesOfProcAreNotReadAndSaidOnce) {
  for (const char* file : {"stat", "loadavg", "meminfo", "cpuinfo"}) cover(std::string("/proc/") + file);
  ASSERT_FALSE(HasFatalFailure());
  hang_all();
  EXPECT_LT(start(), 20s);
  const auto warnings = [&] { return daemon_.status().value("warnings", Json::array()).dump(); };
  EXPECT_TRUE(wait_until([&] { return warnings().find("open /proc/stat: fuse") != std::string::npos; }, 20s))
      << warnings();
  EXPECT_THAT(warnings(), AllOf(HasSubstr("open /proc/loadavg: fuse"), HasSubstr("cpu.busy")));
  EXPECT_LT(fastest_of_three(limit(),
                             [&] {
                               const Stopwatch watch;
                               (void)daemon_.snapshot();
                               return watch.gone_by();
                             }),
            limit());
  EXPECT_EQ(count_of(daemon_.log(), "open /proc/loadavg"), 1U) << daemon_.log();
  expect_ends_in_time([&] { (void)start(); });
}

// malloc(3) asked for the number of CPUs in a thread of the broker, and nothing could end it.
TEST_F(CoveredKernel, TheListOfCpusStopsNobody) {
  cover("/sys/devices/system/cpu/online");
  ASSERT_FALSE(HasFatalFailure());
  hang_all();
  EXPECT_LT(start(), 20s);
  const Json sidecar = daemon_.snapshot();
  EXPECT_FALSE(sidecar.value("path", "").empty()) << sidecar.dump();
  EXPECT_NE(daemon_.status().value("recording", "off"), "off") << "the CPUs are known from elsewhere";
  (void)end();
}

// The first line of the log needs it. In an earlier version flightd never came up, without a word.
TEST_F(CoveredKernel, TheFileOfTheTimeZoneStopsNobody) {
  write_text(backing_ + "/zone", "no zone");
  hang_all();
  setenv("TZ", (":" + disk_ + "/zone").c_str(), 1);
  EXPECT_LT(start(), 20s);
  const std::string trouble = "local times are UTC: the file of the time zone, " + disk_ + "/zone, is on fuse";
  EXPECT_EQ(count_of(daemon_.log(), trouble), 1U) << daemon_.log();
  (void)daemon_.snapshot();
  const Outcome list = daemon_.ctl({"list"});  // it shows local times
  unsetenv("TZ");
  EXPECT_EQ(list.exit_status, 0) << list.text();
  EXPECT_THAT(list.err, HasSubstr("flightctl: " + trouble));
  (void)end();
}

// Where the memory limit of flightd's own cgroup is, too.
TEST_F(CoveredKernel, TheCgroupsAreNotReadAndSaid) {
  cover("/sys/fs/cgroup");
  ASSERT_FALSE(HasFatalFailure());
  hang_all();
  EXPECT_LT(start(), 20s);
  constexpr const char* kWarning = "cgroups unread: /sys/fs/cgroup";
  Json sidecar;
  EXPECT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        return warnings(sidecar).find(kWarning) != std::string::npos;
      },
      20s))
      << warnings(sidecar);
  EXPECT_THAT(daemon_.status().value("warnings", Json::array()).dump(), HasSubstr(kWarning));
  (void)end();
}

// In an earlier version the main thread opened the runtime directory at the start, said nothing, and could not be
// ended. Each of the two is waited for as long, so they wait at the same time.
TEST_F(CoveredKernel, ARuntimeOrABrokersDirectoryThatHangsIsAnErrorAtTheStart) {
  const std::string run = disk_ + "/run", brokers = disk_ + "/broker";
  for (const char* name : {"/run", "/broker"}) fs::create_directory(backing_ + name);
  hang_all();
  StartOptions options;
  options.runtime_dir = run;
  daemon_.launch(stacks_config(99, "64K").dump(), options);
  const TempFolder other_folder;
  TestDaemon other(other_folder);
  StartOptions with_broker;
  with_broker.arguments = {"--broker", brokers + "/socket"};
  other.launch(stacks_config(99, "64K").dump(), with_broker);

  EXPECT_EQ(daemon_.process().wait(60s), std::optional<int>(1)) << daemon_.log();
  EXPECT_THAT(daemon_.log(), HasSubstr(run + " does not answer"));
  EXPECT_EQ(other.process().wait(60s), std::optional<int>(1)) << other.log();
  EXPECT_THAT(other.log(), AllOf(HasSubstr("look for flightd-broker at " + brokers + "/socket"),
                                 HasSubstr(brokers + " does not answer")));
}

// If the disk was only slow, the file is read when the disk answers.
TEST_F(DeadDisk, IsReadWhenItAnswers) {
  EXPECT_LT(start(), 20s);
  const pid_t broker = daemon_.broker_pid();
  ASSERT_TRUE(wait_until([&] { return waiting_for_a_disk(broker) == 1; }, 20s)) << "nothing hangs: this is of no use";
  usleep(1'000'000);
  set_fault("none 0 0 0");
  EXPECT_TRUE(wait_until([&] { return waiting_for_a_disk(broker) == 0 && helpers_of(broker).size() >= 2; }, 20s));
  const Child program = burn(dead_ + "/program");
  const std::string wanted = build_id_of(burner_) + " " + dead_ + "/program";
  EXPECT_TRUE(wait_until([&] { return build_ids(daemon_.snapshot()).find(wanted) != std::string::npos; }, 20s))
      << build_ids(daemon_.snapshot());
}

}  // namespace
}  // namespace flight
