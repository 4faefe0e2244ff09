// SPDX-License-Identifier: Apache-2.0
// A new configuration without a restart: unchanged channels keep their history, an invalid configuration changes
// nothing in flightd or the broker, and all clients learn the configuration in force. This test sends itself signals,
// which are the only records of a quiet channel, so that it can count them exactly.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <set>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/mounts.hpp"
#include "tests/e2e/own_broker.hpp"

namespace flight {
namespace {

using testing::Contains;
using testing::HasSubstr;

Json quiet_channel() {
  const std::string filter = fmt::format("sig == {} && pid == {}", SIGWINCH, getpid());
  return {{"ring", "256K"}, {"events", {{{"event", "signal:signal_generate"}, {"filter", filter}}}}};
}

void be_quiet(int times) {
  std::signal(SIGWINCH, SIG_IGN);
  for (int i = 0; i < times; ++i) kill(getpid(), SIGWINCH);
}

std::uint64_t samples(const Json& sidecar, const std::string& channel) {
  std::uint64_t sum = 0;
  for (const Json& ring : sidecar["rings"])
    if (ring["channel"] == channel) sum += ring["samples"].get<std::uint64_t>();
  return sum;
}

std::vector<std::string> channels_of(const Json& status) {
  std::vector<std::string> names;
  for (const Json& channel : status["channels"]) names.push_back(channel["name"]);
  return names;
}

class Reload : public DaemonTest {
 protected:
  Reload() : DaemonTest(stacks_config(99, "256K")) { config_["channels"]["quiet"] = quiet_channel(); }
  void write(std::string_view text) const { write_text(folder_ / "flightd.json", text); }
  void write_config(const Json& config) const { write(config.dump(2)); }
};

TEST_F(Reload, WhatDidNotChangeKeepsItsHistory) {
  be_quiet(300);
  const std::string before = daemon_.snapshot()["config_digest"];
  const Json nothing = daemon_.ctl_json({"reload"});
  EXPECT_EQ(nothing["changed"], false);
  EXPECT_EQ(nothing["changes"], Json::array());
  EXPECT_EQ(nothing["digest"], before);
  EXPECT_EQ(nothing["lost_history"], Json::array());

  config_["channels"]["more"] = {{"ring", "64K"}, {"events", {"cpu-clock"}}};
  config_["channels"]["quiet"]["min_history"] = "1s";  // the history that it holds is long enough
  config_["snapshot"] = {{"compression", "none"}};
  write_config(config_);
  const Json reloaded = daemon_.ctl_json({"reload"});
  EXPECT_EQ(reloaded["changed"], true);
  std::set<std::string> paths;
  for (const Json& change : reloaded["changes"]) paths.insert(change["path"]);
  EXPECT_THAT(paths, testing::UnorderedElementsAre("channels.more.ring", "channels.more.events[0]",
                                                   "channels.quiet.min_history", "snapshot.compression"));
  EXPECT_TRUE(reloaded["warnings"].empty()) << reloaded.dump();
  EXPECT_EQ(reloaded["lost_history"], Json::array());
  EXPECT_THAT(channels_of(daemon_.status()), testing::UnorderedElementsAre("stacks", "quiet", "more"));
  be_quiet(200);
  const Json sidecar = daemon_.snapshot();
  EXPECT_EQ(samples(sidecar, "quiet"), 500U) << "from before and after the reload";
  EXPECT_EQ(sidecar["config_digest"], reloaded["digest"]);
  EXPECT_NE(sidecar["config_digest"], before);
  EXPECT_EQ(sidecar["compression"], "none");
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Reload, ABadOneChangesNothing) {
  be_quiet(100);
  const Json status = daemon_.status();
  const auto refused = [&] {
    Outcome outcome = daemon_.ctl({"--json", "reload"});
    EXPECT_EQ(outcome.exit_status, 1) << outcome.text();
    EXPECT_EQ(outcome.out, "");
    Json error = Json::parse(outcome.err, nullptr, false);
    EXPECT_EQ(error.value("error", ""), "io.flightd.Recorder.BadConfig") << outcome.text();
    return error.value("message", "");
  };
  write("{\n\"channels\": {},,\n}");
  EXPECT_THAT(refused(), HasSubstr(folder_ / "flightd.json:2: "));
  write("{\n\"stor\": {}}");
  EXPECT_THAT(refused(), HasSubstr(folder_ / "flightd.json:2: stor: there is no such key; the nearest is 'store'"));
  // flightd accepts these; only the broker can detect the error.
  Json bad = config_;
  bad["snapshot"] = {{"compression", "none"}};
  bad["channels"]["x"] = {{"ring", "64K"}, {"events", {"sched:sched_swich"}}};
  write_config(bad);
  std::string message = refused();
  EXPECT_THAT(message, HasSubstr("sched:sched_switch"));
  EXPECT_THAT(message, HasSubstr(folder_ / "flightd.json:")) << "the line is reported, too";
  bad["channels"].erase("x");
  bad["triggers"] = {{"t", {{"event", "oom:mark_viktim"}}}};
  write_config(bad);
  EXPECT_THAT(refused(), HasSubstr("trigger 't'"));
  std::filesystem::remove(folder_ / "flightd.json");
  EXPECT_THAT(refused(), HasSubstr("No such file"));

  const Json sidecar = daemon_.snapshot();
  EXPECT_EQ(samples(sidecar, "quiet"), 100U);
  EXPECT_EQ(sidecar["compression"], "zstd") << "not even what flightd could have taken";
  EXPECT_EQ(channels_of(daemon_.status()), channels_of(status));
  EXPECT_THAT(daemon_.log(), HasSubstr("the old configuration stays"));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Reload, SighupIsTheSame) {
  config_["channels"]["more"] = {{"ring", "64K"}, {"events", {"cpu-clock"}}};
  write_config(config_);
  daemon_.process().signal(SIGHUP);
  EXPECT_TRUE(wait_until([&] { return channels_of(daemon_.status()).size() == 3; }, 60s)) << daemon_.log();
  write("{");
  daemon_.process().signal(SIGHUP);
  EXPECT_TRUE(wait_until([&] { return daemon_.log().find("requested by SIGHUP: ") != std::string::npos; }, 60s));
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Reload, NamesTheChannelsThatLostTheirHistory) {
  config_["channels"]["quiet"]["ring"] = "128K";
  write_config(config_);
  EXPECT_EQ(daemon_.ctl_json({"reload"})["lost_history"], Json::array({"quiet"}));
  config_["channels"].erase("quiet");
  write_config(config_);
  EXPECT_THAT(daemon_.ctl({"reload"}).out, HasSubstr("channel 'quiet' lost its history"));
  EXPECT_TRUE(daemon_.stop());
}

// In an earlier version it deleted them at once, without a word.
TEST_F(Reload, DeletesNoSnapshotAndSaysWhatWillBe) {
  for (int i = 0; i < 4; ++i) (void)daemon_.snapshot();
  config_["store"]["max_files"] = 2;
  config_["store"]["keep_first"] = config_["store"]["keep_last"] = 0;
  write_config(config_);
  const Json reloaded = daemon_.ctl_json({"reload"});
  EXPECT_THAT(reloaded["warnings"].dump(), HasSubstr("2 snapshots ("));
  EXPECT_THAT(reloaded["warnings"].dump(), HasSubstr("will delete them"));
  EXPECT_EQ(daemon_.ctl_json({"list"}).size(), 4U);
  (void)daemon_.snapshot();
  EXPECT_TRUE(wait_until([&] { return daemon_.ctl_json({"list"}).size() == 2U; }, 20s)) << daemon_.log();
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Reload, APauseOutlivesIt) {
  ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
  config_["channels"]["other"] = quiet_channel();
  write_config(config_);
  EXPECT_EQ(daemon_.ctl_json({"reload"})["changed"], true);
  EXPECT_EQ(daemon_.status()["recording"], "paused");
  be_quiet(50);
  ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
  be_quiet(20);
  const Json sidecar = daemon_.snapshot();
  EXPECT_EQ(samples(sidecar, "quiet"), 20U);
  EXPECT_EQ(samples(sidecar, "other"), 20U);
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Reload, SaysWhatNeedsARestart) {
  config_["user"] = "root";
  config_["snapshot"] = {{"workers", 1}};
  write_config(config_);
  const Json reloaded = daemon_.ctl_json({"reload"});
  ASSERT_EQ(reloaded["warnings"].size(), 2U) << reloaded.dump();
  EXPECT_THAT(reloaded["warnings"][0], HasSubstr("until flightd is restarted"));
  EXPECT_THAT(daemon_.status()["warnings"].get<std::vector<std::string>>(), Contains(reloaded["warnings"][0]));
  EXPECT_EQ(daemon_.ctl_json({"reload"})["warnings"].size(), 2U) << "it is still so";
  config_["user"] = "nobody";
  config_.erase("snapshot");
  write_config(config_);
  EXPECT_TRUE(daemon_.ctl_json({"reload"})["warnings"].empty());
  EXPECT_TRUE(daemon_.stop());
}

// Clients share reloads, snapshots use whichever set of rings there is, and every client gets a reply.
TEST_F(Reload, ManyAtOnceAndSnapshotsMeanwhile) {
  be_quiet(100);
  for (int round = 0; round < 4; ++round) {
    if (round % 2 == 0)
      config_["channels"]["more"] = {{"ring", "64K"}, {"events", {"cpu-clock"}}};
    else
      config_["channels"].erase("more");
    write_config(config_);
    std::vector<Child> askers;
    for (int i = 0; i < 4; ++i) {
      askers.push_back(Child::start(daemon_.ctl_command({"--json", "reload"})));
      askers.push_back(Child::start(daemon_.ctl_command({"--json", "snapshot"})));
    }
    for (Child& asker : askers) {
      const Outcome outcome = asker.finish(120s);
      EXPECT_EQ(outcome.exit_status, 0) << outcome.text();
      const Json answer = Json::parse(outcome.out, nullptr, false);
      if (answer.contains("rings")) {
        EXPECT_EQ(samples(answer, "quiet"), 100U);
      }
    }
    EXPECT_EQ(channels_of(daemon_.status()).size(), round % 2 == 0 ? 3U : 2U);
  }
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(Reload, ConfigSaysWhereEachValueCameFrom) {
  config_["triggers"] = {{"winch", {{"event", {{"event", "signal:signal_generate"}, {"filter", "sig == 28"}}}}}};
  write_config(config_);
  ASSERT_EQ(daemon_.ctl({"reload"}).exit_status, 0);
  const Json answer = daemon_.ctl_json({"config"});
  std::map<std::string, Json> values;
  for (const Json& value : answer["config"]) values[value["path"]] = value;
  EXPECT_EQ(values["channels.stacks.ring"]["value"], "256K");
  EXPECT_EQ(values["channels.stacks.ring"]["file"], folder_ / "flightd.json");
  EXPECT_GT(values["channels.stacks.ring"]["line"], 1);
  EXPECT_EQ(values["store.max_files"]["value"], "200");
  EXPECT_EQ(values["store.max_files"]["file"], "built-in");
  EXPECT_EQ(answer["digest"], daemon_.snapshot()["config_digest"]);
  const Json& memory = answer["memory"];
  const Json status = daemon_.status();
  const auto cpus = status["cpus"].get<std::uint64_t>();
  EXPECT_EQ(memory["ring_bytes"], cpus * 2 * (256U << 10U));
  EXPECT_THAT(memory["sideband_bytes"].get<std::uint64_t>() / cpus,
              testing::AnyOf(512U << 10U, 1U << 20U, 2U << 20U, 4U << 20U))
      << "what an eighth of memory.max allows";
  EXPECT_EQ(memory["sideband_bytes"].get<std::uint64_t>() % cpus, 0U);
  EXPECT_GE(memory["trigger_bytes"], cpus * 4096);
  EXPECT_EQ(memory["staging_bytes"], status["self"]["staging_bytes"]);
  std::uint64_t sum = 0;
  for (const char* part : {"ring_bytes", "staging_bytes", "sideband_bytes", "trigger_bytes", "program_bytes"})
    sum += memory[part].get<std::uint64_t>();
  EXPECT_EQ(memory["sum_bytes"], sum);
  EXPECT_LE(memory["sum_bytes"], memory["max_bytes"]);
  const Outcome text = daemon_.ctl({"config"});
  EXPECT_THAT(text.out, HasSubstr(fmt::format("{}:{}", folder_ / "flightd.json",
                                              values["channels.stacks.ring"]["line"].get<int>())));
  EXPECT_THAT(text.out, HasSubstr("memory.max is"));
  // A trigger's ring belongs to no channel.
  EXPECT_THAT(channels_of(status), testing::UnorderedElementsAre("stacks", "quiet"));
  EXPECT_TRUE(daemon_.stop());
}

// All 200 records of a quiet channel are still there after another channel has been overwritten hundreds of times.
TEST_F(Reload, AChattyChannelTakesNothingFromAQuietOne) {
  config_["channels"]["chatty"] = {
      {"ring", "64K"},
      {"min_history", "1h"},
      {"events",
       {{{"event", "raw_syscalls:sys_enter"},
         {"filter", fmt::format("id == {} && common_pid == {}", SYS_getppid, getpid())}}}}};
  write_config(config_);
  ASSERT_EQ(daemon_.ctl({"reload"}).exit_status, 0);
  be_quiet(200);
  const int calls = sanitized() ? 200'000 : 600'000;
  for (int i = 0; i < calls; ++i) syscall(SYS_getppid);
  const Json sidecar = daemon_.snapshot();
  EXPECT_EQ(samples(sidecar, "quiet"), 200U);
  const std::uint64_t left = samples(sidecar, "chatty");
  EXPECT_GT(left, 100U);
  EXPECT_LT(left * 100, static_cast<std::uint64_t>(calls)) << "its rings were overwritten a hundred times";
  // A warning names the rings that are too small, and the event that fills them.
  const auto warned = [&] {
    const Json status = daemon_.status();
    for (const Json& warning : status["warnings"])
      if (warning.get<std::string>().find("channel 'chatty': the ring of CPU") != std::string::npos)
        return warning.get<std::string>();
    return std::string();
  };
  EXPECT_TRUE(wait_until([&] { return !warned().empty(); }, 60s));
  EXPECT_THAT(warned(), HasSubstr("less than its min_history of 3600.0 s; raw_syscalls:sys_enter writes most"));
  EXPECT_TRUE(daemon_.stop());
}

// Implements the protocol of Type=notify-reload, systemd.service(5).
TEST(ReloadNotice, NotifiesTheServiceManager) {
  TempFolder folder;
  TestDaemon daemon(folder);
  const std::string path = folder / "notify";
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  std::string received;
  const auto receive = [&](std::string_view word) {
    return wait_until(
        [&] {
          char buffer[4096];
          for (ssize_t got = 0; (got = recv(socket.get(), buffer, sizeof buffer, 0)) > 0;)
            received += std::string(buffer, static_cast<std::size_t>(got)) + "\n";
          return received.find(word) != std::string::npos;
        },
        60s);
  };
  StartOptions options;
  options.prefix = {"env", "NOTIFY_SOCKET=" + path};
  ASSERT_TRUE(daemon.start(stacks_config(99, "64K"), options));
  ASSERT_TRUE(receive("READY=1"));
  received.clear();
  daemon.process().signal(SIGHUP);
  EXPECT_TRUE(receive("READY=1")) << received;
  EXPECT_THAT(received, testing::HasSubstr("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_LT(received.find("RELOADING=1"), received.find("READY=1"));
  received.clear();
  write_text(folder / "flightd.json", "{");
  EXPECT_EQ(daemon.ctl({"reload"}).exit_status, 1);
  EXPECT_TRUE(receive("READY=1")) << "a refused one, too, or systemd waits for ever";
  EXPECT_TRUE(daemon.stop());
}

// A profile lies below the other files, so naming another profile is enough to change to it.
TEST(ReloadProfile, AnotherProfileHasOtherChannels) {
  TempFolder folder;  // from here on this process has its own mounts
  std::vector<std::string> made;
  for (const std::string& path : {std::string("/etc/flightd"), std::string("/usr/lib/flightd")}) {
    if (std::filesystem::create_directory(path)) made.push_back(path);
    ASSERT_TRUE(mount_tmpfs(path, "mode=0755"));
  }
  const std::filesystem::path shipped = std::filesystem::path(required_env("FLIGHT_SOURCE_ROOT")) / "config";
  std::filesystem::copy_file(shipped / "flightd.json", "/usr/lib/flightd/flightd.json");
  std::filesystem::copy(shipped / "profiles", "/usr/lib/flightd/profiles");
  std::filesystem::create_directory("/etc/flightd/conf.d");
  // This memory limit is enough for all profiles on a machine of any size. Their events are the shipped ones.
  write_text("/etc/flightd/conf.d/a.json", R"({"user": "nobody", "memory": {"max": "25%"}, "triggers": null})");
  {
    Child daemon =
        Child::start({required_env("FLIGHTD"), "--state-dir", folder / "state", "--runtime-dir", folder / "run"});
    const auto ctl = [&](Arguments arguments) {
      arguments.insert(arguments.begin(),
                       {required_env("FLIGHTCTL"), "--socket", folder / "run/io.flightd.Recorder", "--json"});
      return run(arguments);
    };
    EXPECT_TRUE(wait_until([&] { return ctl({"status"}).exit_status == 0 || !daemon.running(); }, 60s));
    for (const auto& [profile, channels] : {std::pair("sched", 2U), {"minimal", 1U}, {"default", 1U}}) {
      write_text("/etc/flightd/conf.d/b.json", fmt::format("{{\n\"profile\": \"{}\"}}", profile));
      const Outcome reloaded = ctl({"reload"});
      EXPECT_EQ(reloaded.exit_status, 0) << reloaded.text() << daemon.err();
      EXPECT_EQ(channels_of(Json::parse(ctl({"status"}).out, nullptr, false)).size(), channels) << profile;
      EXPECT_THAT(ctl({"config"}).out, HasSubstr(fmt::format("/usr/lib/flightd/profiles/{}.json", profile)));
    }
    write_text("/etc/flightd/conf.d/b.json", "{\n\"profile\": \"deap\"}");
    const Outcome refused = ctl({"reload"});
    EXPECT_EQ(refused.exit_status, 1);
    EXPECT_THAT(refused.err, HasSubstr("/etc/flightd/conf.d/b.json:2: profile: "));
    EXPECT_THAT(refused.err, HasSubstr("the nearest profile is 'deep'"));
    daemon.signal(SIGTERM);
    EXPECT_EQ(daemon.wait(60s), 0) << daemon.err();
  }
  for (const char* path : {"/etc/flightd", "/usr/lib/flightd"}) unmount(path);
  for (const std::string& path : made) std::filesystem::remove(path);
}

class ReloadWithoutBrokerLong : public OwnBroker {};

TEST_F(ReloadWithoutBrokerLong, IsRefusedAndTheNextOneCanBeAsked) {
  TestDaemon daemon(folder_);
  ASSERT_TRUE(daemon.start(config_, options_));
  broker_->kill();
  EXPECT_TRUE(wait_until([&] { return !records(daemon.status()); }, 60s));
  const Outcome refused = daemon.ctl({"--json", "reload"});
  EXPECT_EQ(refused.exit_status, 1);
  EXPECT_THAT(refused.err, HasSubstr("flightd-broker is gone"));
  ASSERT_NO_FATAL_FAILURE(start_broker());
  EXPECT_TRUE(wait_until([&] { return records(daemon.status()); }, 60s));
  // flightd and its broker each read a file of their own. If only one of the files changes, the reply has a warning.
  config_["channels"]["more"] = {{"ring", "64K"}, {"events", {"cpu-clock"}}};
  write_text(folder_ / "broker.json", config_.dump(2));
  const Json half = daemon.ctl_json({"reload"});
  ASSERT_EQ(half["warnings"].size(), 1U);
  EXPECT_THAT(half["warnings"][0], HasSubstr("--config"));
  write_text(folder_ / "flightd.json", config_.dump(2));
  EXPECT_TRUE(daemon.ctl_json({"reload"})["warnings"].empty());
  EXPECT_EQ(channels_of(daemon.status()).size(), 2U);
  EXPECT_TRUE(daemon.stop());
}

}  // namespace
}  // namespace flight
