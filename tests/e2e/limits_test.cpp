// SPDX-License-Identifier: Apache-2.0
// A machine without resources: no task, no address space, an unread stderr. flightd must keep its recording, which is
// most valuable in such a situation.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libcore/base/spare_descriptors.hpp"
#include "libcore/base/unique_fd.hpp"
#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/full_group.hpp"
#include "tests/e2e/limits_fixture.hpp"
#include "tests/e2e/memory_group.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/own_broker.hpp"
#include "tests/e2e/raw_socket.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A cgroup with a limit of tasks for flightd and the broker that it starts.
class SmallGroup {
 public:
  explicit SmallGroup(int tasks) {
    const bool v1 = ::access("/sys/fs/cgroup/pids", F_OK) == 0;
    path_ = fmt::format("{}/flight-e2e-few-{}", v1 ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup", ::getpid());
    const bool made = ::mkdir(path_.c_str(), 0755) == 0;
    const UniqueFd most(::open((path_ + "/pids.max").c_str(), O_WRONLY | O_CLOEXEC));
    const std::string text = std::to_string(tasks);
    made_ = made && ::write(most.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  SmallGroup(const SmallGroup&) = delete;
  SmallGroup& operator=(const SmallGroup&) = delete;
  ~SmallGroup() {
    EXPECT_TRUE(wait_until([this] { return ::rmdir(path_.c_str()) == 0; }, 10s));
  }
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] Arguments enter() const { return {"sh", "-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"", path_}; }

 private:
  std::string path_;
  bool made_ = false;
};

// Descriptors from `first` to 2 are /dev/null: no file, ring or socket has got such a number. They are not the spare
// ones, which are closed on exec, and whose numbers another file gets.
void expect_filled(pid_t pid, int first) {
  for (int number = first; number <= STDERR_FILENO; ++number) {
    std::error_code error;
    EXPECT_EQ(std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid, number), error), "/dev/null") << pid;
    const std::string info = read_text(fmt::format("/proc/{}/fdinfo/{}", pid, number));
    const auto at = info.find("flags:");
    ASSERT_NE(at, std::string::npos) << pid;
    EXPECT_EQ(std::stoi(info.substr(at + 6), nullptr, 8) & O_CLOEXEC, 0) << pid << ", descriptor " << number;
  }
}

using LimitsLong = Limits;

TEST_F(Limits, WithNoTaskLeftSnapshotsAreTakenAndItEndsInOrder) {
  options_.prefix = without_leak_check();
  add_trigger();
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  RawSocket socket = RawSocket::connect(daemon.socket());
  const FullGroup full({daemon.pid(), daemon.broker_pid()});
  ASSERT_TRUE(full.made()) << "no cgroup with pids.max";
  for (const Way& way : ways(daemon, socket)) expect_snapshot(daemon, way);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(daemon.goes_on());
  EXPECT_EQ(daemon.ctl({"list"}).exit_status, 0);
  EXPECT_EQ(daemon.ctl({"get", "latest", "-o", folder_ / "scratch/copy"}).exit_status, 0);
  EXPECT_EQ(daemon.ctl({"vacuum"}).exit_status, 0);
  EXPECT_EQ(daemon.ctl({"reload"}).exit_status, 0);
  EXPECT_TRUE(daemon.stop());
}

TEST_F(Limits, WithNoTaskLeftOnAReadOnlyDiskItRecordsAndEndsInOrder) {
  const std::string disk = folder_ / "disk";
  ASSERT_EQ(::mkdir(disk.c_str(), 0755), 0);
  ASSERT_TRUE(mount_tmpfs(disk, "size=64m"));
  options_.state_dir = disk + "/state";
  options_.prefix = without_leak_check();
  {
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config_, options_));
    RawSocket socket = RawSocket::connect(daemon.socket());
    const FullGroup full({daemon.pid(), daemon.broker_pid()});
    ASSERT_TRUE(full.made()) << "no cgroup with pids.max";
    const auto remount = [&](bool read_only) {
      return wait_until([&] { return remount_tmpfs(disk, read_only, ""); }, 20s);
    };
    ASSERT_TRUE(remount(true)) << "flightd keeps a file open for writing";
    ASSERT_TRUE(socket.call(R"({"method":"io.flightd.Recorder.TakeSnapshot"})"));
    EXPECT_THAT(socket.receive(60s).value_or("no answer"),
                AllOf(HasSubstr("io.flightd.Recorder.WriteFailed"), HasSubstr(R"("errno":30)")));
    EXPECT_TRUE(records(daemon.ctl_json({"status"})));
    ASSERT_TRUE(remount(false));
    EXPECT_TRUE(daemon.goes_on());
    ASSERT_TRUE(remount(true));
    EXPECT_TRUE(daemon.stop()) << "with both";
  }
  unmount(disk);
}

