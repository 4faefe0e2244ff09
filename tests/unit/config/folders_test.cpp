// SPDX-License-Identifier: Apache-2.0
// Profiles, the main file and drop-ins are layered, and each error names the file that contains it.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "libcore/config/default_text.hpp"
#include "libcore/config/parse.hpp"
#include "tests/unit/environment.hpp"

namespace flight {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;
using std::chrono::minutes;
using testing::HasSubstr;

class Folders : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/tmp/flight-config-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    folders_ = {.etc = root_ + "/etc", .lib = root_ + "/lib"};
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + file).parent_path());
    std::ofstream(root_ + "/" + file) << text;
  }
  Config good() const {
    auto config = load_config(folders_);
    if (!config) ADD_FAILURE() << config.error().text();
    return config ? *config : Config{};
  }
  ConfigError refused() const {
    auto config = load_config(folders_);
    EXPECT_FALSE(config);
    return config ? ConfigError{} : config.error();
  }
  std::string root_;
  ConfigFolders folders_;
};

TEST_F(Folders, TheBuiltInDefaultWhereThereIsNoFile) {
  const Config config = good();
  EXPECT_EQ(config.user, "flightd");
  ASSERT_EQ(config.channels.size(), 1U);
  EXPECT_EQ(config.channels[0].name, "stacks");
  EXPECT_EQ(config.digest.size(), 16U);
}

TEST_F(Folders, LayersOfTheFixture) {
  const std::string fixture = test::source_root() + "/tests/unit/config/fixtures/layers";
  const auto config = load_config(ConfigFolders{.etc = fixture + "/etc", .lib = fixture + "/lib"});
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->profile, "sched");               // from a drop-in
  EXPECT_EQ(config->user, "flightd");                // lib/flightd.json is replaced, not merged
  EXPECT_EQ(config->memory_max.percent, 5);          // from the profile
  EXPECT_EQ(config->store.max_files, 60U);           // etc/flightd.json overrides the profile
  EXPECT_EQ(config->store.max_age, hours(24 * 30));  // null removes the profile's value
  EXPECT_EQ(config->store.keep_free->percent, 5);
  ASSERT_EQ(config->channels.size(), 3U);
  EXPECT_EQ(config->channels[0].name, "stacks");
  EXPECT_EQ(config->channels[1].ring_bytes, 4U << 20U);  // merged: the profile's ring, the drop-in's events
  ASSERT_EQ(config->channels[1].events.size(), 1U);
  EXPECT_EQ(config->channels[2].name, "faults");
  ASSERT_EQ(config->triggers.size(), 1U);  // oom was removed
  EXPECT_EQ(config->triggers[0].above, 95);
  EXPECT_EQ(config->triggers[0].for_time, std::chrono::seconds(2));
  EXPECT_EQ(config->triggers[0].cooldown, minutes(1));
}

TEST_F(Folders, TheMainFileMayLeaveAShippedTriggerOut) {
  write("lib/flightd.json", R"({"triggers": {"oom": {"event": "oom:mark_victim"}}})");
  write("etc/flightd.json", R"({"triggers": {"oom": null}})");
  EXPECT_TRUE(good().triggers.empty());
}

TEST_F(Folders, EtcReplacesLib) {
  write("lib/flightd.json", R"({"user": "lib", "store": {"max_files": 7}})");
  EXPECT_EQ(good().store.max_files, 7U);
  write("etc/flightd.json", R"({"user": "etc"})");
  EXPECT_EQ(good().user, "etc");
  EXPECT_EQ(good().store.max_files, 200U);
}

TEST_F(Folders, DropInsByNameOverBothFolders) {
  write("lib/conf.d/20-b.json", R"({"user": "lib-b"})");
  write("etc/conf.d/10-a.json", R"({"user": "etc-a"})");
  EXPECT_EQ(good().user, "lib-b");
  write("etc/conf.d/20-b.json", "{}");  // hides the file of lib
  EXPECT_EQ(good().user, "etc-a");
}

