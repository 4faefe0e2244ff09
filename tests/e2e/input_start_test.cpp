// SPDX-License-Identifier: Apache-2.0
// Wrong input at flightd's start: a clear error that names the object, the place, and a correct value.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "tests/e2e/daemon_fixture.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/own_broker.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class InputStart : public testing::Test {
 protected:
  // Starts flightd with this config. It must exit by itself with a status other than 0. Returns its stderr.
  std::string refused(const std::string& config, const StartOptions& options = {}, int status = 1) {
    TestDaemon daemon(folder_);
    daemon.launch(config, options);
    Outcome outcome = daemon.process().finish(30s);
    EXPECT_FALSE(outcome.timed_out) << "it should have refused to start\n" << outcome.text();
    EXPECT_EQ(outcome.exit_status, status) << outcome.text();
    return outcome.err;
  }
  // For an error in a config file: --check-config must print the same.
  std::string refused_config(const std::string& config) {
    std::string text = refused(config, {}, EX_CONFIG);
    Outcome check = run({required_env("FLIGHTD"), "--check-config", "--config", file_});
    EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
    EXPECT_THAT(check.out + check.err, HasSubstr(file_ + ":"));
    return text;
  }
  // For an error in an event of the config.
  std::string refused_event(const std::string& event) {
    std::string text = refused(with_event(event));
    Outcome check = run({required_env("FLIGHTD"), "--check-config", "--config", file_});
    EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
    EXPECT_EQ(check.out, "");
    // Equal except for the time and the program's name at the beginning.
    const std::size_t words = check.err.find("error: ");
    if (words == std::string::npos)
      ADD_FAILURE() << check.text();
    else
      EXPECT_THAT(text, HasSubstr(check.err.substr(words + 7)));
    return text;
  }
  std::string with_event(const std::string& event) {
    return fmt::format("{{\n  \"channels\": {{\n    \"probe\": {{ \"ring\": \"64K\", \"events\": [ {} ] }}\n  }}\n}}\n",
                       event);
  }

  TempFolder folder_;
  std::string file_ = folder_ / "flightd.json";
};

TEST_F(InputStart, ConfigErrorsNameFileLineAndPath) {
  struct {
    const char* what;
    std::string config;
    int line;
    std::string path;
    std::string hint;
  } const cases[] = {
      {"ring is no power of two",
       "{\n \"channels\": {\n  \"a\": {\n   \"ring\": \"3M\",\n   \"events\": [\"cpu-clock\"] } } }", 4,
       "channels.a.ring", "power of two"},
      {"unknown key",
       "{\n \"channels\": {\n  \"a\": { \"events\": [\n   { \"event\": \"cpu-clock\",\n     \"frequencey\": 99 } ] } } "
       "}",
       5, "channels.a.events", "frequency"},
      {"duplicate key", "{\n \"store\": {\n  \"max_files\": 10,\n  \"max_files\": 20 } }", 4, "store.max_files", ""},
      {"wrong unit of a time", "{\n \"store\": {\n  \"max_age\": \"30 parsecs\" } }", 3, "store.max_age", "30d"},
      {"wrong unit of a size", "{\n \"channels\": {\n  \"a\": { \"ring\": \"2X\", \"events\": [\"cpu-clock\"] } } }", 3,
       "channels.a.ring", "64K"},
      {"an extra comma", "{\n \"store\": {\n  \"max_files\": 10,\n }\n}", 3, "store", "comma"},
      {"a nonsense value", "{\n \"snapshot\": {\n\n  \"capture\": \"sometimes\" } }", 4, "snapshot.capture", "pause"},
      {"a wrong type", "{\n \"store\": { \"max_files\": \"many\" } }", 2, "store.max_files", ""},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.what);
    std::string text = refused_config(bad.config);
    EXPECT_THAT(text,
                AllOf(HasSubstr(fmt::format("{}:{}", file_, bad.line)), HasSubstr(bad.path), HasSubstr(bad.hint)));
  }
}

TEST_F(InputStart, AFileNameMakesNoLineOfTheLog) {
  const std::string file = folder_ / "x\nflightd error: made up\x1b[31m.json";
  write_text(file, "{");
  const Outcome check = run({required_env("FLIGHTD"), "--check-config", "--config", file});
  EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
  EXPECT_THAT(check.err, HasSubstr("x?flightd error: made up?[31m.json"));
  EXPECT_THAT(check.err, testing::Not(HasSubstr("\nflightd error")));
}

