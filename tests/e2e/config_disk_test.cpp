// SPDX-License-Identifier: Apache-2.0
// The configuration is a link to a file on a file system whose server hangs: flightd and its broker start, say what
// they wait for, go on at a reload, and end. A process that waits for a FUSE server ignores SIGKILL.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "tests/e2e/mounts.hpp"
#include "tests/e2e/service_start.hpp"

namespace flight {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

// One second, and the time that the work of others takes.
// A sanitizer looks for leaks at the end.
Milliseconds ends() { return sanitized() ? 30s : 5s; }

class ConfigDisk : public ServiceStart {
 protected:
  void SetUp() override {
    for (const std::string& name : {backing_, disk_}) ASSERT_EQ(mkdir(name.c_str(), 0755), 0);
    for (const std::string& name : {flightds_, brokers_}) {
      write_text(backing_ + "/" + name, config_.dump());
      fs::create_symlink(disk_ + "/" + name, folder_ / name);
    }
    set_fault("none 0 0 0");
    fuse_.emplace(Child::start({required_env("FLIGHT_SLOW_DISK"), backing_, disk_, control_}));
    ASSERT_TRUE(wait_until([&] { return fs::exists(disk_ + "/" + flightds_); }, 10s)) << fuse_->err();
    ServiceStart::SetUp();
  }
  void TearDown() override {
    answer_again();
    service_.reset();
    other_.reset();
    broker_.reset();
    unmount(disk_);
    ServiceStart::TearDown();
  }
  void set_fault(const std::string& text) const {
    write_text(control_ + ".new", text);
    fs::rename(control_ + ".new", control_);
  }
  void hang() { set_fault("* -1 0 0"); }
  void answer_again() { set_fault("none 0 0 0"); }
  // This program's configuration no longer lies on the disk.
  void keep_here(const std::string& name) const {
    fs::remove(folder_ / name);
    write_text(folder_ / name, config_.dump());
    ASSERT_EQ(chmod((folder_ / name).c_str(), 0644), 0);
  }
  [[nodiscard]] std::string silent(const std::string& name) const {
    return fmt::format("the configuration {} does not answer: ", folder_ / name);
  }
  // The child of a program that waits for the disk: it is in state S, and in D after it was killed.
  static std::optional<pid_t> reading(pid_t parent) {
    for (const pid_t child : children_of(parent)) {
      const std::string stat = read_text(fmt::format("/proc/{}/stat", child));
      for (const char* state : {"(flightd-config) S ", "(flightd-config) D "})
        if (stat.find(state) != std::string::npos) return child;
    }
    return std::nullopt;
  }
  static void expect_holds_nothing(pid_t child) {
    std::size_t held = 0;
    std::error_code error;
    for (const auto& fd : fs::directory_iterator(fmt::format("/proc/{}/fd", child), error))
      held += fs::read_symlink(fd, error) == "/dev/null" ? 0 : 1;
    EXPECT_FALSE(error) << error.message();
    EXPECT_LE(held, 1U) << "its socket";
    EXPECT_EQ(read_text(fmt::format("/proc/{}/oom_score_adj", child)), "0\n");
  }
  [[nodiscard]] Child start_reload() const {
    return Child::start({required_env("FLIGHTCTL"), "--socket", control(), "reload"});
  }
  static void end_soon(Child& program, Milliseconds limit = ends()) {
    program.signal(SIGTERM);
    EXPECT_EQ(program.wait(limit), 0) << program.err();
  }
  // At its end, one that has written a snapshot waits for the disk of its store, which others may keep busy.
  static void end_after_snapshot(Child& program) { end_soon(program, 60s); }
  void start_broker_service() {
    const std::string id = std::to_string(kClientId);
    other_.emplace(Child::start({program_, "--config", folder_ / brokers_, "--state-dir", folder_ / "state", "--group",
                                 id, "--socket", folder_ / "broker/other", "--client-uid", id},
                                {.env = {notify_socket()}}));
  }