TEST_F(Folders, ChangesAreThoseOfValues) {
  write("etc/flightd.json", R"({"user": "me", "store": {"max_files": 7}})");
  const Config before = good();
  write("etc/flightd.json", "// a comment\n{\"store\": {\"max_files\": 8}}");
  write("etc/conf.d/a.json", "{\n\"user\": \"me\", \"triggers\": {\n\"deploy\": {\"external\": true}}}");
  const Config now = good();
  const auto changes = config_changes(before.values, now.values);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].path, "store.max_files") << "user has the same value in another file";
  EXPECT_EQ(changes[0].before, "7");
  EXPECT_EQ(changes[0].now, "8");
  EXPECT_EQ(changes[0].line, 2);
  EXPECT_EQ(changes[1].path, "triggers.deploy.external");
  EXPECT_EQ(changes[1].before, std::nullopt);
  EXPECT_EQ(changes[1].file, root_ + "/etc/conf.d/a.json");
  EXPECT_EQ(changes[1].line, 3);
  const auto back = config_changes(now.values, before.values);  // "triggers" is none again
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(back[1].path, "triggers.deploy.external");
  EXPECT_EQ(back[1].before, "true");
  EXPECT_EQ(back[1].now, std::nullopt);
  EXPECT_EQ(config_changes(now.values, now.values).size(), 0U);
}

TEST_F(Folders, TheDigestSeesEveryText) {
  const std::string before = good().digest;
  write("etc/conf.d/a.json", "{}");
  const std::string with_drop_in = good().digest;
  EXPECT_NE(before, with_drop_in);
  write("lib/profiles/default.json", "{}");
  EXPECT_NE(with_drop_in, good().digest);
}

TEST_F(Folders, ErrorsStandInTheirOwnFile) {
  write("etc/flightd.json", "{\n\"user\": \"me\"\n}");
  write("etc/conf.d/b.json", "{\n\n\"store\": {\"max_age\": 5}}");
  EXPECT_EQ(refused().file, root_ + "/etc/conf.d/b.json");
  EXPECT_EQ(refused().line, 3);
  EXPECT_EQ(refused().path, "store.max_age");
}

TEST_F(Folders, AnErrorInAnOverriddenValueIsRefused) {
  write("etc/flightd.json", "{\"store\": {\n\"max_age\": \"5 fortnights\"}}");
  write("etc/conf.d/b.json", R"({"store": {"max_age": "1d"}})");
  EXPECT_EQ(refused().file, root_ + "/etc/flightd.json");
  EXPECT_EQ(refused().line, 2);
}

TEST_F(Folders, AnUnknownKeyIsRefusedAlsoWhenItIsNull) {
  write("etc/conf.d/b.json", "{\n\"chanels\": null}");
  EXPECT_EQ(refused().line, 2);
  EXPECT_THAT(refused().message, HasSubstr("'channels'"));
}

TEST_F(Folders, NullInAListIsNoRemoval) {
  write("etc/conf.d/b.json", R"({"channels": {"a": {"events": [null]}}})");
  EXPECT_EQ(refused().path, "channels.a.events[0]");
}

TEST_F(Folders, AnErrorOfTheWholeNamesTheLastChange) {
  write("etc/flightd.json", "{\"triggers\": {\"t\":\n\n\n\n\n{\"metric\": \"cpu.busy\", \"above\": \"90%\"}}}");
  write("etc/conf.d/b.json", "{\"triggers\": {\"t\": {\n\"event\": \"oom:mark_victim\"}}}");
  EXPECT_EQ(refused().file, root_ + "/etc/conf.d/b.json");
  EXPECT_EQ(refused().line, 2);
  EXPECT_EQ(refused().path, "triggers.t.event");
  EXPECT_THAT(refused().message, HasSubstr("this one also has 'metric'"));
}

TEST_F(Folders, AnotherMetricMakesAnOldThresholdWrong) {
  write("etc/flightd.json", "{\"triggers\": {\"t\":\n{\"metric\": \"cpu.busy\", \"above\": \"90%\"}}}");
  write("etc/conf.d/b.json", R"({"triggers": {"t": {"metric": "tasks.running"}}})");
  EXPECT_EQ(refused().file, root_ + "/etc/flightd.json");
  EXPECT_EQ(refused().line, 2);
  write("etc/conf.d/b.json", R"({"triggers": {"t": {"metric": "tasks.running", "above": 20}}})");
  EXPECT_EQ(good().triggers.back().above, 20);
}

