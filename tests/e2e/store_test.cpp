// SPDX-License-Identifier: Apache-2.0
// The store keeps within its budget automatically: which files it deletes, which it keeps longest, which it never
// deletes, and how it reports this.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <filesystem>
#include <set>

#include "libcore/store/names.hpp"
#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/mounts.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

Json with_store(Json store) {
  Json config = stacks_config(97, "64K");
  config["store"] = std::move(store);
  if (!config["store"].contains("keep_free")) config["store"]["keep_free"] = "0";
  return config;
}

std::vector<std::string> ids_of(const Json& rows) {
  std::vector<std::string> ids;
  for (const Json& row : rows) ids.push_back(row["id"]);
  return ids;
}

// A name as if flightd had taken the snapshot at `time`.
SnapshotName fake_name(std::uint64_t seq, const std::string& trigger, WallTime time) {
  return {.host = "web3", .time = time, .trigger = trigger, .seq = seq};
}
void make_fake(const std::string& folder, const SnapshotName& name, std::size_t bytes) {
  const Json sidecar = {{"id", std::to_string(name.seq)},
                        {"path", folder + "/" + name.data_file()},
                        {"trigger", name.trigger},
                        {"boot_id", "0f7c"},
                        {"reason", "made up"},
                        {"size_bytes", bytes}};
  write_text(folder + "/" + name.sidecar_file(), sidecar.dump());
  write_text(folder + "/" + name.data_file(), std::string(bytes, 'x'));
}

class StoreTest : public testing::Test {
 protected:
  void start(const Json& store) { ASSERT_TRUE(daemon_.start(with_store(store), options_)) << daemon_.log(); }
  void fake(std::uint64_t seq, const std::string& trigger = "spike", WallTime age = 1s,
            std::size_t bytes = 1000) const {
    make_fake(daemon_.snapshots_dir(), fake_name(seq, trigger, wall_now() - age), bytes);
  }
  void take() const { EXPECT_FALSE(daemon_.snapshot().empty()); }
  [[nodiscard]] std::vector<std::string> ids(const Arguments& arguments = {}) const {
    Arguments words{"list"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return ids_of(daemon_.ctl_json(words));
  }
  [[nodiscard]] testing::AssertionResult come_to(const std::vector<std::string>& wanted) const {
    if (wait_until([&] { return ids() == wanted; }, 60s)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the store has " << testing::PrintToString(ids()) << ", not "
                                       << testing::PrintToString(wanted) << "\n"
                                       << daemon_.log();
  }
  [[nodiscard]] bool has_symbols() const {
    for (const auto& entry : fs::directory_iterator(daemon_.snapshots_dir()))
      if (is_kallsyms_file(entry.path().filename().string())) return true;
    return false;
  }
  [[nodiscard]] std::uint64_t disk_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(daemon_.snapshots_dir())) {
      struct stat status {};
      if (stat(entry.path().c_str(), &status) == 0) bytes += static_cast<std::uint64_t>(status.st_blocks) * 512;
    }
    return bytes;
  }
  // While the disk is slow, the status contains earlier values. So this asks until the warning appears or disappears.
  [[nodiscard]] testing::AssertionResult warns(const Arguments& words, bool wanted = true) const {
    std::string said;
    const auto right = [&] {
      said = daemon_.status()["warnings"].dump();
      for (const std::string& word : words)
        if ((said.find(word) != std::string::npos) != wanted) return false;
      return true;
    };
    if (wait_until(right, 60s)) return testing::AssertionSuccess();
    return testing::AssertionFailure() << "the status warns: " << said;
  }

  TempFolder folder_;
  StartOptions options_;
  TestDaemon daemon_{folder_};
};

