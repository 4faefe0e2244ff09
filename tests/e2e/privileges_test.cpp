// SPDX-License-Identifier: Apache-2.0
// The privileges on both sides of the broker protocol: what flightd holds, and what its broker does.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/capability.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "tests/e2e/daemon_test.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::uint64_t capabilities(const std::string& process, const std::string& set) {
  std::string status = read_text(process + "/status");
  std::size_t at = status.find(set + ":");
  EXPECT_NE(at, std::string::npos);
  return std::strtoull(status.c_str() + at + set.size() + 1, nullptr, 16);
}

// Checks its threads, too: each thread has its own credentials.
void expect_no_capability(pid_t pid) {
  std::size_t threads = 0;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    for (const char* set : {"CapEff", "CapPrm", "CapInh", "CapAmb"})
      EXPECT_EQ(capabilities(thread.path(), set), 0U) << set << " of " << read_text(thread.path() / "comm");
    ++threads;
  }
  EXPECT_GT(threads, 5U);
}

class BrokerPrivileges : public testing::Test {
 protected:
  void SetUp() override {
    Json config = stacks_config(99, "64K");
    config["channels"]["sched"] = {{"ring", "64K"}, {"events", {"sched:sched_process_exec"}}};
    ASSERT_TRUE(daemon_.start(config));
  }
  void TearDown() override { EXPECT_TRUE(daemon_.stop()); }

  TempFolder folder_;
  TestDaemon daemon_{folder_};
};

TEST_F(BrokerPrivileges, FlightdKeepsNoPrivilege) {
  expect_no_capability(daemon_.pid());
  EXPECT_EQ(capabilities(fmt::format("/proc/{}", daemon_.pid()), "CapBnd"), 0U);
  std::string status = read_text(fmt::format("/proc/{}/status", daemon_.pid()));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(status, testing::Not(HasSubstr("Uid:\t0\t")));
  // Its own user cannot open them: what the rings hold is of all users.
  for (const char* file : {"mem", "maps", "environ"}) {
    struct stat found {};
    ASSERT_EQ(::stat(fmt::format("/proc/{}/{}", daemon_.pid(), file).c_str(), &found), 0) << file;
    EXPECT_EQ(found.st_uid, 0U) << file;
  }
}

class PrivilegesByUser : public SurvivesTest {
 protected:
  explicit PrivilegesByUser(const char* user) : SurvivesTest(stacks_config(99, "64K")) { config_["user"] = user; }
};
struct PrivilegesAsRoot : PrivilegesByUser {
  PrivilegesAsRoot() : PrivilegesByUser("root") {}
};
struct PrivilegesAsNobody : PrivilegesByUser {
  PrivilegesAsNobody() : PrivilegesByUser("no-such-user") {}
};

TEST_F(PrivilegesAsRoot, ItKeepsNoPrivilegeEither) {
  EXPECT_THAT(daemon_.log(), HasSubstr("running as root"));
  expect_no_capability(daemon_.pid());
}

// Other services run as nobody, too: if flightd fell back to it, it does not trust this uid.
TEST_F(PrivilegesAsNobody, NobodyIsNotTrusted) {
  EXPECT_THAT(daemon_.log(), HasSubstr("the user no-such-user does not exist"));
  const Outcome outcome = run(own_user_command({"--json", "list"}));
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("PermissionDenied"));
}

TEST_F(BrokerPrivileges, BrokerKeepsOnlyWhatItNeeds) {
  std::uint64_t allowed = 0;
  for (int capability : {CAP_PERFMON, CAP_IPC_LOCK, CAP_SYSLOG, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH, CAP_CHOWN,
                         CAP_CHECKPOINT_RESTORE}) {
    allowed |= 1ULL << capability;
  }
  // The kernels of Debian and Ubuntu require it from 3 on.
  if (std::atoi(read_text("/proc/sys/kernel/perf_event_paranoid").c_str()) >= 3) allowed |= 1ULL << CAP_SYS_ADMIN;
  const std::string broker = fmt::format("/proc/{}", daemon_.broker_pid());
  EXPECT_EQ(capabilities(broker, "CapPrm") & ~allowed, 0U);
  EXPECT_EQ(capabilities(broker, "CapEff") & ~allowed, 0U);
  EXPECT_EQ(capabilities(broker, "CapAmb"), 0U);
}

// The holder of a sampling event can change its period. So every perf descriptor of flightd must belong to a dummy
// event, whose period has no effect.
TEST_F(BrokerPrivileges, OnlyDummyEventsCrossIt) {
  UniqueFd flightd(static_cast<int>(syscall(SYS_pidfd_open, daemon_.pid(), 0)));
  std::size_t events = 0;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", daemon_.pid()))) {
    std::error_code gone;
    if (fs::read_symlink(entry.path(), gone) != "anon_inode:[perf_event]") continue;
    UniqueFd event(
        static_cast<int>(syscall(SYS_pidfd_getfd, flightd.get(), std::atoi(entry.path().filename().c_str()), 0)));
    ASSERT_TRUE(event);
    std::uint64_t period = 1'000'000'000;
    errno = 0;
    EXPECT_NE(ioctl(event.get(), PERF_EVENT_IOC_PERIOD, &period), 0);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_NE(ioctl(event.get(), PERF_EVENT_IOC_SET_FILTER, "common_pid == 1"), 0);
    ++events;
  }
  // Two channels and the sideband.
  EXPECT_EQ(events, 3 * usable_cpus().size());
}

}  // namespace
}  // namespace flight