TEST_F(Folders, ADropInMayCompleteAnotherOne) {
  write("etc/conf.d/a.json", R"({"channels": {"x": {"ring": "1M"}}})");
  EXPECT_EQ(refused().path, "channels.x");
  EXPECT_EQ(refused().file, root_ + "/etc/conf.d/a.json");
  write("etc/conf.d/b.json", R"({"channels": {"x": {"events": ["cycles"]}, "stacks": null}})");
  const Config config = good();
  ASSERT_EQ(config.channels.size(), 1U);
  EXPECT_EQ(config.channels[0].ring_bytes, 1U << 20U);
}

// The layer that contains the condition decides whether a missing source is a warning or an error, and which file it
// names.
TEST_F(Folders, ATriggerKnowsWhetherItIsShipped) {
  const auto trigger = [&](const std::string& name) {
    for (const TriggerConfig& one : good().triggers)
      if (one.name == name) return one;
    return TriggerConfig{};
  };
  EXPECT_TRUE(trigger("oom").shipped) << "the built-in text's";
  write("lib/flightd.json", "{\"triggers\": {\n\"vendor\": {\n\"metric\": \"psi.io.some\", \"above\": \"5%\"}}}");
  write("lib/conf.d/b.json", R"({"triggers": {"other": {"event": "block:block_rq_error"}}})");
  EXPECT_TRUE(trigger("vendor").shipped);
  EXPECT_EQ(trigger("vendor").place, root_ + "/lib/flightd.json:3");
  EXPECT_TRUE(trigger("other").shipped);
  // Another threshold needs no other source.
  write("etc/conf.d/c.json",
        "{\"triggers\": {\"vendor\": {\"above\": \"7%\"},\n\"mine\": {\"external\": false,\n"
        "\"event\": \"oom:mark_victim\"}}}");
  EXPECT_TRUE(trigger("vendor").shipped);
  EXPECT_EQ(trigger("vendor").above, 7);
  EXPECT_FALSE(trigger("mine").shipped);
  EXPECT_EQ(trigger("mine").place, root_ + "/etc/conf.d/c.json:3");
  write("etc/conf.d/d.json", R"({"triggers": {"vendor": {"metric": "psi.io.full"}}})");
  EXPECT_FALSE(trigger("vendor").shipped);
  // A complete copy in /etc replaces the file, and its triggers still count as shipped.
  write("etc/flightd.json", std::string(built_in_config()));
  EXPECT_TRUE(trigger("oom").shipped);
  write("etc/conf.d/e.json", R"({"triggers": {"oom": {"event": "signal:signal_generate"}}})");
  EXPECT_FALSE(trigger("oom").shipped);
}

TEST_F(Folders, TheLastChannelTakenAwayIsRefused) {
  write("etc/conf.d/a.json", "{\n\"channels\": {\"stacks\": null}}");
  EXPECT_EQ(refused().line, 2);
  EXPECT_THAT(refused().message, HasSubstr("no channel is left"));
}

TEST_F(Folders, AMissingProfileNamesThoseThatExist) {
  write("lib/profiles/deep.json", "{}");
  write("lib/profiles/minimal.json", "{}");
  write("lib/profiles/README", "no profile");
  write("etc/conf.d/p.json", "{\n\n\"profile\": \"deap\"}");
  const ConfigError error = refused();
  EXPECT_EQ(error.file, root_ + "/etc/conf.d/p.json");
  EXPECT_EQ(error.line, 3);
  EXPECT_EQ(error.path, "profile");
  EXPECT_THAT(error.message, HasSubstr("nearest profile is 'deep'"));
  EXPECT_THAT(error.message, HasSubstr("default, deep, minimal"));
}

TEST_F(Folders, AProfileHasErrorsOfItsOwn) {
  write("lib/profiles/deep.json", "{\n\"user\": 5}");
  write("etc/flightd.json", R"({"profile": "deep", "user": "me"})");
  EXPECT_EQ(refused().file, root_ + "/lib/profiles/deep.json");
  EXPECT_EQ(refused().line, 2);
  write("lib/profiles/deep.json", "{\n\n\"profile\": \"minimal\"}");
  EXPECT_EQ(refused().line, 3);
  EXPECT_THAT(refused().message, HasSubstr("another profile"));
}