TEST_F(StoreTest, OfAStormTheBeginningAndTheEndAreKept) {
  start({{"max_files", 5}});
  for (int i = 0; i < 8; ++i) take();
  EXPECT_TRUE(come_to({"1", "2", "6", "7", "8"}));
  EXPECT_THAT(daemon_.log(), AllOf(HasSubstr("vacuumed 1 snapshot"), HasSubstr("3 (max_files)")));
  for (const char* id : {"1", "8"}) EXPECT_EQ(daemon_.ctl({"info", id}).exit_status, 0);
  // The symbols stay while there is a snapshot of their boot.
  EXPECT_TRUE(wait_until([&] { return has_symbols(); }, 60s));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreTest, PinnedAndForeignFilesSurvive) {
  start({{"max_files", 2}, {"keep_first", 0}, {"keep_last", 0}});
  take();
  ASSERT_EQ(daemon_.ctl({"pin", "1"}).exit_status, 0);
  const std::string good = fake_name(77, "spike", wall_now()).data_file();
  const std::vector<std::string> foreign{
      "notes.txt", "core.77",   good + ".bak", "x" + good,
      good + "~",  "perf.data", "kallsyms",    "flight-web3-20261320T031204.123Z-spike-77.json"};
  for (const std::string& name : foreign) write_text(daemon_.snapshots_dir() + "/" + name, "mine");
  fs::create_symlink("/etc/hostname", daemon_.snapshots_dir() + "/" + good);
  for (int i = 0; i < 3; ++i) take();
  EXPECT_TRUE(come_to({"1", "4"}));
  EXPECT_EQ(daemon_.ctl({"vacuum"}).exit_status, 0);
  for (const std::string& name : foreign) EXPECT_TRUE(fs::exists(daemon_.snapshots_dir() + "/" + name)) << name;
  EXPECT_TRUE(fs::is_symlink(daemon_.snapshots_dir() + "/" + good));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreTest, VacuumByHandAndItsDryRun) {
  start({{"max_age", "10d"}});
  // Not a real snapshot: flightd would vacuum after it.
  fake(1, "spike", std::chrono::hours(24 * 29), 5000);
  ASSERT_EQ(daemon_.ctl({"pin", "1"}).exit_status, 0);
  EXPECT_THAT(daemon_.ctl({"vacuum"}).out, HasSubstr("Nothing is over the store's budget"));
  for (std::uint64_t seq = 10; seq <= 12; ++seq) fake(seq, "spike", std::chrono::hours(24 * (30 - seq)));
  fake(20, "oom");
  fake(21, "oom");
  fs::remove(daemon_.ctl_json({"info", "20"})["path"].get<std::string>());
  const auto before = ids();
  EXPECT_THAT(before, ElementsAre("1", "10", "11", "12", "20", "21"));
  EXPECT_EQ(daemon_.ctl_json({"list"})[4]["state"], "missing");
  const Json foretold = daemon_.ctl_json({"vacuum", "--dry-run"});
  EXPECT_EQ(ids_of(foretold["removed"]), (std::vector<std::string>{"10", "11", "12", "20"}));
  EXPECT_THAT(daemon_.ctl({"vacuum", "--dry-run"}).out, AllOf(HasSubstr("Would delete"), HasSubstr("store.max_age")));
  EXPECT_EQ(ids(), before) << "a dry run deletes nothing";
  const Json done = daemon_.ctl_json({"vacuum"});
  EXPECT_EQ(done["removed"], foretold["removed"]);
  EXPECT_EQ(done["freed_bytes"], foretold["freed_bytes"]);
  EXPECT_EQ(done["removed"][0]["reason"], "max_age");
  EXPECT_EQ(done["removed"][3]["reason"], "missing");
  EXPECT_GT(done["freed_bytes"], 3000);
  EXPECT_THAT(ids(), ElementsAre("1", "21"));
  fake(9, "spike", std::chrono::hours(24 * 25));
  EXPECT_THAT(daemon_.ctl({"vacuum"}).out, AllOf(HasSubstr("Deleted " + daemon_.snapshots_dir()),
                                                 HasSubstr("Freed the space of 1 snapshot"), Not(HasSubstr("Would"))));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreTest, BytesOnDiskStayBelowMaxUse) {
  start({{"max_use", "24M"}});
  for (std::uint64_t seq = 1; seq <= 30; ++seq) fake(seq, seq == 1 ? "oom" : "spike", 1s, 1U << 20U);
  ASSERT_GT(disk_bytes(), 30U << 20U);
  take();
  EXPECT_TRUE(wait_until([&] { return has_symbols() && disk_bytes() <= 24U << 20U; }, 60s))
      << disk_bytes() << daemon_.log();
  const auto left = ids();
  const std::set<std::string> kept(left.begin(), left.end());
  for (const char* id : {"1", "2", "3", "29", "30", "31"}) EXPECT_TRUE(kept.contains(id)) << id;
  EXPECT_FALSE(kept.contains("4"));
  const Json store = daemon_.status()["store"];
  EXPECT_LE(store["bytes"], store["max_bytes"]);
  EXPECT_EQ(store["max_bytes"], 24U << 20U);
  EXPECT_TRUE(daemon_.stop());
}