// The least limit that all of them are below.
int full_limit(pid_t pid) {
  const std::vector<int> spare = spare_descriptors(pid);
  return spare.empty() ? 0 : *std::max_element(spare.begin(), spare.end()) + 1;
}

// The soft limit; 0: it is set.
int limit_files(pid_t pid, int number) {
  return run({"prlimit", "--pid", std::to_string(pid), fmt::format("--nofile={}:", number)}).exit_status;
}
constexpr int kManyFiles = 1024;

// In flightd as in its broker.
TEST_F(LimitsLong, WithNoDescriptorLeftASnapshotIsTaken) {
  config_["user"] = "root";  // the limits of another user's process need CAP_SYS_RESOURCE
  add_trigger();
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  RawSocket socket = RawSocket::connect(daemon.socket());
  for (const pid_t pid : {daemon.pid(), daemon.broker_pid()}) {
    const bool broker = pid != daemon.pid();
    SCOPED_TRACE(broker ? "flightd-broker" : "flightd");
    // Some are given back for a few seconds by each request.
    ASSERT_TRUE(wait_until([&] { return is_prepared(pid); }, 30s));
    ASSERT_EQ(limit_files(pid, full_limit(pid)), 0);
    for (const Way& way : ways(daemon, socket)) expect_snapshot(daemon, way);
    // Answers of the broker that belong to no snapshot.
    ASSERT_TRUE(wait_until([&] { return is_prepared(pid); }, 30s));
    ASSERT_EQ(limit_files(pid, full_limit(pid)), 0);
    const auto uptime = [&] {
      EXPECT_TRUE(socket.call(R"({"method":"io.flightd.Recorder.GetStatus"})"));
      const Json reply = Json::parse(socket.receive(60s).value_or("no answer"), nullptr, false);
      return reply.value("/parameters/status/self/broker/uptime_seconds"_json_pointer, 0.0);
    };
    const double begin = uptime();
    EXPECT_TRUE(wait_until([&] { return uptime() > begin + 3; }, 30s)) << "the broker is asked again";
    expect_snapshot(daemon, ways(daemon, socket).front());
    EXPECT_THAT(daemon.log(), testing::Not(HasSubstr("Too many open files")));
    ASSERT_EQ(limit_files(pid, kManyFiles), 0);
    const Json sidecar = daemon.ctl_json({"info", "latest"});
    EXPECT_TRUE(counts_all(Verifier::installed(), folder_, sidecar));
    EXPECT_EQ(sidecar["tracker"]["stale"], false);
  }
  EXPECT_TRUE(daemon.stop());
}

// flightd also uses spare descriptors without a snapshot: here it saves the state of a trigger that was disabled.
TEST_F(LimitsLong, SpareDescriptorsThatWereUsedAreTakenAgainWithoutASnapshot) {
  config_["user"] = "root";
  add_trigger();
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  ASSERT_TRUE(wait_until([&] { return is_prepared(daemon.pid()); }, 30s));
  RawSocket socket = RawSocket::connect(daemon.socket());
  ASSERT_EQ(limit_files(daemon.pid(), full_limit(daemon.pid())), 0);
  const std::string state = daemon.state_dir() + "/triggers.state";
  const auto saved = [&] { return std::filesystem::exists(state) ? read_text(state) : ""; };
  const std::string before = saved();
  ASSERT_TRUE(
      socket.call(R"({"method":"io.flightd.Recorder.SetTrigger","parameters":{"name":"winch","enabled":false}})"));
  EXPECT_THAT(socket.receive(60s).value_or("no answer"), testing::Not(HasSubstr("error")));
  ASSERT_TRUE(wait_until([&] { return saved() != before; }, 30s));
  const auto all = [&] { return spare_descriptors(daemon.pid()).size() == 2 * SpareDescriptors::kMany; };
  EXPECT_TRUE(wait_until(all, 30s)) << spare_descriptors(daemon.pid()).size();
  ASSERT_EQ(limit_files(daemon.pid(), kManyFiles), 0);
  EXPECT_TRUE(daemon.stop());
}