TEST_F(Folders, ADefaultProfileReplacesTheBuiltInOne) {
  write("lib/profiles/default.json", R"({"channels": {"mine": {"events": ["cpu-clock"]}}})");
  write("etc/flightd.json", "{}");
  const Config config = good();
  ASSERT_EQ(config.channels.size(), 1U);
  EXPECT_EQ(config.channels[0].name, "mine");
}

// The installed layout: flightd.json in lib names the profile "default" and has no channel of its own.
class ShippedFolders : public Folders {
 protected:
  void SetUp() override {
    Folders::SetUp();
    const fs::path shipped = fs::path(test::source_root()) / "config";
    fs::create_directories(root_ + "/lib");
    fs::copy_file(shipped / "flightd.json", root_ + "/lib/flightd.json");
    fs::copy(shipped / "profiles", root_ + "/lib/profiles");
  }
  std::vector<std::string> channels(const std::string& profile) const {
    write("etc/conf.d/p.json", fmt::format(R"({{"profile": "{}"}})", profile));
    std::vector<std::string> names;
    for (const ChannelConfig& channel : good().channels) names.push_back(channel.name);
    return names;
  }
};

TEST_F(ShippedFolders, TheyEqualTheBuiltInText) {
  const Config shipped = good();
  fs::remove_all(root_ + "/lib");
  const Config built_in = good();
  EXPECT_EQ(shipped.channels, built_in.channels);
  EXPECT_EQ(shipped.digest, built_in.digest) << "the texts are the same";
  EXPECT_EQ(shipped.triggers.size(), built_in.triggers.size());
}

// The layout of a clone: config/flightd.json beside config/profiles, and nothing installed.
TEST_F(ShippedFolders, AProfileBesideTheFileComesFirst) {
  fs::create_directories(root_ + "/mine");
  fs::rename(root_ + "/lib/profiles", root_ + "/mine/profiles");
  write("mine/flightd.json", R"({"profile": "sched"})");
  const ConfigFolders folders{.etc = root_ + "/etc", .lib = root_ + "/lib"};
  const auto config = load_config(root_ + "/mine/flightd.json", folders);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->channels.size(), 2U);
  write("mine/flightd.json", R"({"profile": "shed"})");
  const auto refused = load_config(root_ + "/mine/flightd.json", folders);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr(root_ + "/mine/profiles"),
                                                      HasSubstr("nearest profile is 'sched'"), HasSubstr("deep")));
}

TEST_F(ShippedFolders, AProfileHasItsOwnChannelsAndNoOthers) {
  using testing::ElementsAre;
  EXPECT_THAT(channels("default"), ElementsAre("stacks"));
  EXPECT_THAT(channels("minimal"), ElementsAre("stacks"));
  EXPECT_EQ(good().channels[0].events[0].frequency, 19U);
  EXPECT_THAT(channels("sched"), ElementsAre("stacks", "sched"));
  EXPECT_THAT(channels("deep"), ElementsAre("stacks", "sched", "disk"));
  write("etc/conf.d/q.json", R"({"channels": {"disk": null, "sched": {"ring": "1M"}}})");
  EXPECT_THAT(channels("deep"), ElementsAre("stacks", "sched"));
  EXPECT_EQ(good().channels[1].ring_bytes, 1U << 20U);
}

TEST_F(ShippedFolders, EveryValueKnowsItsFileAndLine) {
  write("etc/conf.d/q.json", "{\n\"store\": {\n\n\"max_files\": 7}}");
  const Config config = good();
  const auto value = [&](const std::string& path) {
    for (const ConfigValue& one : config.values)
      if (one.path == path) return one;
    ADD_FAILURE() << "no value of " << path;
    return ConfigValue{};
  };
  EXPECT_EQ(value("store.max_files").value, "7");
  EXPECT_EQ(value("store.max_files").file, root_ + "/etc/conf.d/q.json");
  EXPECT_EQ(value("store.max_files").line, 4);
  EXPECT_EQ(value("store.max_age").file, root_ + "/lib/flightd.json");
  EXPECT_GT(value("store.max_age").line, 0);
  EXPECT_EQ(value("store.max_use").file, "built-in");
  EXPECT_EQ(value("store.max_use").line, 0);
  EXPECT_EQ(value("channels.stacks.ring").value, "2M");
  EXPECT_EQ(value("channels.stacks.events[0].frequency").file, root_ + "/lib/profiles/default.json");
  EXPECT_EQ(value("snapshot.on_stop").value, "false");
  EXPECT_EQ(config.values.front().path, "profile");
  std::set<std::string> paths;
  for (const ConfigValue& one : config.values) EXPECT_TRUE(paths.insert(one.path).second) << one.path << " twice";
  EXPECT_EQ(written_at(config, "store.max_files"), root_ + "/etc/conf.d/q.json:4: ");
  EXPECT_NE(written_at(config, "channels.stacks.events[0]"), "");
  EXPECT_EQ(written_at(config, "store.max"), "") << "no whole name";
  EXPECT_EQ(written_at(config, "store.max_use"), "") << "in no file";
}