using StoreTestLong = StoreTest;

TEST_F(StoreTestLong, AtStartTenThousandComeDownToTheBudget) {
  start({{"max_files", 200}});
  EXPECT_TRUE(daemon_.stop());
  const WallTime now = wall_now();
  for (std::uint64_t seq = 1; seq <= 10'000; ++seq)
    make_fake(daemon_.snapshots_dir(),
              fake_name(seq, seq % 2 == 0 ? "spike" : "oom", now - std::chrono::seconds(20'000 - seq)), 10);
  start({{"max_files", 200}});
  EXPECT_TRUE(wait_until([&] { return ids().size() == 200; }, 120s)) << daemon_.log();
  const auto left = ids();
  ASSERT_EQ(left.size(), 200U);
  EXPECT_THAT(std::vector(left.begin(), left.begin() + 5), ElementsAre("1", "2", "3", "4", "9805"));
  EXPECT_EQ(left.back(), "10000");
  EXPECT_EQ(daemon_.snapshot()["id"], "10001");
  EXPECT_TRUE(daemon_.stop());
}

class SmallDisk : public StoreTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(mkdir(disk_.c_str(), 0755), 0);
    ASSERT_TRUE(mount_tmpfs(disk_, "size=64m"));
    options_.state_dir = disk_ + "/state";
  }
  void TearDown() override { unmount(disk_); }
  [[nodiscard]] std::uint64_t free_bytes() const {
    struct statvfs info {};
    EXPECT_EQ(statvfs(disk_.c_str(), &info), 0);
    return info.f_bavail * info.f_frsize;
  }
  // Fills the disk so that only `left_bytes` are free.
  void fill_up_to(std::uint64_t left_bytes) const {
    fs::remove(disk_ + "/filler");
    ASSERT_GT(free_bytes(), left_bytes);
    write_text(disk_ + "/filler", std::string(free_bytes() - left_bytes, 'x'));
  }
  std::string disk_ = folder_ / "disk";
};

// In an earlier version its snapshots were numbered from 1 again, in a directory that nothing had checked.
TEST_F(SmallDisk, AFileSystemThatIsMountedOverTheStoreIsTakenOver) {
  start(Json::object());
  for (int i = 0; i < 2; ++i) take();
  const passwd* nobody = getpwnam("nobody");
  ASSERT_NE(nobody, nullptr);
  const std::string options = fmt::format("size=16m,mode=0770,uid={},gid={}", nobody->pw_uid, snapshot_gid());
  ASSERT_TRUE(mount_tmpfs(daemon_.snapshots_dir(), options));
  const Json there = daemon_.snapshot();
  EXPECT_EQ(there["id"], "3");
  EXPECT_THAT(there.dump(), HasSubstr("Snapshots up to number 2 are in the other one"));
  EXPECT_EQ(ids(), std::vector<std::string>{"3"});
  EXPECT_TRUE(warns({"is another directory than before"}));
  EXPECT_THAT(daemon_.log(), AllOf(HasSubstr(daemon_.snapshots_dir() + " is another directory than before"),
                                   HasSubstr("with numbers from 3 on")));
  unmount(daemon_.snapshots_dir());
  const Json back = daemon_.snapshot();
  EXPECT_EQ(back["id"], "4");
  EXPECT_THAT(back.dump(), Not(HasSubstr("is another directory")));
  EXPECT_EQ(ids(), (std::vector<std::string>{"1", "2", "4"}));
  EXPECT_TRUE(warns({"is another directory"}, false));
  EXPECT_TRUE(daemon_.stop());
}

// In an earlier version it failed at its end, and its part came into the store later.
TEST_F(SmallDisk, ARecordingEndsInTheDirectoryWhereItBegan) {
  start(Json::object());
  Child recorder = Child::start(daemon_.ctl_command({"--json", "record"}));
  const auto has_begun = [&] {
    for (const auto& entry : fs::directory_iterator(daemon_.snapshots_dir())) {
      const auto name = parse_part_file(entry.path().filename().string());
      if (name && name->kind == PartFileKind::journal && entry.file_size() > 0) return true;
    }
    return false;
  };
  ASSERT_TRUE(wait_until(has_begun, 20s)) << recorder.err() << daemon_.log();
  const passwd* nobody = getpwnam("nobody");
  ASSERT_NE(nobody, nullptr);
  ASSERT_TRUE(mount_tmpfs(daemon_.snapshots_dir(),
                          fmt::format("size=16m,mode=0770,uid={},gid={}", nobody->pw_uid, snapshot_gid())));
  recorder.signal(SIGINT);
  const Outcome outcome = recorder.finish(30s);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.text() << daemon_.log();
  EXPECT_EQ(ids(), std::vector<std::string>{});
  unmount(daemon_.snapshots_dir());
  EXPECT_EQ(ids(), std::vector<std::string>{"1"});
  EXPECT_THAT(daemon_.ctl_json({"info", "1"}).dump(), HasSubstr("is another directory than when this part began"));
  EXPECT_TRUE(no_partials(daemon_.snapshots_dir()));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(SmallDisk, DeletesSnapshotsWhenOthersFillTheDisk) {
  start({{"keep_free", "16M"}, {"max_use", "60M"}});
  for (std::uint64_t seq = 1; seq <= 12; ++seq) fake(seq, "spike", 1s, 2U << 20U);
  ASSERT_EQ(daemon_.ctl({"pin", "5"}).exit_status, 0);
  fill_up_to(8U << 20U);
  take();
  EXPECT_TRUE(wait_until([&] { return free_bytes() >= 16U << 20U; }, 60s)) << free_bytes() << daemon_.log();
  const auto left = ids();
  const std::set<std::string> kept(left.begin(), left.end());
  for (const char* id : {"1", "2", "5", "11", "12", "13"}) EXPECT_TRUE(kept.contains(id)) << id;
  EXPECT_FALSE(kept.contains("3"));
  EXPECT_TRUE(warns({"over its budget"}, false));

  // Others fill the disk: no snapshot is deleted for what deleting cannot reach. The new one is still written, and the
  // status warns.
  const auto before = ids();
  fs::remove(disk_ + "/filler");
  ASSERT_NO_FATAL_FAILURE(fill_up_to(4U << 20U));
  take();
  EXPECT_TRUE(warns({"keep_free 16.0M cannot be reached", "others use", "the store"}));
  EXPECT_EQ(ids().size(), before.size() + 1) << daemon_.log();

  // There is no space at all: the oldest make room for the new one.
  ASSERT_NO_FATAL_FAILURE(fill_up_to(0));
  take();
  EXPECT_LT(ids().size(), before.size() + 2) << daemon_.log();
  EXPECT_TRUE(ids().size() > 1);

  // And nothing may be deleted: the request fails before any work is done.
  for (const std::string& id : ids()) ASSERT_EQ(daemon_.ctl({"pin", id}).exit_status, 0);
  ASSERT_NO_FATAL_FAILURE(fill_up_to(0));
  const auto pinned = ids();
  const Outcome full = daemon_.ctl({"--json", "snapshot"});
  EXPECT_EQ(full.exit_status, 1) << full.text();
  EXPECT_THAT(full.err,
              AllOf(HasSubstr("io.flightd.Recorder.StoreFull"), HasSubstr("make space"), HasSubstr("0 are free")));
  EXPECT_EQ(ids(), pinned);
  fs::remove(disk_ + "/filler");
  EXPECT_TRUE(daemon_.goes_on());
  EXPECT_TRUE(warns({"cannot be reached"}, false));
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreTest, AllPinnedIsOverBudgetAndSaid) {
  start({{"max_files", 2}});
  for (int i = 0; i < 2; ++i) take();
  ASSERT_EQ(daemon_.ctl({"pin", "1", "2"}).exit_status, 0);
  take();
  EXPECT_TRUE(come_to({"1", "2", "3"}));
  EXPECT_TRUE(warns({"over its budget", "2 of 3 pinned", "store.max_files"}));
  ASSERT_EQ(daemon_.ctl({"unpin", "1"}).exit_status, 0);
  EXPECT_EQ(ids_of(daemon_.ctl_json({"vacuum"})["removed"]), (std::vector<std::string>{"1"}));
  EXPECT_TRUE(warns({"over its budget"}, false));
  EXPECT_TRUE(daemon_.stop());
}

// The clock was years ahead when 3 was taken, and behind when 4 was.
TEST_F(StoreTest, ClockSteps) {
  start({{"max_files", 3}, {"max_age", "36500d"}, {"keep_first", 0}, {"keep_last", 0}});
  fake(2, "spike", std::chrono::hours(2));
  fake(3, "spike", -std::chrono::hours(24 * 3650));
  fake(4, "spike", std::chrono::hours(24 * 3650));
  fake(5, "spike", std::chrono::hours(1));
  EXPECT_EQ(daemon_.snapshot()["id"], "6");
  EXPECT_TRUE(come_to({"4", "5", "6"})) << "by number";
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreTest, AnOrphanGetsASidecarOfTheFile) {
  start(Json::object());
  const Json whole = daemon_.snapshot();
  const std::string path = whole["path"];
  const std::string sidecar = path.substr(0, path.size() - 10) + ".json";
  fs::remove(sidecar);
  EXPECT_EQ(daemon_.ctl_json({"list"}).at(0)["state"], "orphan");
  const Json made = daemon_.ctl_json({"info", "1"});
  for (const char* key :
       {"id", "path", "host", "kernel", "trigger", "compression", "size_bytes", "raw_bytes", "samples"})
    EXPECT_EQ(made[key], whole[key]) << key;
  EXPECT_GE(made["window"]["begin_ns"], whole["window"]["begin_ns"]);
  EXPECT_LE(made["window"]["end_ns"], whole["window"]["end_ns"]);
  EXPECT_THAT(made["warnings"].dump(), HasSubstr("its sidecar was missing"));
  EXPECT_EQ(daemon_.ctl_json({"list"}).at(0)["state"], "present");
  EXPECT_THAT(daemon_.log(), HasSubstr("a new one was made"));
  // Somebody deletes the sidecar, and no client requested anything. A file that is not perf.data stays an orphan.
  fs::remove(sidecar);
  fake(7);
  const std::string other = daemon_.ctl_json({"info", "7"})["path"];
  fs::remove(other.substr(0, other.size() - 10) + ".json");
  EXPECT_EQ(daemon_.ctl({"vacuum"}).exit_status, 0);
  const Json rows = daemon_.ctl_json({"list"});
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["state"], "present");
  EXPECT_EQ(rows[1]["state"], "orphan");
  EXPECT_EQ(daemon_.ctl({"info", "7"}).exit_status, 1);
  EXPECT_EQ(daemon_.ctl({"remove", "7"}).exit_status, 0);
  EXPECT_TRUE(daemon_.stop());
}

// A snapshot that is too large keeps its newest part.
TEST_F(StoreTest, OneThatIsTooLargeIsCutAtItsOldestEnd) {
  Json config = stacks_config(997, "2M");
  config["snapshot"]["compression"] = "none";
  config["store"]["max_snapshot"] = "512K";
  ASSERT_TRUE(daemon_.start(config)) << daemon_.log();
  Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "300"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  Json sidecar;
  ASSERT_TRUE(wait_until(
      [&] {
        sidecar = daemon_.snapshot();
        // Other loads of a busy machine can fill it before this one has had much time on a CPU.
        return sidecar.value("warnings", Json::array()).dump().find("store.max_snapshot") != std::string::npos &&
               sidecar["top"].dump().find("burner") != std::string::npos;
      },
      120s))
      << sidecar;
  burner.kill();  // perf needs a CPU
  EXPECT_LE(sidecar["size_bytes"], 512U << 10U);
  EXPECT_EQ(sidecar["size_bytes"], fs::file_size(sidecar["path"].get<std::string>()));
  EXPECT_GT(sidecar["samples"], 100);
  const Outcome read = run({"perf", "script", "--no-demangle", "-F", "time", "-i", sidecar["path"]}, 120s);
  EXPECT_EQ(count_lines(read.out), sidecar["samples"]) << read.err;
  EXPECT_TRUE(daemon_.stop());
}

TEST_F(StoreTest, ListFilters) {
  start(Json::object());
  fake(1, "spike", std::chrono::hours(50));
  fake(2, "oom", std::chrono::hours(20));
  fake(3, "spike", std::chrono::hours(2));
  fake(4, "oom", std::chrono::minutes(5));
  EXPECT_THAT(ids(), ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(ids({"--trigger", "oom"}), ElementsAre("2", "4"));
  EXPECT_THAT(ids({"--since", "-3h"}), ElementsAre("3", "4"));
  EXPECT_THAT(ids({"--since=40h ago", "--until", "1h ago"}), ElementsAre("2", "3"));
  EXPECT_THAT(ids({"--until", "yesterday"}), ElementsAre("1"));
  EXPECT_THAT(ids({"-n", "3"}), ElementsAre("2", "3", "4"));
  EXPECT_THAT(ids({"-1"}), ElementsAre("4"));
  EXPECT_THAT(ids({"-r", "-n", "2"}), ElementsAre("4", "3"));
  EXPECT_THAT(ids({"--trigger", "oom", "-1"}), ElementsAre("4"));
  EXPECT_THAT(ids({"--trigger", "never"}), IsEmpty());
  const Outcome plain = daemon_.ctl({"list", "--trigger", "oom"});
  EXPECT_THAT(plain.out, AllOf(HasSubstr("made up"), HasSubstr("oom"), Not(HasSubstr("spike"))));
  const Outcome none = daemon_.ctl({"list", "--trigger", "never"});
  EXPECT_EQ(none.exit_status, 0);
  EXPECT_THAT(none.err, HasSubstr("No snapshot matches"));
  for (const Arguments& wrong :
       {Arguments{"list", "--since", "soon"}, Arguments{"list", "-n", "0"}, Arguments{"list", "-n", "some"},
        Arguments{"list", "-1", "-n", "2"}, Arguments{"list", "--since", "-1h", "--until", "-2h"}})
    EXPECT_EQ(daemon_.ctl(wrong).exit_status, 2) << daemon_.ctl(wrong).text();
  EXPECT_TRUE(daemon_.stop());
}

}  // namespace
}  // namespace flight