using ClosedDescriptors = OwnBroker;

// In an earlier version a log line went into a client's answer.
TEST_F(ClosedDescriptors, AreFilledInBothServices) {
  const Arguments close_all = {"sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh"};
  broker_prefix_ = close_all;
  ASSERT_NO_FATAL_FAILURE(start_broker());
  options_.prefix.insert(options_.prefix.begin(), close_all.begin(), close_all.end());
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  for (const pid_t pid : {daemon.pid(), broker_->pid()}) expect_filled(pid, 0);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(daemon.goes_on());
  EXPECT_EQ(daemon.ctl({"reload"}).exit_status, 0);
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

class LimitsOfBrokerLong : public OwnBroker {
 protected:
  // CPU time of all its threads.
  [[nodiscard]] std::chrono::nanoseconds used() const {
    clockid_t clock{};
    timespec time{};
    EXPECT_EQ(::clock_getcpuclockid(broker_->pid(), &clock), 0);
    EXPECT_EQ(::clock_gettime(clock, &time), 0);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
  [[nodiscard]] std::size_t complaints() const {
    std::size_t count = 0;
    for (const std::string& line : lines_of(broker_->err()))
      count += line.find("Too many open files") != std::string::npos;
    return count;
  }
};

TEST_F(LimitsOfBrokerLong, WithNoDescriptorLeftTheNextFlightdIsServed) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  const pid_t pid = broker_->pid();
  daemon.process().kill();
  ASSERT_TRUE(wait_until([&] { return is_prepared(pid); }, 30s));
  // The number of the connection that ended may be below some of them.
  const int limit = lowest_free(pid);
  const std::vector<int> spare = spare_descriptors(pid);
  ASSERT_GT(std::count_if(spare.begin(), spare.end(), [&](int number) { return number < limit; }), 3);
  ASSERT_EQ(limit_files(pid, limit), 0);
  ASSERT_TRUE(daemon.start(config_, options_));
  EXPECT_EQ(complaints(), 0U);

  // Without any: flightd waits, and so does the broker.
  daemon.process().kill();
  ASSERT_EQ(limit_files(pid, 1), 0);
  daemon.launch(config_.dump(2), options_);
  ASSERT_TRUE(wait_until([&] { return complaints() > 0; }, 30s));
  const std::chrono::nanoseconds before = used();
  std::this_thread::sleep_for(2s);  // a fixed time, for which the use of the CPU is measured
  EXPECT_LT(used() - before, 200ms) << "it turns in a loop";
  EXPECT_EQ(complaints(), 1U);
  ASSERT_EQ(limit_files(pid, kManyFiles), 0);
  ASSERT_TRUE(daemon.wait_ready());
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_THAT(broker_->err(), HasSubstr("connections are accepted again"));
  EXPECT_TRUE(daemon.stop());
}

TEST_F(Limits, TooFewTasksAtStartAreAnErrorThatNamesTheLimit) {
  options_.prefix = without_leak_check();
  options_.prefix.insert(options_.prefix.end(), {"prlimit", "--nproc=1:1"});
  TestDaemon daemon(folder_);
  daemon.launch(config_.dump(), options_);
  const Outcome outcome = daemon.process().finish(30s);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("start the thread"), HasSubstr("TasksMax")));
}