TEST_F(Folders, WithoutAnyFileAllIsBuiltIn) {
  const Config config = good();
  ASSERT_FALSE(config.values.empty());
  for (const ConfigValue& value : config.values)
    EXPECT_TRUE(value.file == "built-in" || value.file == "built-in default") << value.path << " from " << value.file;
}

TEST_F(Folders, AFileThatCannotBeReadIsNotPassedOver) {
  fs::create_directories(root_ + "/etc/flightd.json");  // a directory of that name
  EXPECT_THAT(refused().text(), HasSubstr("Is a directory"));
  fs::remove(root_ + "/etc/flightd.json");
  ASSERT_EQ(::mkfifo((root_ + "/etc/flightd.json").c_str(), 0600), 0);
  EXPECT_THAT(refused().text(), HasSubstr("not a regular file")) << "and nobody waits for its writer";
  fs::remove(root_ + "/etc/flightd.json");
  // Its file system is not mounted yet: defaults would be recorded without a word.
  fs::create_symlink("/nowhere/flightd.json", root_ + "/etc/flightd.json");
  EXPECT_THAT(refused().text(), HasSubstr("a link to /nowhere/flightd.json, which does not exist"));
  fs::remove(root_ + "/etc/flightd.json");
  // The same for a drop-in, and for --config FILE.
  write("etc/conf.d/10-good.json", "{}");
  fs::create_symlink("../elsewhere/site.json", root_ + "/etc/conf.d/50-site.json");
  EXPECT_EQ(refused().file, root_ + "/etc/conf.d/50-site.json");
  EXPECT_THAT(refused().text(),
              HasSubstr("50-site.json: it is a link to ../elsewhere/site.json, which does not exist"));
  const auto by_link = load_config(root_ + "/etc/conf.d/50-site.json", folders_);
  ASSERT_FALSE(by_link);
  EXPECT_THAT(by_link.error().text(), HasSubstr("a link to ../elsewhere/site.json, which does not exist"));
  const auto nothing = load_config(root_ + "/etc/conf.d/60-site.json", folders_);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().error_number, ENOENT);
  fs::remove(root_ + "/etc/conf.d/50-site.json");
  // Masked like systemd's drop-ins.
  write("lib/conf.d/masked.json", "rubbish");
  fs::create_directories(root_ + "/etc/conf.d");
  fs::create_symlink("/dev/null", root_ + "/etc/conf.d/masked.json");
  static_cast<void>(good());
  write("etc/conf.d/empty.json", "");
  EXPECT_THAT(refused().text(), HasSubstr("empty.json:1: the file is empty"));
  write("etc/conf.d/empty.json", std::string((1U << 20U) + 1, ' '));
  EXPECT_THAT(refused().text(), HasSubstr("empty.json"));
  fs::remove(root_ + "/etc/conf.d/empty.json");
  for (int i = 0; i < 257; ++i) write(fmt::format("etc/conf.d/{}.json", i), "{}");
  EXPECT_THAT(refused().text(), HasSubstr("more than 256"));
}