  const std::string backing_ = folder_ / "backing", disk_ = folder_ / "disk", control_ = folder_ / "fault";
  const std::string flightds_ = "flightd.json", brokers_ = "broker.json";
  std::optional<Child> fuse_, other_;
};
using ConfigDiskLong = ConfigDisk;

TEST_F(ConfigDisk, AServiceSaysWhatItsStartWaitsFor) {
  options_.prefix = {"choom", "-n", "500", "--"};
  hang();
  start_service();
  expect_unstarted(silent(flightds_));
  EXPECT_EQ(count_of(log(), "flightd cannot start"), 1U);
  const auto child = reading(service_->pid());
  ASSERT_TRUE(child);
  expect_holds_nothing(*child);
  const Outcome refused = ctl({"reload"});
  EXPECT_EQ(refused.exit_status, 1);
  EXPECT_THAT(refused.err, HasSubstr(silent(flightds_)));
  EXPECT_EQ(children_of(service_->pid()).size(), 2U) << "the reading before, and that of the reload";
  answer_again();
  EXPECT_TRUE(starts_to_record());
  EXPECT_EQ(count_of(log(), "flightd cannot start"), 1U);
  end();
}

// Follows the advice of troubleshooting.md.
TEST_F(ConfigDisk, ACopyInPlaceOfTheLinkStartsIt) {
  keep_here(brokers_);
  hang();
  start_service();
  EXPECT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (" + silent(flightds_))) << log();
  keep_here(flightds_);
  const Outcome reload = ctl({"reload"});
  EXPECT_EQ(reload.exit_status, 0) << reload.text();
  EXPECT_TRUE(starts_to_record());
  end();
}

TEST_F(ConfigDisk, AServiceEndsWhileItsStartWaits) {
  hang();
  start_service();
  EXPECT_TRUE(manager_->wait_for("READY=1\nSTATUS=recording: no (" + silent(flightds_))) << log();
  service_->signal(SIGTERM);
  EXPECT_TRUE(service_->wait(ends())) << log();
}

TEST_F(ConfigDisk, ABrokerSaysWhatItsStartWaitsFor) {
  hang();
  start_broker_service();
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (" + silent(brokers_))) << other_->err();
  EXPECT_TRUE(manager_->wait_for("READY=1")) << other_->err();
  const auto child = reading(other_->pid());
  ASSERT_TRUE(child);
  expect_holds_nothing(*child);
  answer_again();
  EXPECT_TRUE(manager_->wait_for("STATUS=recording ")) << other_->err();
  EXPECT_EQ(count_of(other_->err(), silent(brokers_)), 1U) << other_->err();
  end_soon(*other_);
}

// In an earlier version only the next broker read it.
TEST_F(ConfigDisk, ABrokerFindsACopyInPlaceOfTheLink) {
  hang();
  start_broker_service();
  EXPECT_TRUE(manager_->wait_for("STATUS=recording: no (" + silent(brokers_))) << other_->err();
  keep_here(brokers_);
  EXPECT_TRUE(manager_->wait_for("STATUS=recording ")) << other_->err();
  end_soon(*other_);
}

TEST_F(ConfigDisk, ABrokerEndsWhileItsStartWaits) {
  hang();
  start_broker_service();
  EXPECT_TRUE(manager_->wait_for("READY=1")) << other_->err();
  end_soon(*other_);
  EXPECT_TRUE(manager_->wait_for("STOPPING=1"));
}

// It writes snapshots meanwhile, and the broker answers.
TEST_F(ConfigDisk, FlightdGoesOnAndEndsWhileAReloadWaits) {
  start_service();
  ASSERT_TRUE(starts_to_record());
  hang();
  Child reload = start_reload();
  EXPECT_TRUE(wait_until([&] { return reading(service_->pid()).has_value(); }, 10s));
  const Outcome snapshot = ctl({"snapshot"});
  EXPECT_EQ(snapshot.exit_status, 0) << snapshot.text();
  EXPECT_TRUE(reload.running()) << "it is still waited for";
  end_after_snapshot(*service_);
  const Outcome refused = reload.finish(ends());
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  EXPECT_THAT(refused.err, testing::Not(HasSubstr(silent(flightds_)))) << "it ended only after the reload was given up";
}

TEST_F(ConfigDisk, TheBrokerEndsWhileAReloadWaitsAndTheNextOneIsThere) {
  keep_here(flightds_);
  start_service();
  ASSERT_TRUE(starts_to_record());
  hang();
  Child reload = start_reload();
  EXPECT_TRUE(wait_until([&] { return reading(broker_->pid()).has_value(); }, 10s)) << broker_->err();
  EXPECT_TRUE(reload.running()) << "it is still waited for";
  end_soon(*broker_);
  keep_here(brokers_);
  ASSERT_NO_FATAL_FAILURE(start_broker());
  EXPECT_TRUE(starts_to_record());
  end_soon(*service_);
}

TEST_F(ConfigDiskLong, AReloadOfFlightdIsGivenUpAndWorksLater) {
  start_service();
  ASSERT_TRUE(starts_to_record());
  hang();
  for (int i = 0; i < 6; ++i) {
    const Outcome refused = ctl({"reload"});
    EXPECT_EQ(refused.exit_status, 1) << refused.text();
    EXPECT_THAT(refused.err, HasSubstr(silent(flightds_)));
  }
  EXPECT_EQ(children_of(service_->pid()).size(), 4U) << "no more are left behind";
  EXPECT_EQ(ctl({"snapshot"}).exit_status, 0);
  answer_again();
  EXPECT_TRUE(wait_until([&] { return ctl({"reload"}).exit_status == 0; }, 20s)) << log();
  EXPECT_TRUE(records(status()));
  end();
}

TEST_F(ConfigDiskLong, AReloadOfTheBrokerIsGivenUpAndWorksLater) {
  keep_here(flightds_);
  start_service();
  ASSERT_TRUE(starts_to_record());
  hang();
  for (int i = 0; i < 2; ++i) {
    const Outcome refused = ctl({"reload"});
    EXPECT_EQ(refused.exit_status, 1) << refused.text();
    EXPECT_THAT(refused.err, HasSubstr(silent(brokers_)));
  }
  EXPECT_EQ(ctl({"snapshot"}).exit_status, 0);
  answer_again();
  EXPECT_TRUE(wait_until([&] { return ctl({"reload"}).exit_status == 0; }, 20s)) << broker_->err();
  EXPECT_EQ(ctl({"snapshot"}).exit_status, 0);
  end();
}

// Packages wait for it, and so does `flightctl doctor`.
TEST_F(ConfigDiskLong, ACheckEnds) {
  hang();
  Child check = Child::start({required_env("FLIGHTD"), "--check-config", "--config", folder_ / flightds_});
  EXPECT_TRUE(wait_until([&] { return reading(check.pid()).has_value(); }, 10s));
  const Outcome refused = check.finish(30s);
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  EXPECT_THAT(refused.err, HasSubstr(silent(flightds_)));
}

TEST_F(ConfigDiskLong, ACheckEndsIfTheStateDirectoryHangs) {
  keep_here(flightds_);
  hang();
  const std::string state = disk_ + "/state";
  Child check =
      Child::start({required_env("FLIGHTD"), "--check-config", "--config", folder_ / flightds_, "--state-dir", state});
  const Outcome refused = check.finish(30s);
  EXPECT_EQ(refused.exit_status, 1) << refused.text();
  EXPECT_THAT(refused.err, HasSubstr(state + " does not answer: "));
}

// By hand, as one that starts its own broker.
TEST_F(ConfigDisk, ByHandItEndsWhileItsStartWaits) {
  hang();
  Child by_hand = Child::start({required_env("FLIGHTD"), "--config", folder_ / flightds_, "--state-dir",
                                folder_ / "scratch/state", "--runtime-dir", folder_ / "scratch/run"});
  EXPECT_TRUE(wait_until([&] { return reading(by_hand.pid()).has_value(); }, 10s));
  by_hand.signal(SIGTERM);
  EXPECT_TRUE(by_hand.wait(ends())) << by_hand.err();
}

}  // namespace
}  // namespace flight