// The sanitizers use terabytes of address space, keep freed memory, and have their own threads.
#if !defined(FLIGHT_SANITIZED)
// memory.max of the configuration is a share of the machine's RAM. The cgroup can be much smaller.
TEST_F(Limits, WhatIsKnownAboutProcessesFitsTheCgroup) {
  constexpr std::uint64_t kMiB = 1U << 20U;
  const auto group = MemoryGroup::create(100 * kMiB);
  ASSERT_TRUE(group) << "no memory cgroup";
  options_.prefix = group->enter();
  config_["memory"] = {{"max", "1G"}};
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  const Json memory = daemon.ctl_json({"config"})["memory"];
  EXPECT_EQ(memory["cgroup_max_bytes"], 100 * kMiB);
  EXPECT_LE(memory["tracker_bytes"], 25 * kMiB);
  EXPECT_GT(memory["tracker_bytes"], 24 * kMiB);
  const Json status = daemon.status();
  EXPECT_EQ(status["self"]["tracker_max_bytes"], memory["tracker_bytes"]);
  EXPECT_GT(status["self"]["tracker_bytes"], 0U);
  EXPECT_LT(status["self"]["tracker_bytes"], status["self"]["tracker_max_bytes"]);
  EXPECT_THAT(status["messages"].dump(), AllOf(HasSubstr("of the cgroup"), HasSubstr("is 100.0M")));
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

// Whichever thread cannot be made, also in the broker: flightd either exits with an error that names the limit, or can
// take a snapshot.
TEST_F(LimitsLong, TooFewTasksForTheBrokerAreAnErrorAsWell) {
  int refused = 0;
  for (const int tasks : {3, 5, 8, 12, 16, 20, 24, 28, 34, 40, 60}) {
    SCOPED_TRACE(fmt::format("{} tasks", tasks));
    const SmallGroup few(tasks);
    ASSERT_TRUE(few.made()) << "no cgroup with pids.max";
    options_.prefix = few.enter();
    if (refuses("TasksMax")) ++refused;
  }
  EXPECT_GT(refused, 5);
}

// Whichever allocation fails: an error, never an abort.
TEST_F(Limits, TooLittleAddressSpaceAtStartIsAnError) {
  int refused = 0;
  for (const unsigned mib : {24U, 32U, 48U, 64U, 96U, 128U, 160U}) {
    SCOPED_TRACE(fmt::format("{} MiB", mib));
    options_.prefix = {"prlimit", fmt::format("--as={0}:{0}", std::uint64_t{mib} << 20U)};
    if (refuses("", {1, 127})) ++refused;  // 127 comes from ld.so
  }
  EXPECT_GT(refused, 0) << "so it did fit?";
}
#endif

// The broker writes its log lines to the same stderr.
// A parent may ignore signals, limit files and have any umask.
TEST_F(Limits, WhatIsInheritedDoesNotMatter) {
  config_["user"] = "root";  // the limits of another user's process need CAP_SYS_RESOURCE
  options_.prefix = {"sh", "-c", "trap '' CHLD PIPE; umask 0777; ulimit -S -f 1; exec \"$@\"", "sh"};
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  const Json sidecar = daemon.snapshot();
  ASSERT_TRUE(sidecar.contains("path"));
  struct stat file {};
  ASSERT_EQ(::stat(sidecar["path"].get<std::string>().c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0700U, 0600U);
  // The limit is an error of one snapshot, and of one copy.
  constexpr rlim_t kSmall = 4096;
  rlimit before{};
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_FSIZE, nullptr, &before), 0);
  rlimit small = before;
  small.rlim_cur = kSmall;
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_FSIZE, &small, nullptr), 0);
  const Outcome refused = daemon.ctl({"snapshot"});
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  EXPECT_THAT(refused.err, testing::HasSubstr("File too large"));
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_FSIZE, &before, nullptr), 0);
  const std::string copy = folder_ / "copy";
  const Outcome cut = run(daemon.ctl_command({"get", "latest", "-o", copy}), 60s, {.prepare = [] {
                            const rlimit few{kSmall, kSmall};
                            ::setrlimit(RLIMIT_FSIZE, &few);
                          }});
  EXPECT_EQ(cut.exit_status, 1) << cut.text();
  EXPECT_THAT(cut.err, testing::HasSubstr("File too large"));
  EXPECT_NE(::access(copy.c_str(), F_OK), 0);
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