// --config FILE: this file over the profile that it names, without drop-ins or other files.
TEST_F(Folders, AFileOfItsOwnCanNameAProfile) {
  write("lib/profiles/deep.json", R"({"memory": {"max": "3%"}, "channels": {"mine": {"events": ["cpu-clock"]}}})");
  write("etc/flightd.json", R"({"user": "somebody"})");
  write("etc/conf.d/x.json", R"({"user": "else"})");
  write("own.json", "{\n\"profile\": \"deep\", \"store\": {\"max_files\": 7}}");
  const auto config = load_config(root_ + "/own.json", folders_);
  ASSERT_TRUE(config) << config.error().text();
  EXPECT_EQ(config->profile, "deep");
  EXPECT_EQ(config->memory_max.percent, 3);
  EXPECT_EQ(config->store.max_files, 7U);
  EXPECT_EQ(config->user, "flightd");
  ASSERT_EQ(config->channels.size(), 1U);
  EXPECT_EQ(config->channels[0].name, "mine");
  const std::string digest = config->digest;
  write("lib/profiles/deep.json", R"({"memory": {"max": "4%"}})");
  const auto other = load_config(root_ + "/own.json", folders_);
  ASSERT_TRUE(other);
  EXPECT_NE(other->digest, digest) << "the profile is part of it";

  write("own.json", "{\n\"profile\": \"deap\"}");
  const auto wrong = load_config(root_ + "/own.json", folders_);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().line, 2);
  EXPECT_THAT(wrong.error().message, HasSubstr("nearest profile is 'deep'"));
}

TEST_F(Folders, WhatLooksMeantAndIsNotReadIsNamed) {
  write("etc/conf.d/50-site.json", R"({"store": {"max_files": 7}})");
  for (const char* name : {"50-site.conf", "50-site.jsonc", "50-site.JSON", "folder/50-site.json", "folder.json/x"})
    write(std::string("etc/conf.d/") + name, R"({"store": {"max_files": 8}})");
  write("etc/60-site.json", "{}");
  for (const char* name :
       {".hidden.json", "x.json~", "#x.json#", "x.json.dpkg-old", ".x.json.swp", "x.json.rpmnew", "x.bak", "README"})
    write(std::string("etc/conf.d/") + name, "{");
  fs::create_symlink("/dev/null", root_ + "/etc/conf.d/40-off.json");
  fs::remove_all(root_ + "/etc/conf.d/folder.json");
  const Config config = good();
  EXPECT_EQ(config.store.max_files, 7U);
  std::vector<std::string> names;
  for (const std::string& path : config.unread) names.push_back(path.substr(folders_.etc.size() + 1));
  EXPECT_THAT(names, testing::ElementsAre("60-site.json", "conf.d/50-site.JSON", "conf.d/50-site.conf",
                                          "conf.d/50-site.jsonc", "conf.d/folder"));
  EXPECT_THAT(unread_warnings(config).front(), HasSubstr("etc/60-site.json is not read"));
}

TEST_F(Folders, ALinkInPlaceOfADirectoryIsFollowedOrNamed) {
  fs::create_directories(root_ + "/etc");
  fs::create_symlink("/nowhere/conf.d", root_ + "/etc/conf.d");
  EXPECT_EQ(refused().file, root_ + "/etc/conf.d");
  EXPECT_THAT(refused().text(), HasSubstr("conf.d: it is a link to /nowhere/conf.d, which does not exist"));
  fs::remove_all(root_ + "/etc");
  fs::create_symlink("/nowhere/flightd", root_ + "/etc");
  EXPECT_EQ(refused().file, root_ + "/etc");
  EXPECT_THAT(refused().text(), HasSubstr("it is a link to /nowhere/flightd, which does not exist"));
  fs::remove(root_ + "/etc");
  // A link to a directory that has no conf.d.
  fs::create_directories(root_ + "/elsewhere");
  fs::create_symlink("elsewhere", root_ + "/etc");
  static_cast<void>(good());
  fs::remove(root_ + "/etc");
  fs::create_symlink("etc", root_ + "/etc");
  EXPECT_THAT(refused().text(), HasSubstr("lead back to each other"));
  fs::remove(root_ + "/etc");
  // The profiles beside --config FILE.
  write("mine/flightd.json", R"({"profile": "mine"})");
  fs::create_symlink("/nowhere/profiles", root_ + "/mine/profiles");
  const auto config = load_config(root_ + "/mine/flightd.json", folders_);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().file, root_ + "/mine/profiles");
  EXPECT_THAT(config.error().text(), HasSubstr("it is a link to /nowhere/profiles, which does not exist"));
}

