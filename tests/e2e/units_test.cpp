// SPDX-License-Identifier: Apache-2.0
// The culprit is a unit, not one process: a service of many workers beside one busy process, and a loop that starts
// processes too short-lived to be sampled. The cgroups are real, and the kernel samples them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <mntent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/e2e/daemon_test.hpp"
#include "tests/e2e/verifier.hpp"

namespace flight {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The mount point of the hierarchy whose cgroups perf samples (cgroups(7)): v1's perf_event, else v2.
std::string cgroup_mount() {
  std::string unified;
  std::FILE* mounts = ::setmntent("/proc/self/mounts", "re");
  for (const mntent* entry = nullptr; mounts != nullptr && (entry = ::getmntent(mounts)) != nullptr;) {
    const std::string_view type = entry->mnt_type;
    if (type == "cgroup" && ::hasmntopt(entry, "perf_event") != nullptr) unified = entry->mnt_dir;
    if (type == "cgroup2" && unified.empty()) unified = entry->mnt_dir;
  }
  if (mounts != nullptr) ::endmntent(mounts);
  return unified;
}

// A cgroup with the name of a systemd unit. It is removed with the object.
class UnitGroup {
 public:
  explicit UnitGroup(const std::string& unit)
      : path_(fmt::format("{}/flight-e2e-{}/{}", cgroup_mount(), ::getpid(), unit)) {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    made_ = !error;
  }
  UnitGroup(const UnitGroup&) = delete;
  UnitGroup& operator=(const UnitGroup&) = delete;
  ~UnitGroup() {
    (void)wait_until([this] { return ::rmdir(path_.c_str()) == 0; }, 10s);
    // Its parents, as long as they are empty.
    for (std::string parent = path_; parent.find("/flight-e2e-") != std::string::npos;) {
      parent.resize(parent.rfind('/'));
      if (parent.find("/flight-e2e-") == std::string::npos || ::rmdir(parent.c_str()) != 0) break;
    }
  }
  [[nodiscard]] bool made() const { return made_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] Child start(const Arguments& arguments) const {
    return Child::start(arguments, {.nice = -5, .env = {}, .prepare = [this] {
                                      write_text(path_ + "/cgroup.procs", std::to_string(::getpid()));
                                    }});
  }

 private:
  std::string path_;
  bool made_ = false;
};

Json row_of(const Json& rows, const std::string& name) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Json& one) { return one["name"] == name; });
  return row == rows.end() ? Json() : *row;
}

class Units : public DaemonTest {
 protected:
  explicit Units(unsigned frequency = 997) : DaemonTest(stacks_config(frequency, "1M")) {}
};