// They are those that the shell could not open or closed, as systemd closes none but an init script may.
TEST_F(Limits, ClosedDescriptorsAreFilledBeforeAnyFileHasTheirNumber) {
  for (const std::string closed : {"2>&-", "<&- >&- 2>&-"}) {
    SCOPED_TRACE(closed);
    options_.prefix = {"sh", "-c", "exec \"$@\" " + closed, "sh"};
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(config_, options_));
    for (const pid_t pid : {daemon.pid(), daemon.broker_pid()}) expect_filled(pid, closed == "2>&-" ? 2 : 0);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(daemon.goes_on());
    EXPECT_TRUE(daemon.stop());
  }
}

// Whichever descriptor cannot be had, also in the broker.
TEST_F(LimitsLong, TooFewDescriptorsAtStartAreAnErrorThatNamesTheLimit) {
  int refused = 0;
  for (const int files : {8, 16, 24, 32, 40, 48, 56, 64, 72, 256}) {
    SCOPED_TRACE(fmt::format("{} descriptors", files));
    options_.prefix = {"prlimit", fmt::format("--nofile={0}:{0}", files)};
    if (refuses("RLIMIT_NOFILE")) ++refused;
  }
  EXPECT_GT(refused, 3);
}

// Root raises it, where it may, and without that right the message names it: the main thread would get SIGSEGV
// somewhere.
TEST_F(LimitsLong, AHardLimitOfASmallStackIsRaisedOrNamed) {
  if (sanitized()) return;  // a sanitizer's own start takes more
  const Arguments small{"prlimit", "--stack=65536:65536"};
  options_.prefix = small;
  EXPECT_EQ(refuses("RLIMIT_STACK"), ::prctl(PR_CAPBSET_READ, CAP_SYS_RESOURCE) != 1);
  options_.prefix = {"setpriv", "--bounding-set=-sys_resource", "--"};
  options_.prefix.insert(options_.prefix.end(), small.begin(), small.end());
  EXPECT_TRUE(refuses("RLIMIT_STACK"));
}

// One that flightd can live without is left out, and the other is an error, in time.
TEST_F(LimitsLong, AUserDatabaseThatHangsIsNamed) {
  const std::string fifo = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0644), 0);
  const auto with_fifo_over = [&fifo](const std::string& file) {
    return Arguments{
        "unshare", "--mount", "--propagation", "private", "sh", "-c", "mount --bind \"$0\" " + file + " && exec \"$@\"",
        fifo};
  };
  options_.prefix = with_fifo_over("/etc/passwd");
  EXPECT_TRUE(refuses("a source of passwd in /etc/nsswitch.conf hangs"));
  options_.prefix = with_fifo_over("/etc/group");
  EXPECT_FALSE(refuses("a source of group in /etc/nsswitch.conf hangs"));
}

// The configuration asks for nothing that the machine does not have.
TEST_F(Limits, WithoutSysfsTheConfigurationIsNotToBlame) {
  options_.prefix = {
      "unshare", "--mount", "--propagation", "private", "sh", "-c", "mount -t tmpfs none /sys && exec \"$@\"", "sh"};
  static_cast<void>(refuses("/sys"));  // 78 would be the status of a wrong configuration
}

TEST_F(Limits, AnUnreadStderrBlocksNothing) {
  const std::string path = folder_ / "stderr";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd fifo(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(::fcntl(fifo.get(), F_SETPIPE_SZ, 4096), 4096);
  options_.prefix = {"sh", "-c", "exec \"$@\" 2>" + path, "sh"};
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  // Nothing fits any more: each line from here on is one that nobody reads.
  while (::write(fifo.get(), "-", 1) == 1) {
  }
  EXPECT_EQ(errno, EAGAIN);
  for (int i = 0; i < 20; ++i) {
    const Outcome reload = daemon.ctl({"reload"}, 20s);
    ASSERT_EQ(reload.exit_status, 0) << "after " << i << " lines: " << reload.text();
  }
  EXPECT_TRUE(daemon.goes_on());
  std::string text(1U << 20U, '\0');
  const ssize_t count = ::read(fifo.get(), text.data(), text.size());
  ASSERT_GT(count, 3000) << "so the pipe was not full";
  text.resize(static_cast<std::size_t>(count));
  EXPECT_EQ(count_of(text, "is in force, requested by"), 0U) << "so the pipe was not full";
  EXPECT_TRUE(daemon.stop());
}

}  // namespace
}  // namespace flight