TEST_F(InputStart, CheckConfigPassesAGoodOne) {
  write_text(file_, stacks_config(99, "64K").dump(2));
  Outcome check = run({required_env("FLIGHTD"), "--check-config", "--config", file_});
  EXPECT_EQ(check.exit_status, 0) << check.text();
  // In a chroot without /proc, which AddressSanitizer needs.
  if (!sanitized()) {
    check =
        run({"unshare", "--mount", "sh", "-c", R"(mount -t tmpfs none /proc && exec "$0" --check-config --config "$1")",
             required_env("FLIGHTD"), file_});
    EXPECT_EQ(check.exit_status, 0) << check.text();
    EXPECT_EQ(check.err, "");
  }
  // Root can read it, the configured user cannot: the service would not start.
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  check = run({required_env("FLIGHTD"), "--check-config", "--config", file_});
  EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
  EXPECT_THAT(check.err, AllOf(HasSubstr("the user nobody cannot read it"), HasSubstr(file_)));
  // A flightd that is started by hand sees /tmp; the service does not.
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  check = run({required_env("FLIGHTD"), "--check-config", "--for-service", "--config", file_});
  EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
  EXPECT_THAT(check.err, AllOf(HasSubstr("the service cannot see"), HasSubstr(file_), HasSubstr("PrivateTmp=yes")));
  EXPECT_EQ(run({required_env("FLIGHTD"), "--for-service"}).exit_status, 2);
  EXPECT_EQ(run({required_env("FLIGHTD"), "--no-such-option"}).exit_status, 2);
  EXPECT_THAT(run({required_env("FLIGHTD"), "--version"}).out, HasSubstr("0."));
}