TEST_F(Folders, EachLinkOfAChainIsNamed) {
  fs::create_directories(root_ + "/etc/conf.d");
  fs::create_symlink("b", root_ + "/etc/conf.d/a.json");
  fs::create_symlink("/nowhere/c", root_ + "/etc/conf.d/b");
  EXPECT_THAT(refused().text(), HasSubstr("a.json: it is a link to b, a link to /nowhere/c, which does not exist"));
  fs::remove(root_ + "/etc/conf.d/b");
  fs::create_symlink("a.json", root_ + "/etc/conf.d/b");
  EXPECT_THAT(refused().text(), HasSubstr("a.json: it is a link to b, a link to a.json: these links lead nowhere"));
}

TEST_F(Folders, WhatIsNoFileIsNamedOnce) {
  const std::string path = root_ + "/etc/conf.d/x.json";
  fs::create_directories(path);
  EXPECT_EQ(refused().text(), path + ": Is a directory, and a file is expected here: move it elsewhere");
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refused().text(), path + ": it is not a regular file: move it elsewhere");
}

TEST_F(Folders, AProfileSelectsNoOtherProfile) {
  write("etc/flightd.json", R"({"profile": "mine"})");
  write("lib/profiles/mine.json", "{\n\"profile\": \"mine\"}");
  EXPECT_EQ(good().profile, "mine");
  write("lib/profiles/mine.json", "{\n\"profile\": \"sched\"}");
  EXPECT_EQ(refused().line, 2);
  EXPECT_THAT(refused().text(), HasSubstr("another profile; remove this key (its value is 'sched')"));
}

// A newline would make a line of the log that nobody has written.
TEST_F(Folders, NamesAreMadePrintable) {
  write("etc/conf.d/a\nb\x1b[31m.json", "{");
  EXPECT_THAT(refused().text(), HasSubstr("conf.d/a?b?[31m.json:1: "));
  fs::remove_all(root_ + "/etc/conf.d");
  write("etc/conf.d/a\nb.conf", "{");
  EXPECT_THAT(unread_warnings(good()), testing::ElementsAre(HasSubstr("conf.d/a?b.conf is not read")));
  for (int i = 0; i < 16; ++i) write(fmt::format("etc/conf.d/{}.conf", i), "{");
  EXPECT_EQ(unread_warnings(good()).back(), "1 more file or directory of the configuration is not read");
  write("etc/conf.d/16.conf", "{");
  EXPECT_EQ(unread_warnings(good()).back(), "2 more files and directories of the configuration are not read");
}

TEST_F(Folders, ANullThatRemovesNothingIsAWarning) {
  write("lib/profiles/sched.json", R"({"channels": {"sched": {"events": ["cpu-clock"]}}})");
  write("etc/flightd.json", R"({"profile": "sched", "triggers": {"oom": null, "mine": {"external": true}}})");
  write("etc/conf.d/a.json", "{\n\"triggers\": {\"mine\": null},\n\"channels\": {\"x\": {\"events\": [\"cycles\"]}}}");
  write("etc/conf.d/b.json", R"({"channels": {"sched": null}})");
  EXPECT_THAT(unread_warnings(good()), testing::IsEmpty());
  write("etc/conf.d/c.json", "{\n\n\"triggers\": {\"omm\": null}, \"channels\": {\"shed\": null}}");
  EXPECT_THAT(
      unread_warnings(good()),
      testing::ElementsAre(
          root_ + "/etc/conf.d/c.json:3: triggers.omm: null removes nothing, because there is no trigger 'omm'; "
                  "the nearest is 'oom'",
          HasSubstr("channels.shed: null removes nothing, because there is no channel 'shed'; the nearest is "
                    "'sched'")));
  // --config FILE
  write("own.json",
        R"({"triggers": {"oom": null, "omm": null}, "channels": {"other": null, "x": {"events": ["cycles"]}}})");
  const auto own = load_config(root_ + "/own.json", folders_);
  ASSERT_TRUE(own) << own.error().text();
  EXPECT_THAT(unread_warnings(*own), testing::ElementsAre(HasSubstr("triggers.omm"), HasSubstr("channels.other")));
  // Not more than a few.
  std::string many;
  for (int i = 0; i < 40; ++i) many += fmt::format(R"({}"x{}": null)", i == 0 ? "" : ", ", i);
  write("own.json", "{\"triggers\": {" + many + "}}");
  EXPECT_EQ(unread_warnings(load_config(root_ + "/own.json", folders_).value()).size(), 16U);
}

}  // namespace
}  // namespace flight