// Names that end alike at three depths are three rows, and none of them is called like another one.
TEST_F(Units, NamesThatEndAlikeAtThreeDepthsAreThreeRows) {
  const UnitGroup outer("payroll.service"), middle("web.scope/payroll.service"),
      inner("web.scope/db.scope/payroll.service");
  if (!outer.made() || !middle.made() || !inner.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  std::vector<Child> loads;
  for (const UnitGroup* group : {&outer, &middle, &inner}) {
    loads.push_back(group->start({folder_.load("burner"), std::to_string(load_cpu()), "60"}));
    ASSERT_TRUE(loads.back().wait_for_line("started"));
  }
  for (const Child& load : loads) ASSERT_TRUE(load.runs_for(100ms));
  const Json sidecar = daemon_.snapshot();
  std::set<std::string> names, paths, units;
  for (const Json& row : sidecar["top_units"]) {
    if (row.dump().find("payroll.service") == std::string::npos) continue;
    names.insert(row["name"].get<std::string>());
    paths.insert(row["cgroup"].get<std::string>());
    EXPECT_EQ(row["unit"], row["name"]);
  }
  for (const Child& load : loads)
    for (const Json& row : sidecar["top"])
      if (row["pid"] == load.pid()) units.insert(row["unit"].get<std::string>());
  EXPECT_EQ(units, names);
  EXPECT_EQ(names.size(), 3U) << sidecar["top_units"].dump(1);
  EXPECT_EQ(paths.size(), 3U) << sidecar["top_units"].dump(1);
  loads.clear();
}

TEST_F(Units, ManyWorkersAreOneRowAboveASingleProcess) {
  const UnitGroup workers_group("workers.service"), hog_group("payroll.service");
  if (!workers_group.made() || !hog_group.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  const Child workers = workers_group.start({folder_.load("workers"), "24", "2"});
  ASSERT_TRUE(workers.wait_for_line("started"));
  const Child one = hog_group.start({folder_.load("workers"), "1", "15"});
  ASSERT_TRUE(one.wait_for_line("started"));
  Json sidecar, unit, program;
  EXPECT_TRUE(wait_until(
      [&] {
        ::sleep(1);
        sidecar = daemon_.snapshot({"--last", "1s"});
        unit = row_of(sidecar["top_units"], "workers.service");
        program = row_of(sidecar["top_programs"], "workers");
        return unit.is_object() && unit["processes"] >= 20;
      },
      60s))
      << sidecar["top_units"];
  EXPECT_GE(unit["processes"], 20);
  EXPECT_LE(unit["processes"], 25);
  EXPECT_LT(unit["pid_share"], 0.5) << "none of them is most of it";
  EXPECT_EQ(unit["program"], "workers");
  EXPECT_EQ(unit["unit"], "workers.service");
  EXPECT_THAT(unit["cgroup"].get<std::string>(), testing::EndsWith("/workers.service"));
  const Json payroll = row_of(sidecar["top_units"], "payroll.service");
  ASSERT_TRUE(payroll.is_object()) << sidecar["top_units"];
  EXPECT_GT(unit["cpus_now"].get<double>(), payroll["cpus_now"].get<double>());
  EXPECT_EQ(program["units"], 2) << "the program runs in both";
  EXPECT_EQ(program["unit"], "workers.service");
  // None of its processes is near the top: only the rows above show the unit.
  const Json& top = sidecar["top"];
  EXPECT_LT(std::count_if(top.begin(), top.end(), [](const Json& row) { return row["unit"] == "workers.service"; }),
            24);
  const Outcome info = daemon_.ctl({"info", sidecar["id"]});
  EXPECT_THAT(info.out, AllOf(HasSubstr("\ntop units:\n  now: the "), HasSubstr("\n  workers.service "),
                              HasSubstr("\ntop programs:\n"), HasSubstr("\ntop processes:\n")));
}

// A process that moves to another unit takes nothing with it that it did before.
TEST_F(Units, WhatAProcessDidBeforeItMovedIsOfTheUnitBefore) {
  const UnitGroup culprit_group("culprit.service"), victim_group("victim.service");
  if (!culprit_group.made() || !victim_group.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  const Child mover =
      culprit_group.start({"bash", "-c",
                           "for ((n=0;n<80;n++)); do for ((i=0;i<2000;i++)); do :; done; /bin/true; done\n"
                           "echo $$ >\"$0\"/cgroup.procs; for ((i=0;i<20000;i++)); do :; done; echo moved; sleep 60",
                           victim_group.path()});
  ASSERT_TRUE(mover.wait_for_line("moved"));
  const Json sidecar = daemon_.snapshot();
  const Json culprit = row_of(sidecar["top_units"], "culprit.service");
  ASSERT_TRUE(culprit.is_object()) << sidecar["top_units"];
  EXPECT_GT(culprit["samples"], 50);
  const Json victim = row_of(sidecar["top_units"], "victim.service");
  if (victim.is_object()) {
    EXPECT_LT(victim["samples"].get<double>(), culprit["samples"].get<double>() / 2);
  }
  const Json& top = sidecar["top"];
  const auto row = std::find_if(top.begin(), top.end(), [&](const Json& one) { return one["pid"] == mover.pid(); });
  ASSERT_NE(row, top.end()) << top;
  EXPECT_EQ((*row)["unit"], "culprit.service");
  const Json program = row_of(sidecar["top_programs"], "bash");
  ASSERT_TRUE(program.is_object()) << sidecar["top_programs"];
  EXPECT_EQ(program["unit"], "culprit.service");
  const Json& forks = sidecar["forks"]["by_unit"];
  const Json forked = row_of(forks, "culprit.service"), later = row_of(forks, "victim.service");
  ASSERT_TRUE(forked.is_object()) << forks;
  EXPECT_GE(forked["count"], 20);
  EXPECT_LE(later.is_object() ? later["count"].get<int>() : 0, 5) << forks;
  EXPECT_THAT(daemon_.ctl({"info", sidecar["id"]}).out, HasSubstr("culprit.service"));
}

class UnitsLong : public Units {
 protected:
  UnitsLong() : Units(199) {}
};

// The samples before an exec are those of the program that ran then, and a name that a process gives itself is not its
// program.
TEST_F(UnitsLong, AProgramIsAnExecutableWhateverTheProcessIsCalled) {
  const std::string cpu = std::to_string(load_cpu());
  const Child renamed =
      start_load({"bash", "-c", "printf sshd >/proc/$$/comm; echo started; while :; do :; done"}, -10);
  const Child execer = start_load({folder_.load("execer"), cpu, "1", folder_.load("burner"), cpu, "60"}, -10);
  ASSERT_TRUE(renamed.wait_for_line("started"));
  ASSERT_TRUE(wait_until([&] { return read_text(fmt::format("/proc/{}/comm", execer.pid())) == "burner\n"; }, 60s));
  ASSERT_TRUE(execer.runs_for(500ms));
  ASSERT_TRUE(renamed.runs_for(500ms));
  const Json sidecar = daemon_.snapshot();
  const Json& rows = sidecar["top_programs"];
  for (const char* name : {"execer", "burner"}) {
    const Json row = row_of(rows, name);
    ASSERT_TRUE(row.is_object()) << name << rows;
    EXPECT_EQ(row["path"], std::filesystem::canonical(folder_.load(name)).string());
    EXPECT_GT(row["samples"], 30) << row;
  }
  EXPECT_FALSE(row_of(rows, "sshd").is_object()) << rows;
  const Json shell = row_of(rows, "bash");
  ASSERT_TRUE(shell.is_object()) << rows;
  EXPECT_EQ(shell["pid"], renamed.pid());
  const Json& top = sidecar["top"];
  EXPECT_TRUE(std::any_of(top.begin(), top.end(), [&](const Json& row) {
    return row["comm"] == "sshd" && row["pid"] == renamed.pid();
  })) << top;
  EXPECT_EQ(std::count_if(top.begin(), top.end(), [&](const Json& row) { return row["pid"] == execer.pid(); }), 1)
      << "one process" << top;
}

// In the sidecar it has the name that it chose, and nothing says that the kernel gave it.
TEST_F(UnitsLong, AProcessThatCallsItselfLikeAKernelThreadIsShownInQuotationMarks) {
  const Child renamed =
      start_load({"bash", "-c", "printf '[kworker/0:1]' >/proc/$$/comm; echo started; while :; do :; done"}, -10);
  ASSERT_TRUE(renamed.wait_for_line("started"));
  ASSERT_TRUE(renamed.runs_for(500ms));
  const Json sidecar = daemon_.snapshot();
  const Json& top = sidecar["top"];
  const auto row = std::find_if(top.begin(), top.end(), [&](const Json& one) { return one["pid"] == renamed.pid(); });
  ASSERT_NE(row, top.end()) << top;
  EXPECT_EQ((*row)["comm"], "[kworker/0:1]");
  EXPECT_FALSE(row->contains("named_by")) << *row;
  EXPECT_THAT(daemon_.ctl({"info", sidecar["id"]}).out, HasSubstr("\n  \"[kworker/0:1]\" "));
}

// A scan of /proc says what ran before flightd.
TEST_F(Units, TheProgramsOfEarlierProcessesAreKnown) {
  ASSERT_TRUE(daemon_.stop());
  const Child burner = start_load({folder_.load("burner"), std::to_string(load_cpu()), "60"}, -10);
  ASSERT_TRUE(burner.wait_for_line("started"));
  ASSERT_TRUE(daemon_.start(config_));
  ASSERT_TRUE(burner.runs_for(200ms));
  const Json row = row_of(daemon_.snapshot()["top_programs"], "burner");
  ASSERT_TRUE(row.is_object());
  EXPECT_EQ(row["pid"], burner.pid());
}

// None of its executable mappings is one of its file: /proc/PID/exe says what it is, also after a gap, in which it
// could have executed another program.
TEST_F(UnitsLong, AProgramThatHasMovedItsCodeIsKnown) {
  ASSERT_TRUE(daemon_.stop());
  const Child mover = start_load({folder_.load("text_mover"), std::to_string(load_cpu()), "60"}, -10);
  ASSERT_TRUE(mover.wait_for_line("started"));
  ASSERT_TRUE(daemon_.start(stacks_config(199, "1M")));
  for (const bool paused : {false, true}) {
    if (paused) {
      ASSERT_EQ(daemon_.ctl({"pause"}).exit_status, 0);
      ASSERT_TRUE(mover.runs_for(100ms));
      ASSERT_EQ(daemon_.ctl({"resume"}).exit_status, 0);
    }
    ASSERT_TRUE(mover.runs_for(500ms));
    const Json sidecar = daemon_.snapshot();
    const Json row = row_of(sidecar["top_programs"], "text_mover");
    ASSERT_TRUE(row.is_object()) << paused << sidecar["top_programs"].dump(1);
    EXPECT_EQ(row["pid"], mover.pid());
    EXPECT_EQ(row["path"], std::filesystem::canonical(folder_.load("text_mover")).string());
    EXPECT_TRUE(all_count_all(folder_, sidecar)) << "perf is given no mapping of it";
  }
}

TEST_F(Units, AForkStormHasAForkerAndARate) {
  const UnitGroup group("healthcheck.service");
  if (!group.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  const Child storm = group.start({folder_.load("fork_storm")});
  Json sidecar;
  std::string text;
  EXPECT_TRUE(wait_until(
      [&] {
        ::sleep(1);
        text = daemon_.ctl({"snapshot", "--last", "1s"}).out;
        sidecar = daemon_.snapshot({"--last", "1s"});
        const Json by_unit = row_of(sidecar["forks"]["by_unit"], "healthcheck.service");
        return sidecar["forks"]["per_second"] >= 100 && by_unit.is_object() && by_unit["count"] >= 100 &&
               text.find("forks/s") != std::string::npos;
      },
      60s))
      << sidecar["forks"];
  EXPECT_THAT(text, testing::ContainsRegex("[0-9] forks/s.* by\\s+healthcheck.service"));
  const Json& forks = sidecar["forks"];
  const Json unit = row_of(forks["by_unit"], "healthcheck.service");
  ASSERT_TRUE(unit.is_object()) << forks;
  EXPECT_GE(unit["count"], 100) << forks;
  EXPECT_GE(forks["count"], unit["count"]);
  EXPECT_NEAR(unit["per_second"].get<double>(),
              unit["count"].get<double>() / sidecar["window"]["seconds"].get<double>(), 1);
  const Json ranked = row_of(sidecar["top_units"], "healthcheck.service");
  ASSERT_TRUE(ranked.is_object()) << sidecar["top_units"];
  EXPECT_GT(ranked["forks_per_second"], 0);
  EXPECT_EQ(ranked["forked_by"], "fork_storm");
  // Each of its children lives for a moment, and would have its own row without the rows above.
  const Json& pids = forks["by_pid"];
  const auto forker =
      std::find_if(pids.begin(), pids.end(), [&](const Json& row) { return row["pid"] == storm.pid(); });
  ASSERT_NE(forker, pids.end()) << forks;
  EXPECT_EQ((*forker)["name"], "fork_storm");
  EXPECT_EQ((*forker)["unit"], "healthcheck.service");
  EXPECT_GE((*forker)["count"], unit["count"].get<double>() * 0.8) << forks;
  EXPECT_THAT(daemon_.ctl({"info"}).out, AllOf(HasSubstr("\nforks of processes per second"), HasSubstr("WHO FORKS"),
                                               HasSubstr("\n  healthcheck.service ")));
}

struct Elsewhere {
  const char* how = "";  // born there, or moved after the fork
  int milliseconds = 0;  // that each child burns there
};

class ForksElsewhere : public Units, public testing::WithParamInterface<Elsewhere> {};

// A manager starts its children in another unit, and they fork: no fork of theirs is the manager's.
TEST_P(ForksElsewhere, AreOfTheUnitThatForks) {
  constexpr int kChildren = 100, kForksOfEach = 4;
  const UnitGroup manager_group("manager.service"), victim_group("victim.service");
  if (!manager_group.made() || !victim_group.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  const Child manager = manager_group.start({folder_.load("unit_forker"), victim_group.path(), GetParam().how,
                                             std::to_string(GetParam().milliseconds), std::to_string(kChildren)});
  ASSERT_TRUE(manager.wait_for_line("done", 60s)) << manager.err();
  const Json sidecar = daemon_.snapshot();
  const Json& forks = sidecar["forks"];
  const auto count = [&](const char* unit) {
    const Json row = row_of(forks["by_unit"], unit);
    return row.is_object() ? row["count"].get<int>() : 0;
  };
  const int managers = count("manager.service"), victims = count("victim.service"), unknown = forks["unit_unknown"];
  fmt::print("manager.service {}, victim.service {}, unknown {}\n", managers, victims, unknown);
  EXPECT_LE(managers, kChildren) << forks;
  EXPECT_GE(managers, kChildren * 9 / 10) << forks;
  EXPECT_LE(victims, kChildren * kForksOfEach) << forks;
  EXPECT_GE(managers + victims + unknown, kChildren * (1 + kForksOfEach) * 9 / 10) << forks;
  const Json& pids = forks["by_pid"];
  const auto row = std::find_if(pids.begin(), pids.end(), [&](const Json& one) { return one["pid"] == manager.pid(); });
  ASSERT_NE(row, pids.end()) << forks;
  EXPECT_LE((*row)["count"], kChildren) << "what it did itself";
  EXPECT_EQ((*row)["unit"], "manager.service");
  if (GetParam().milliseconds > 0) {
    EXPECT_GE(victims, kChildren * kForksOfEach * 8 / 10) << "each child has samples" << forks;
    const Json ranked = row_of(sidecar["top_units"], "victim.service");
    ASSERT_TRUE(ranked.is_object()) << sidecar["top_units"];
    EXPECT_EQ(ranked["forked_by"], "unit_forker") << ranked;
  }
}
INSTANTIATE_TEST_SUITE_P(Units, ForksElsewhere,
                         testing::Values(Elsewhere{"born", 8}, Elsewhere{"born", 0}, Elsewhere{"moved", 8},
                                         Elsewhere{"moved", 0}),
                         [](const auto& elsewhere) {
                           return fmt::format("{}And{}", elsewhere.param.how,
                                              elsewhere.param.milliseconds > 0 ? "Sampled" : "Short");
                         });

// Cgroups that are empty. They are removed with the object.
class ManyGroups {
 public:
  explicit ManyGroups(int count) : path_(fmt::format("{}/flight-e2e-many-{}", cgroup_mount(), ::getpid())) {
    bool good = ::mkdir(path_.c_str(), 0755) == 0;
    for (; good && made_ < count; ++made_) good = ::mkdir(name_of(made_).c_str(), 0755) == 0;
  }
  ManyGroups(const ManyGroups&) = delete;
  ManyGroups& operator=(const ManyGroups&) = delete;
  ~ManyGroups() {
    for (int i = 0; i < made_; ++i) ::rmdir(name_of(i).c_str());
    ::rmdir(path_.c_str());
  }
  [[nodiscard]] int made() const { return made_; }

 private:
  [[nodiscard]] std::string name_of(int number) const {
    return fmt::format("{}/a-service-with-quite-a-long-name-{:05}.service", path_, number);
  }
  std::string path_;
  int made_ = 0;
};

// Memory that is no file's.
std::uint64_t own_kib(pid_t pid) {
  const std::string status = read_text(fmt::format("/proc/{}/status", pid));
  const auto at = status.find("RssAnon:");
  return at == std::string::npos ? UINT64_MAX : std::strtoull(status.c_str() + at + 8, nullptr, 10);
}

// Made while flightd records, and then by the time that the next flightd starts. A unit is right, or not known, with
// the reason.
TEST_F(UnitsLong, FortyThousandCgroupsHideNone) {
  const UnitGroup early("early.service");
  if (!early.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  const ManyGroups many(40'000);
  ASSERT_EQ(many.made(), 40'000);
  const UnitGroup late("late.service");
  std::vector<Child> loads;
  for (const UnitGroup* group : {&early, &late}) {
    loads.push_back(group->start({folder_.load("burner"), std::to_string(load_cpu()), "60"}));
    ASSERT_TRUE(loads.back().wait_for_line("started"));
  }
  for (int round = 0; round < 2; ++round) {
    SCOPED_TRACE(round == 0 ? "beside flightd" : "before flightd");
    for (const Child& load : loads) ASSERT_TRUE(load.runs_for(300ms));
    const Json sidecar = daemon_.snapshot({"--last", "5s"});
    const std::string messages = sidecar["messages"].dump();
    std::size_t found = 0;
    for (const Child& load : loads)
      for (const Json& row : sidecar["top"]) {
        if (row["pid"] != load.pid()) continue;
        ++found;
        const std::string unit = row["unit"], expected = &load == loads.data() ? "early.service" : "late.service";
        EXPECT_TRUE(unit == expected || (unit.empty() && messages.find("cgroup") != std::string::npos))
            << unit << " instead of " << expected << ": " << messages;
        fmt::print("{}: '{}'\n", expected, unit);
      }
    EXPECT_EQ(found, loads.size()) << sidecar["top"].dump(1);
    EXPECT_TRUE(all_count_all(folder_, sidecar));
    for (const pid_t pid : {daemon_.pid(), daemon_.broker_pid()}) EXPECT_LT(own_kib(pid), 64U << 10U);
    if (round == 0) {
      ASSERT_TRUE(daemon_.stop());
      ASSERT_TRUE(daemon_.start(config_));
    }
  }
  loads.clear();
}

// Removes the cgroups that are left in one.
class EmptiedGroup {
 public:
  explicit EmptiedGroup(std::string path) : path_(std::move(path)) {}
  EmptiedGroup(const EmptiedGroup&) = delete;
  EmptiedGroup& operator=(const EmptiedGroup&) = delete;
  ~EmptiedGroup() {
    (void)wait_until([this] { return remove_all(); }, 10s);
  }

 private:
  [[nodiscard]] bool remove_all() const {
    std::vector<std::string> groups;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path_, error))
      if (entry.is_directory(error)) groups.push_back(entry.path().string());
    bool all = true;
    for (const std::string& group : groups) all = ::rmdir(group.c_str()) == 0 && all;
    return all;
  }
  std::string path_;
};

// A service that may make cgroups makes them for ever, and calls them and itself like its neighbour.
TEST_F(UnitsLong, LookAlikesAreNotTheirNeighbour) {
  const UnitGroup honest("payroll.service"), eves("eve.service");
  if (!honest.made() || !eves.made()) GTEST_SKIP() << "this machine lets us make no cgroups";
  const EmptiedGroup emptied(eves.path());
  const std::string cpu = std::to_string(load_cpu());
  const Child burner = honest.start({folder_.load("burner"), cpu, "60"});
  ASSERT_TRUE(burner.wait_for_line("started"));
  Child eve = eves.start({folder_.load("cgroup_maker"), cpu, "4", eves.path(), "payroll.service", "burner"});
  ASSERT_TRUE(eve.wait_for_line("started")) << eve.err();
  ASSERT_TRUE(burner.runs_for(500ms));
  std::vector<Json> sidecars;
  sidecars.push_back(daemon_.snapshot());
  EXPECT_EQ(eve.wait(60s), 0) << eve.err();
  const std::string made = eve.wait_for_line("made ").value_or("0");
  fmt::print("{} cgroups\n", made);
  EXPECT_GT(std::stoul(made), 50U) << eve.err();
  sidecars.push_back(daemon_.snapshot());
  const std::string folder = fmt::format("/flight-e2e-{}/", ::getpid());
  for (const Json& sidecar : sidecars) {
    for (const Json& row : sidecar["top_units"]) {
      const std::string name = row["name"], cgroup = row["cgroup"];
      if (cgroup.ends_with(folder + "payroll.service")) {
        EXPECT_EQ(name, "payroll.service");
        EXPECT_EQ(row["processes"], 1) << row;
        EXPECT_EQ(row["pid"], burner.pid()) << row;
      } else {
        EXPECT_NE(name, "payroll.service") << row;
      }
    }
    std::size_t found = 0;
    for (const Json& row : sidecar["top"]) {
      const std::string unit = row["unit"];
      if (row["pid"] == burner.pid()) {
        EXPECT_EQ(unit, "payroll.service") << row;
        ++found;
      } else if (row["pid"] == eve.pid()) {
        EXPECT_TRUE(unit.starts_with("eve.service") || unit == "[unknown]" || unit.empty()) << row;
      }
    }
    EXPECT_EQ(found, 1U) << sidecar["top"].dump(1);
    const std::string info = daemon_.ctl({"info", "--all", sidecar["id"]}).out;
    EXPECT_THAT(info, HasSubstr("payroll.service"));
    const auto drives_terminal = [](char byte) {
      const auto code = static_cast<unsigned char>(byte);
      return (code < ' ' && code != '\n') || code == 0x7f;
    };
    EXPECT_TRUE(std::none_of(info.begin(), info.end(), drives_terminal)) << info;
    EXPECT_TRUE(all_count_all(folder_, sidecar));
  }
  for (const pid_t pid : {daemon_.pid(), daemon_.broker_pid()}) EXPECT_LT(own_kib(pid), 64U << 10U);
}

}  // namespace
}  // namespace flight