// The unit runs flightd as its own user, whatever "user" says. The file must be where the unit sees it.
TEST_F(InputStart, CheckConfigForTheServiceReadsAsItsUser) {
  const std::string folder = fmt::format("/var/lib/flight-e2e-{}", getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  const std::string file = folder + "/flightd.json";
  Json config = stacks_config(99, "64K");
  config["user"] = "root";
  write_text(file, config.dump(2));
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  const Outcome by_hand = run({required_env("FLIGHTD"), "--check-config", "--config", file});
  EXPECT_EQ(by_hand.exit_status, 0) << by_hand.text();
  Outcome check = run({required_env("FLIGHTD"), "--check-config", "--for-service", "--config", file});
  EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
  EXPECT_THAT(check.err, AllOf(HasSubstr("cannot read it"), HasSubstr(file)));
  EXPECT_EQ(chmod(file.c_str(), 0644), 0);
  check = run({required_env("FLIGHTD"), "--check-config", "--for-service", "--config", file});
  EXPECT_EQ(check.exit_status, 0) << check.text();
  // The units of the package may write to their own directories only.
  check = run({required_env("FLIGHTD"), "--check-config", "--for-service", "--config", file, "--state-dir", folder});
  EXPECT_EQ(check.exit_status, EX_CONFIG) << check.text();
  EXPECT_THAT(check.err, AllOf(HasSubstr("may not write to " + folder), HasSubstr("ReadWritePaths=-" + folder)));
  check = run({required_env("FLIGHTD"), "--check-config", "--for-service", "--config", file, "--state-dir",
               "/var/lib/flightd/more"});
  EXPECT_EQ(check.exit_status, 0) << check.text();
  std::filesystem::remove_all(folder);
}

TEST_F(InputStart, ConfigFileThatIsNotThere) {
  Outcome outcome = run({required_env("FLIGHTD"), "--config", folder_ / "none.json", "--state-dir", folder_ / "state",
                         "--runtime-dir", folder_ / "run"});
  EXPECT_EQ(outcome.exit_status, EX_CONFIG) << outcome.text();
  EXPECT_THAT(outcome.err, HasSubstr(folder_ / "none.json"));
}

TEST_F(InputStart, NoSuchEventNamesTheNearest) {
  EXPECT_THAT(refused_event("\"cpu-clokc\""), AllOf(HasSubstr("cpu-clokc"), HasSubstr("cpu-clock")));
  EXPECT_THAT(refused_event("\"sched:sched_swich\""), AllOf(HasSubstr("sched_swich"), HasSubstr("sched_switch")));
  EXPECT_THAT(refused_event("\"shced:sched_switch\""), AllOf(HasSubstr("shced"), HasSubstr("sched")));
}

TEST_F(InputStart, BadFilterIsNamed) {
  std::string text = refused_event(R"({ "event": "sched:sched_switch", "filter": "no_such_field == 1" })");
  EXPECT_THAT(text, AllOf(HasSubstr("no_such_field"), HasSubstr("sched:sched_switch")));
}

TEST_F(InputStart, NoPrivilegeNamesTheCapabilityAndTheSysctl) {
  // A user with its own directory and without any capability.
  for (const char* name : {"own-state", "own-run"}) {
    ASSERT_EQ(mkdir((folder_ / name).c_str(), 0755), 0);
    ASSERT_EQ(chown((folder_ / name).c_str(), 65534, 65534), 0);
  }
  // The build directory may lie in a home that only its user can enter.
  const std::string bin = folder_ / "own-bin";
  std::filesystem::create_directories(bin + "/broker");
  std::filesystem::copy_file(required_env("FLIGHTD"), bin + "/flightd");
  std::filesystem::copy_file(required_env("FLIGHTD_BROKER"), bin + "/broker/flightd-broker");
  StartOptions options;
  options.program = bin + "/flightd";
  options.prefix = {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"};
  options.state_dir = folder_ / "own-state";
  options.runtime_dir = folder_ / "own-run";
  std::string paranoid = read_text("/proc/sys/kernel/perf_event_paranoid");
  paranoid.erase(paranoid.find_last_not_of('\n') + 1);
  std::string text = refused(stacks_config(99, "64K").dump(), options);
  EXPECT_THAT(text, AllOf(testing::ContainsRegex("CAP_(PERFMON|SYS_ADMIN)"), HasSubstr("perf_event_paranoid"),
                          HasSubstr(paranoid)));
}

TEST_F(InputStart, TracefsThatIsNotMounted) {
  // A mount namespace without tracefs, in which flightd may not mount it.
  StartOptions options;
  const std::string script = R"(umount -l /sys/kernel/tracing; umount -l /sys/kernel/debug 2>/dev/null
                                exec setpriv --bounding-set=-sys_admin -- "$@")";
  options.prefix = {"unshare", "--mount", "sh", "-c", script, "sh"};
  std::string text = refused(with_event("\"sched:sched_switch\""), options);
  EXPECT_THAT(text, AllOf(HasSubstr("tracefs"), HasSubstr("mount"), HasSubstr("/sys/kernel/tracing")));
}

// The cause can go away: flightd records meanwhile.
TEST_F(InputStart, StateFolderThatCannotBeMade) {
  const auto starts_without = [this](const std::string& state_dir) {
    SCOPED_TRACE(state_dir);
    TestDaemon daemon(folder_);
    ASSERT_TRUE(daemon.start(stacks_config(99, "64K"), {.state_dir = state_dir}));
    EXPECT_THAT(daemon.status()["warnings"].dump(), AllOf(HasSubstr("degraded (disk)"), HasSubstr(state_dir)));
    const Outcome failed = daemon.ctl({"snapshot"});
    EXPECT_EQ(failed.exit_status, 1) << failed.text();
    EXPECT_THAT(failed.err, AllOf(HasSubstr(state_dir), HasSubstr("recording continues")));
    const Outcome listed = daemon.ctl({"list"});
    EXPECT_EQ(listed.exit_status, 0) << listed.text();
    EXPECT_EQ(listed.out, "");
    EXPECT_THAT(listed.err, AllOf(HasSubstr("degraded (disk)"), HasSubstr(state_dir)));
    EXPECT_TRUE(records(daemon.status()));
    EXPECT_TRUE(daemon.stop());
  };
  starts_without(folder_ / "none/state");
  write_text(folder_ / "a-file", "");
  starts_without(folder_ / "a-file");
  const std::string disk = folder_ / "disk";
  ASSERT_EQ(mkdir(disk.c_str(), 0755), 0);
  ASSERT_TRUE(mount_tmpfs(disk, "size=1m"));
  ASSERT_TRUE(remount_tmpfs(disk, true, ""));
  starts_without(disk + "/state");
  unmount(disk);
}

TEST_F(InputStart, StateFolderThatIsAnothersLink) {
  const std::string elsewhere = folder_ / "elsewhere";
  ASSERT_EQ(mkdir(elsewhere.c_str(), 0700), 0);
  StartOptions options;
  options.state_dir = folder_ / "link";
  ASSERT_EQ(symlink(elsewhere.c_str(), options.state_dir.c_str()), 0);
  ASSERT_EQ(lchown(options.state_dir.c_str(), 65534, 65534), 0);
  EXPECT_THAT(refused(stacks_config(99, "64K").dump(), options), HasSubstr(options.state_dir));
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST_F(InputStart, SecondFlightdOnTheSameRuntimeFolder) {
  TestDaemon first(folder_);
  ASSERT_TRUE(first.start(stacks_config(99, "64K")));
  StartOptions options;
  options.state_dir = folder_ / "other-state";
  TestDaemon second(folder_);
  second.launch(stacks_config(99, "64K").dump(), options);
  Outcome outcome = second.process().finish(30s);
  EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
  EXPECT_THAT(outcome.err, AllOf(HasSubstr(first.runtime_dir()), HasSubstr(std::to_string(first.pid()))));
  EXPECT_TRUE(first.goes_on());
  EXPECT_TRUE(first.stop());
}

// The second flightd would have changed to another user: the first one's files keep their owner.
TEST_F(InputStart, SecondFlightdChangesNothingOfTheFirst) {
  TestDaemon first(folder_);
  ASSERT_TRUE(first.start(stacks_config(99, "64K")));
  Json config = stacks_config(99, "64K");
  config["user"] = "daemon";
  EXPECT_THAT(refused(config.dump()), AllOf(HasSubstr("another flightd"), HasSubstr(std::to_string(first.pid()))));
  EXPECT_TRUE(first.goes_on());
  EXPECT_TRUE(first.stop());
}

TEST_F(InputStart, FolderThatIsNotFlightdsOwnIsLeftAlone) {
  StartOptions options;
  const auto refused_and_unchanged = [&](const std::string& path, const char* hint) {
    options.runtime_dir = path;
    struct stat before {
    }, after{};
    ASSERT_EQ(stat(path.c_str(), &before), 0);
    EXPECT_THAT(refused(stacks_config(99, "64K").dump(), options), AllOf(HasSubstr(path), HasSubstr(hint)));
    ASSERT_EQ(stat(path.c_str(), &after), 0);
    EXPECT_EQ(after.st_uid, before.st_uid);
    EXPECT_EQ(after.st_mode, before.st_mode);
  };
  const std::string shared = folder_ / "shared", used = folder_ / "used";
  ASSERT_EQ(mkdir(shared.c_str(), 0777), 0);
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  refused_and_unchanged(shared, "all users may write");
  ASSERT_EQ(mkdir(used.c_str(), 0755), 0);
  write_text(used + "/of-others", "");
  refused_and_unchanged(used, "other files");
}

// Links that flightd's user could have put into its directories do not redirect root at the next start.
TEST_F(InputStart, TrapsInItsOwnFolders) {
  const std::string elsewhere = folder_ / "elsewhere";
  ASSERT_EQ(mkdir(elsewhere.c_str(), 0700), 0);
  ASSERT_EQ(mkdir((folder_ / "state").c_str(), 0755), 0);
  write_text(folder_ / "state/flightd.lock", "");
  ASSERT_EQ(symlink(elsewhere.c_str(), (folder_ / "state/snapshots").c_str()), 0);
  EXPECT_THAT(refused(stacks_config(99, "64K").dump()), HasSubstr("state/snapshots"));
  struct stat info {};
  ASSERT_EQ(stat(elsewhere.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 0U);
  EXPECT_EQ(info.st_mode & 07777U, 0700U);

  ASSERT_EQ(unlink((folder_ / "state/snapshots").c_str()), 0);
  ASSERT_EQ(unlink((folder_ / "run/flightd.lock").c_str()), 0);
  ASSERT_EQ(mkfifo((folder_ / "run/flightd.lock").c_str(), 0644), 0);
  EXPECT_THAT(refused(stacks_config(99, "64K").dump()), HasSubstr("run/flightd.lock"));
}

TEST_F(InputStart, ProfileBesideAConfigFileOfItsOwn) {
  EXPECT_THAT(refused_config("{\n \"profile\": \"sched\" }"), AllOf(HasSubstr(":2: profile"), HasSubstr("sched")));
}

// flightd records even if it may lock less memory than staging needs. The status says so.
class InputLimits : public OwnBroker {};

TEST_F(InputLimits, RefusedMlockIsAWarning) {
  options_.prefix.insert(options_.prefix.begin(), {"prlimit", "--memlock=65536:65536"});
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  // Under a sanitizer mlock(2) does nothing and never fails.
  if (!sanitized()) {
    EXPECT_THAT(daemon.status()["warnings"].dump(), AllOf(HasSubstr("lock"), HasSubstr("staging")));
  }
  EXPECT_TRUE(daemon.goes_on());
  EXPECT_TRUE(daemon.stop());
}

}  // namespace
}  // namespace flight
