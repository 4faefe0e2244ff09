// SPDX-License-Identifier: Apache-2.0
#include "libcore/snapshot/top.hpp"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <tuple>

#include "libcore/snapshot/file_facts.hpp"
#include "tests/unit/snapshot/made_ring.hpp"

namespace flight {
namespace {

constexpr std::uint64_t kSampled = 1, kSideband = 2;  // ids
constexpr EventTime kTopSecond = 1'000'000'000;

class Top : public testing::Test {
 protected:
  Top() {
    manifest_.events.resize(1);
    manifest_.events[0].attr.freq = 1;
    for (int cpu : {0, 1}) manifest_.rings.push_back({.channel = "stacks", .cpu = cpu});
  }
  void comm(std::uint32_t pid, std::string_view name, EventTime time_ns) {
    append_comm(time_ns == 0 ? sideband_.prologue : sideband_.log, {.pid = pid, .tid = pid, .name = name},
                {.pid = pid, .tid = pid, .time_ns = time_ns, .id = kSideband});
  }
  void program(std::uint32_t pid, std::string_view path, EventTime time_ns = 0) {
    append_mmap2(time_ns == 0 ? sideband_.prologue : sideband_.log,
                 {.pid = pid, .tid = pid, .address = 0x1000, .bytes = 0x1000, .name = path, .is_program = time_ns == 0},
                 {.pid = pid, .tid = pid, .time_ns = time_ns, .id = kSideband});
  }
  // A process that was there before, of /usr/bin/NAME.
  void process(std::uint32_t pid, std::string_view name) {
    comm(pid, name, 0);
    program(pid, fmt::format("/usr/bin/{}", name));
  }
  void exec(std::uint32_t pid, std::string_view name, EventTime time_ns) {
    append_comm(sideband_.log, {.pid = pid, .tid = pid, .name = name, .exec = true},
                {.pid = pid, .tid = pid, .time_ns = time_ns, .id = kSideband});
  }
  void fork(std::uint32_t pid, std::uint32_t parent, EventTime time_ns) {
    append_fork(sideband_.log, {.pid = pid, .ppid = parent, .tid = pid, .ptid = parent, .time_ns = time_ns},
                {.pid = parent, .tid = parent, .time_ns = time_ns, .id = kSideband});
  }
  void samples(std::uint32_t pid, EventTime from_ns, int count, std::size_t cpu = 0,
               std::uint16_t cpumode = PERF_RECORD_MISC_KERNEL) {
    for (int i = 0; i < count; ++i) {
      rings_[cpu].add_sample(from_ns + static_cast<EventTime>(i), pid, kSampled, cpumode, in_cgroup_);
      tallies_[cpu][{pid, in_cgroup_}].add(compared_, from_ns + static_cast<EventTime>(i), true);
    }
  }
  // The window is [begin, end) in seconds; "now" begins at `now`. cpu-clock at 10 Hz.
  void compare(EventTime begin_s, EventTime now_s, EventTime end_s) {
    compared_ = {begin_s * kTopSecond, now_s * kTopSecond, end_s * kTopSecond};
    manifest_.events[0].attr.type = PERF_TYPE_SOFTWARE;
    manifest_.events[0].attr.config = PERF_COUNT_SW_CPU_CLOCK;
    manifest_.events[0].attr.sample_freq = 10;
  }
  // At every tick of the clock, from one second to another.
  void burn(std::uint32_t pid, EventTime begin_s, EventTime end_s, std::size_t cpu = 0) {
    for (EventTime at = begin_s * kTopSecond; at < end_s * kTopSecond; at += kTopSecond / 10) samples(pid, at, 1, cpu);
  }
  Ranking ranked(std::size_t most = 10) {
    Selection selection;
    selection.begin_ns = compared_.before_begin_ns;
    selection.end_ns = compared_.now_end_ns;
    selection.compared = compared_;
    selection.pauses = pauses_;
    for (std::size_t i = 0; i < 2; ++i) {
      selection.rings.push_back(rings_[i].selection(events_));
      selection.rings.back().image = {};  // no record is read
      selection.rings.back().tallies = tallies_[i];
      selection.rings.back().covers_from_ns = covers_from_ns_[i];
    }
    return rank(selection, manifest_, {0, 1}, sideband_, own_pid_namespace_, most);
  }
  std::vector<SidecarTop> rows(std::size_t most = 10) { return ranked(most).processes; }
  // "name: processes share in unit" of each.
  static std::vector<std::string> texts_of(const std::vector<SidecarGroup>& groups) {
    std::vector<std::string> out;
    for (const SidecarGroup& group : groups)
      out.push_back(fmt::format("{}: {} {:.2f} mostly {}[{}] {:.2f} in {}", group.name, group.processes, group.share,
                                group.program, group.pid, group.pid_share, group.cgroup));
    return out;
  }
  // All samples without a cgroup so far, of a process that has one life.
  void cgroup(std::uint32_t pid, std::uint64_t id, std::size_t cpu = 0) {
    auto node = tallies_[cpu].extract({pid, 0});
    ASSERT_FALSE(node.empty());
    node.key().cgroup = id;
    tallies_[cpu].insert(std::move(node));
  }
  void cgroup_path(std::uint64_t id, std::string_view path) {
    append_cgroup(sideband_.prologue, {.id = id, .path = path}, {.id = kSideband});
  }
  std::vector<std::string> run() {
    std::vector<std::string> out;
    for (const SidecarTop& row : rows())
      out.push_back(fmt::format("{} {} {} {:.2f} on {}", row.comm, row.pid, row.samples, row.share, row.cpus.size()));
    return out;
  }
  // "before -> now" of each, in percent of a CPU and of the samples.
  std::vector<std::string> changes(std::size_t most = 10) {
    const auto text = [](std::optional<double> part) { return part ? fmt::format("{:.0f}", *part * 100) : "-"; };
    std::vector<std::string> out;
    for (const SidecarTop& row : rows(most))
      out.push_back(fmt::format("{}: {}>{} {}>{}", row.pid, text(row.cpus_before), text(row.cpus_now),
                                text(row.share_before), text(row.share_now)));
    return out;
  }

  Manifest manifest_;
  EventTime covers_from_ns_[2] = {0, 0};
  TrackerExport sideband_;
  std::vector<Pause> pauses_;
  decltype(RingSelection::tallies) tallies_[2];
  std::uint64_t in_cgroup_ = 0;  // of the next samples
  bool own_pid_namespace_ = false;

 private:
  EventTable events_ = made_events(2, PERF_SAMPLE_CGROUP);
  SidecarCompared compared_;
  std::vector<MadeRing> rings_ = std::vector<MadeRing>(2);
};

TEST_F(Top, MostSamplesFirstWithTheNewestName) {
  comm(7, "old", 0);
  comm(7, "new", 150);
  samples(7, 100, 20);
  samples(7, 100, 10, 1);
  samples(8, 300, 10);
  EXPECT_THAT(run(), testing::ElementsAre("new 7 30 0.75 on 2", ":8 8 10 0.25 on 1"));
}

TEST_F(Top, APidThatIsTakenAgainIsTwoProcesses) {
  comm(1, "shell", 0);
  comm(7, "first", 0);
  samples(7, 100, 10);
  fork(7, 1, 200);
  samples(7, 210, 5);  // before its exec it has its parent's name
  comm(7, "second", 220);
  samples(7, 230, 10, 1);
  fork(7, 1, 300);
  samples(7, 310, 25);
  EXPECT_THAT(run(), testing::ElementsAre("shell 7 25 0.50 on 1", "second 7 15 0.30 on 2", "first 7 10 0.20 on 1"));
}

TEST_F(Top, ComparesBeforeWithNowInCpus) {
  compare(10, 20, 25);
  burn(7, 10, 25);     // all the time
  burn(8, 20, 25, 1);  // since it began
  burn(9, 10, 15, 1);  // half of the time before, then it exits
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 67>50", "8: 0>100 0>50", "9: 50>0 33>0"));
}

// The kernel's limit was lower when the event was opened there: a sample stands for more time.
TEST_F(Top, ALowerRateOnOneCpuCounts) {
  compare(10, 20, 25);
  manifest_.events[0].ids = {{kSampled, 0, 0}, {kSampled + 1, 1, 1, {.frequency = 5, .max_stack = 0}}};
  burn(7, 10, 25);
  burn(8, 20, 25, 1);
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 100>50", "8: 0>200 0>50"));
}

TEST_F(Top, ARingThatHoldsLessCountsForItsPart) {
  compare(20, 20, 30);  // no time before is held by all rings
  covers_from_ns_[1] = 25 * kTopSecond;
  burn(7, 20, 30);
  burn(8, 25, 30, 1);
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->100 ->67", "8: ->100 ->33"));
}

// Without this, a steady load had grown since the pause.
TEST_F(Top, TheTimeOfAPauseDoesNotCount) {
  compare(10, 20, 26);
  pauses_ = {{1 * kTopSecond, 2 * kTopSecond}, {12 * kTopSecond, 18 * kTopSecond}, {22 * kTopSecond, 24 * kTopSecond}};
  for (const auto& [begin_s, end_s] : {std::pair(10, 12), {18, 22}, {24, 26}}) burn(7, begin_s, end_s);
  burn(8, 18, 20, 1);
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 67>100", "8: 50>0 33>0"));
  // All of the time before: what it was is unknown.
  pauses_ = {{9 * kTopSecond, 20 * kTopSecond}};
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->67 67>100", "8: ->0 33>0"));
  pauses_ = {{10 * kTopSecond, 20 * kTopSecond - kTopSecond / 10}};  // a sample stood for ten CPUs
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->67 67>100", "8: ->0 33>0"));
  pauses_ = {{24 * kTopSecond, UINT64_MAX}};
  EXPECT_THAT(changes(), testing::Contains("7: 40>100 67>100"));
}

// The gap of one CPU's sideband, without loss, is not a pause: the others were recorded.
TEST_F(Top, ACpuThatComesOnlineIsNoPause) {
  compare(10, 20, 26);
  covers_from_ns_[1] = 0;
  sideband_.gaps = {{.begin_ns = 8 * kTopSecond, .end_ns = 21 * kTopSecond}};
  burn(7, 10, 26);
  burn(8, 21, 26, 1);
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 100>55", "8: 0>83 0>45"));
}

TEST_F(Top, CpusAreUnknownWithoutCpuClock) {
  compare(10, 20, 25);
  burn(7, 10, 25);
  manifest_.events[0].attr.type = PERF_TYPE_HARDWARE;  // its frequency is adjusted, not fixed
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->- 100>100"));
  manifest_.events[0].attr.type = PERF_TYPE_SOFTWARE;
  EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 100>100"));
  manifest_.events.push_back(manifest_.events[0]);  // it is not known which of the two took a sample
  EXPECT_THAT(changes(), testing::ElementsAre("7: ->- 100>100"));
}

// It was closed, and opened again with the same rate: both count the same CPU time.
TEST_F(Top, CpusAreKnownFromAClockAndTheOneBeforeIt) {
  compare(10, 20, 25);
  burn(7, 10, 25);
  manifest_.events.push_back(manifest_.events[0]);
  for (const std::size_t earlier : {0U, 1U}) {
    manifest_.events[earlier].closed = true;
    EXPECT_THAT(changes(), testing::ElementsAre("7: 100>100 100>100")) << earlier;
    manifest_.events[earlier].attr.sample_freq = 5;
    EXPECT_THAT(changes(), testing::ElementsAre("7: ->- 100>100")) << "a sample of the other stood for more time";
    manifest_.events[earlier].attr.sample_freq = 10;
    manifest_.events[earlier].attr.type = PERF_TYPE_HARDWARE;
    EXPECT_THAT(changes(), testing::ElementsAre("7: ->- 100>100"));
    manifest_.events[earlier].attr.type = PERF_TYPE_SOFTWARE;
    manifest_.events[earlier].closed = false;
  }
}

TEST_F(Top, NewAndExitedProcessesAreNamedBesideTheBusiest) {
  compare(10, 50, 51);
  for (std::uint32_t pid = 1; pid <= 4; ++pid) burn(pid, 20, 50);
  burn(5, 10, 11);  // gone
  burn(6, 50, 51);  // new
  samples(7, 30 * kTopSecond, 1);
  const auto changed = changes(4);
  EXPECT_EQ(changed.size(), 5U);
  EXPECT_EQ(changed.back(), "6: 0>100 0>100");
  EXPECT_EQ(changes(10).size(), 7U);
}

TEST_F(Top, TheUnitIsNamed) {
  append_cgroup(sideband_.prologue, {.id = 5, .path = "/system.slice/x.service"}, {.id = kSideband});
  samples(7, 100, 3);
  cgroup(7, 5);
  const auto listed = rows();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].cgroup, "/system.slice/x.service");
  EXPECT_EQ(listed[0].unit, "x.service");
}

// 24 workers of 1 % each are more than one process of 10 %.
TEST_F(Top, WorkersAreAddedUpByUnitAndByProgram) {
  cgroup_path(5, "/system.slice/gunicorn.service/app");
  cgroup_path(6, "/system.slice/gunicorn.service/control");
  cgroup_path(7, "/system.slice/payroll.service");
  for (std::uint32_t pid = 101; pid <= 124; ++pid) {
    process(pid, "gunicorn");
    samples(pid, 100, 2, pid % 2);
    cgroup(pid, pid == 101 ? 6 : 5, pid % 2);
  }
  process(200, "payroll");
  samples(200, 100, 20);
  cgroup(200, 7);
  process(201, "helper");
  samples(201, 200, 2);
  cgroup(201, 7);
  process(300, "stray");
  samples(300, 300, 1);
  cgroup_path(1, "/");
  cgroup(300, 1);
  const Ranking ranking = ranked();
  EXPECT_EQ(ranking.processes[0].comm, "payroll");
  EXPECT_THAT(
      texts_of(ranking.units),
      testing::ElementsAre("gunicorn.service: 24 0.68 mostly gunicorn[101] 0.04 in /system.slice/gunicorn.service",
                           "payroll.service: 2 0.31 mostly payroll[200] 0.91 in /system.slice/payroll.service",
                           ": 1 0.01 mostly stray[300] 1.00 in /"));
  EXPECT_THAT(texts_of(ranking.programs),
              testing::ElementsAre("gunicorn: 24 0.68 mostly gunicorn[101] 0.04 in /system.slice/gunicorn.service",
                                   "payroll: 1 0.28 mostly payroll[200] 1.00 in /system.slice/payroll.service",
                                   "helper: 1 0.03 mostly helper[201] 1.00 in /system.slice/payroll.service",
                                   "stray: 1 0.01 mostly stray[300] 1.00 in /"));
  EXPECT_THAT(ranking.units[0].cpus, testing::ElementsAre(0, 1));
  EXPECT_EQ(ranking.programs[0].units, 1U);
  EXPECT_EQ(ranking.programs[3].units, 0U) << "outside of all units";
}

// A kernel thread is in the root cgroup. Of the others it is not known where they are: the cgroup's path is not known,
// or the kernel wrote none.
TEST_F(Top, AnUnknownUnitIsNotTheRootCgroup) {
  compare(10, 20, 25);
  cgroup_path(1, "/");
  cgroup_path(5, "/system.slice/health.service");
  for (const auto& [pid, id, name] : {std::tuple<std::uint32_t, std::uint64_t, const char*>(7, 5, "health"),
                                      {8, 1, "kthreadd"},
                                      {9, 99, "gone"},
                                      {10, 0, "other"}}) {
    process(pid, name);
    burn(pid, 10, 11);
    if (id != 0) cgroup(pid, id);
  }
  samples(0, 12 * kTopSecond, 2);           // idle
  samples(UINT32_MAX, 13 * kTopSecond, 3);  // exiting
  for (const std::uint32_t pid : {7, 8, 9, 10})
    sideband_.forks.push_back({11 * kTopSecond, 11 * kTopSecond, pid, to_comm("x"), pid});
  const Ranking ranking = ranked();
  std::map<std::string, std::string> units, programs, processes, forks;
  for (const SidecarGroup& row : ranking.units) units[row.name] = fmt::format("{} {}", row.samples, row.cgroup);
  const std::map<std::string, std::string> expected_units{
      {"health.service", "10 /system.slice/health.service"}, {"", "12 /"}, {"[unknown]", "23 "}};
  EXPECT_EQ(units, expected_units);
  for (const SidecarGroup& row : ranking.programs)
    programs[row.name] = fmt::format("{} {} {}", row.unit, row.cgroup, row.units);
  const std::map<std::string, std::string> expected_programs{
      {"health", "health.service /system.slice/health.service 1"},
      {"kthreadd", " / 0"},
      {"gone", "[unknown]  0"},
      {"other", "[unknown]  0"},
      {"[swapper]", "  0"},
      {"[unknown]", "  0"}};
  EXPECT_EQ(programs, expected_programs);
  for (const SidecarTop& row : ranking.processes) processes[std::to_string(row.pid) + row.comm] = row.unit;
  EXPECT_EQ(processes, (std::map<std::string, std::string>{{"7health", "health.service"},
                                                           {"8kthreadd", ""},
                                                           {"9gone", "[unknown]"},
                                                           {"10other", "[unknown]"},
                                                           {"0swapper", ""},
                                                           {"0:4294967295", ""}}));
  for (const SidecarForker& row : ranking.forks.by_unit) forks[row.name] = fmt::format("{} {}", row.count, row.cgroup);
  const std::map<std::string, std::string> expected_forks{
      {"health.service", "7 /system.slice/health.service"}, {"", "8 /"}, {"[unknown]", "19 "}};
  EXPECT_EQ(forks, expected_forks);
  // Nothing is known: there are no units to compare with.
  sideband_.prologue.clear();
  EXPECT_THAT(ranked().units, testing::IsEmpty());
  for (const SidecarTop& row : ranked().processes) EXPECT_EQ(row.unit, "");
}

TEST_F(Top, OneProgramInManyUnitsIsOneRow) {
  for (std::uint32_t pid = 1; pid <= 8; ++pid) {
    cgroup_path(pid, fmt::format("/docker/{:064x}", pid));
    process(pid, "python3");
    samples(pid, 100, 3);
    cgroup(pid, pid);
  }
  const Ranking ranking = ranked();
  EXPECT_EQ(ranking.units.size(), 8U);
  EXPECT_EQ(ranking.units[0].name, "docker-000000000000") << "and yet they are eight";
  ASSERT_EQ(ranking.programs.size(), 1U);
  EXPECT_EQ(ranking.programs[0].units, 8U);
  EXPECT_EQ(ranking.programs[0].processes, 8U);
  EXPECT_EQ(ranking.programs[0].share, 1);
}

TEST_F(Top, AProgramIsAnExecutableAndNoName) {
  comm(7, "sshd", 0);  // as it calls itself
  program(7, "/opt/bin/very-long-program (deleted)");
  process(8, "sshd");
  comm(9, "sshd", 0);  // its executable is not known
  samples(7, 100, 3);
  samples(8, 100, 2);
  samples(9, 100, 1);
  const Ranking ranking = ranked();
  EXPECT_EQ(ranking.processes[0].comm, "sshd");
  ASSERT_EQ(ranking.programs.size(), 3U);
  EXPECT_EQ(ranking.programs[0].name, "very-long-program");
  EXPECT_EQ(ranking.programs[0].path, "/opt/bin/very-long-program (deleted)");
  EXPECT_EQ(ranking.programs[1].path, "/usr/bin/sshd");
  EXPECT_EQ(ranking.programs[2].name, "[unknown]");
  EXPECT_EQ(ranking.programs[2].path, "");
}

// perf must not look for these files on the host. The program is the same.
TEST_F(Top, AProgramInAContainerHasItsOwnPath) {
  for (const auto& [pid, mark] :
       {std::pair<std::uint32_t, const char*>(7, ""), {8, " (not the host's)"}, {9, " (not verified)"}}) {
    comm(pid, "server", 0);
    program(pid, fmt::format("/app/server{}", mark));
    samples(pid, 100, 2);
  }
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.programs.size(), 1U);
  EXPECT_EQ(ranking.programs[0].name, "server");
  EXPECT_EQ(ranking.programs[0].path, "/app/server");
  EXPECT_EQ(ranking.programs[0].processes, 3U);
}

// `sh` executes `burn`: the samples before are the shell's.
TEST_F(Top, AnExecIsAnotherProgramOfTheSameProcess) {
  process(7, "sh");
  samples(7, 100, 10);
  exec(7, "burn", 200);
  samples(7, 201, 1);  // the kernel has not mapped it yet
  program(7, "/usr/bin/burn", 210);
  program(7, "/usr/lib/ld.so", 211);
  samples(7, 220, 20);
  comm(7, "renamed", 230);
  fork(8, 7, 300);
  samples(8, 310, 5, 1);
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.processes.size(), 2U);
  EXPECT_EQ(ranking.processes[0].comm, "renamed");
  EXPECT_EQ(ranking.processes[0].samples, 31U);
  ASSERT_EQ(ranking.programs.size(), 2U);
  EXPECT_EQ(ranking.programs[0].path, "/usr/bin/burn");
  EXPECT_EQ(ranking.programs[0].samples, 26U);
  EXPECT_EQ(ranking.programs[0].processes, 2U);
  EXPECT_EQ(ranking.programs[1].path, "/usr/bin/sh");
  EXPECT_EQ(ranking.programs[1].samples, 10U);
}

// A number that is used again, and an exec.
TEST_F(Top, TheProcessOfAGroupHasTheNameThatItHadThere) {
  cgroup_path(5, "/system.slice/hog.service");
  cgroup_path(6, "/system.slice/small.service");
  process(1, "shell");
  process(7, "hog");
  in_cgroup_ = 5;
  samples(7, 100, 90);
  fork(7, 1, 200);
  in_cgroup_ = 6;
  samples(7, 210, 3);
  exec(7, "burn", 220);
  program(7, "/usr/bin/burn", 221);
  samples(7, 230, 5);
  const auto names = [](const std::vector<SidecarGroup>& rows) {
    std::vector<std::string> out;
    for (const SidecarGroup& row : rows) out.push_back(row.name + ": " + row.comm);
    return out;
  };
  const Ranking ranking = ranked();
  EXPECT_THAT(names(ranking.units), testing::ElementsAre("hog.service: hog", "small.service: burn"));
  EXPECT_THAT(names(ranking.programs), testing::ElementsAre("hog: hog", "burn: burn", "shell: shell"));
}

// Its mappings were forgotten, its executable was not.
TEST_F(Top, AProgramWithoutMappingsIsKnown) {
  comm(7, "first", 0);
  fork(7, 1, 200);
  comm(7, "second", 200);
  sideband_.programs = {{.pid = 7, .from_ns = 0, .path = "/bin/first"},
                        {.pid = 7, .from_ns = 200, .path = "/bin/second"}};
  samples(7, 100, 2);
  samples(7, 250, 1);
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.programs.size(), 2U);
  EXPECT_EQ(ranking.programs[0].path, "/bin/first");
  EXPECT_EQ(ranking.programs[1].path, "/bin/second");
}

TEST_F(Top, KernelThreadsOfOneKindAreOneProgram) {
  for (std::uint32_t pid : {11, 12, 13, 14}) {
    append_fork(sideband_.prologue, {.pid = pid, .ppid = pid < 13 ? 2U : 3U, .tid = pid, .ptid = 2}, {});
    comm(pid, fmt::format("kworker/{}:1-eve", pid), 0);
    samples(pid, 100, 1);
  }
  program(13, "/home/eve/kworker");
  program(14, "/home/eve/[kworker]");
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.programs.size(), 3U);
  EXPECT_EQ(ranking.programs[0].name, "[kworker]");
  EXPECT_EQ(ranking.programs[0].path, "");
  EXPECT_EQ(ranking.programs[0].processes, 2U);
  EXPECT_EQ(ranking.programs[1].name, "kworker");
  EXPECT_EQ(ranking.programs[2].name, "/home/eve/[kworker]") << "it does not look like the kernel's";
  EXPECT_EQ(ranking.programs[2].path, "/home/eve/[kworker]");
}

// In a container, pid 2 is any process, and kernel threads have no pid.
TEST_F(Top, AChildOfPid2IsAKernelThreadOnlyOnTheHost) {
  append_fork(sideband_.prologue, {.pid = 2, .ppid = 0, .tid = 2, .ptid = 0}, {});
  comm(2, "second", 0);
  append_fork(sideband_.prologue, {.pid = 11, .ppid = 2, .tid = 11, .ptid = 2}, {});
  comm(11, "first", 0);
  fork(12, 2, 100);
  comm(12, "later", 101);
  for (const std::uint32_t pid : {2, 11, 12}) samples(pid, 200, 1);
  const auto names = [this] {
    std::set<std::string> out;
    for (const SidecarGroup& row : ranked().programs) out.insert(row.name);
    return out;
  };
  EXPECT_THAT(names(), testing::ElementsAre("[first]", "[later]", "[second]"));
  own_pid_namespace_ = true;
  EXPECT_THAT(names(), testing::ElementsAre("[unknown]"));
}

// Only the name of the process is known, and the process has chosen it.
TEST_F(Top, ANameInBracketsMakesNoKernelThread) {
  const auto before = [this](std::uint32_t pid, std::uint32_t parent, std::string_view name) {
    append_fork(sideband_.prologue, {.pid = pid, .ppid = parent, .tid = pid, .ptid = parent, .exec = true}, {});
    comm(pid, name, 0);
  };
  before(11, 2, "kworker/0:1");
  before(12, 1, "[kworker/0:1]");
  before(13, 1, "kworker/0:2");
  before(14, 2, "kworker/0:3");  // a helper: the broker has seen that it is no kernel thread
  sideband_.programs = {{.pid = 14, .from_ns = 0, .path = std::string(kUnreadProgram)}};
  before(15, 2, "kworker/0:4");  // it has memory of its own
  append_mmap2(sideband_.prologue, {.pid = 15, .tid = 15, .address = 0x1000, .bytes = 0x1000, .name = "//anon"}, {});
  before(16, 2, "");
  append_comm(sideband_.prologue, {.pid = 17, .tid = 17, .name = "[lost]", .lost = true}, {});
  comm(18, "[lost]", 0);
  fork(19, 2, 50);
  for (std::uint32_t pid = 11; pid <= 19; ++pid) samples(pid, 100, 1);
  const Ranking ranking = ranked();
  std::map<std::uint32_t, NamedBy> named_by;
  for (const SidecarTop& row : ranking.processes) named_by[row.pid] = row.named_by;
  const auto by = NamedBy::process;
  EXPECT_EQ(named_by, (std::map<std::uint32_t, NamedBy>{{11, NamedBy::kernel},
                                                        {12, by},
                                                        {13, by},
                                                        {14, by},
                                                        {15, by},
                                                        {16, NamedBy::flightd},
                                                        {17, NamedBy::flightd},
                                                        {18, by},
                                                        {19, NamedBy::flightd}}));
  ASSERT_EQ(ranking.programs.size(), 2U);
  EXPECT_EQ(ranking.programs[0].name, "[unknown]");
  EXPECT_EQ(ranking.programs[0].processes, 8U);
  EXPECT_EQ(ranking.programs[1].name, "[kworker]");
  EXPECT_EQ(ranking.programs[1].comm, "kworker/0:1");
  EXPECT_EQ(ranking.programs[1].named_by, NamedBy::kernel);
  own_pid_namespace_ = true;
  for (const SidecarTop& row : ranked().processes) EXPECT_NE(row.named_by, NamedBy::kernel) << row.comm;
}

// kthreadd forks it, and it executes a program before anything is known of that.
TEST_F(Top, AHelperOfTheKernelIsNoKernelThread) {
  fork(12, 2, 100);
  exec(12, "modprobe", 150);
  samples(12, 200, 3);
  EXPECT_EQ(ranked().programs.at(0).name, "[unknown]");
  program(12, "/sbin/modprobe", 160);
  EXPECT_EQ(ranked().programs.at(0).path, "/sbin/modprobe");
}

TEST_F(Top, ProcessesWithoutANameAreOneProgram) {
  samples(7, 100, 1);
  samples(8, 100, 1);
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.programs.size(), 1U);
  EXPECT_EQ(ranking.programs[0].name, "[unknown]");
  EXPECT_EQ(ranking.programs[0].processes, 2U);
}

TEST_F(Top, AnUnknownExecutableHasAReason) {
  process(7, "server");
  comm(8, "moved", 0);
  comm(9, "moved", 0);
  append_comm(sideband_.prologue, {.pid = 10, .tid = 10, .name = "[lost]", .lost = true}, {});
  samples(7, 100, 197);
  samples(0, 100, 500, 1);  // idle
  EXPECT_THAT(ranked().warnings, testing::IsEmpty());
  samples(8, 300, 5);
  samples(8, 300, 5, 1);
  samples(9, 300, 4);
  samples(10, 300, 100);
  samples(11, 300, 100);  // no name either
  EXPECT_THAT(ranked().warnings, testing::ElementsAre(testing::HasSubstr("the executables of 2 processes (1.5 % of")));
}

TEST_F(Top, AProcessThatCallsItselfLostHasAName) {
  process(7, "server");
  comm(8, "[lost]", 0);
  samples(7, 100, 90);
  samples(8, 100, 10);
  EXPECT_THAT(ranked().warnings, testing::ElementsAre(testing::HasSubstr("the executables of 1 process (10 % of")));
}

TEST_F(Top, ManyShortLivedProcessesAreOneProgramAndFewRows) {
  cgroup_path(5, "/system.slice/health.service");
  for (std::uint32_t pid = 1000; pid < 101'000; ++pid) {
    tallies_[0][{pid, 5}].add({}, 1, true);
    process(pid, "true");
  }
  samples(7, 100, 50);
  const Ranking ranking = ranked();
  EXPECT_LE(ranking.processes.size(), 20U);
  EXPECT_EQ(ranking.programs[0].name, "true");
  EXPECT_EQ(ranking.programs[0].processes, 100'000U);
  EXPECT_EQ(ranking.units[0].name, "health.service");
}

TEST_F(Top, AUsersUnitIsNotCountedAsTheSystemsWithTheSameName) {
  compare(10, 20, 25);
  cgroup_path(5, "/system.slice/payroll.service");
  cgroup_path(6, "/user.slice/user-1000.slice/user@1000.service/app.slice/payroll.service");
  comm(7, "workers", 0);
  burn(7, 20, 21);
  cgroup(7, 5);
  for (std::uint32_t pid = 8; pid < 12; ++pid) {
    comm(pid, "eve", 0);
    burn(pid, 20, 25, 1);
    cgroup(pid, 6, 1);
  }
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.units.size(), 2U);
  EXPECT_EQ(ranking.units[0].name, "user@1000/payroll.service");
  EXPECT_EQ(ranking.units[0].processes, 4U);
  EXPECT_EQ(ranking.units[1].name, "payroll.service");
  EXPECT_EQ(ranking.units[1].processes, 1U);
  EXPECT_EQ(ranking.units[1].cgroup, "/system.slice/payroll.service");
}

TEST_F(Top, Pid0HasNoUnit) {
  cgroup_path(5, "/system.slice/health.service");
  samples(0, 100, 20);
  cgroup(0, 5);
  samples(7, 100, 5);
  cgroup(7, 5);
  const Ranking ranking = ranked();
  EXPECT_EQ(ranking.processes[0].unit + ranking.processes[0].cgroup, "");
  EXPECT_EQ(ranking.programs[0].unit + ranking.programs[0].cgroup, "");
  ASSERT_EQ(ranking.units.size(), 2U);
  EXPECT_EQ(ranking.units[0].name, "");
  EXPECT_EQ(ranking.units[0].samples, 20U);
}

TEST_F(Top, ForkersAreNamedByUnitProgramAndPid) {
  compare(10, 20, 25);
  cgroup_path(5, "/system.slice/health.service");
  process(7, "sh");
  burn(7, 10, 25);
  cgroup(7, 5);
  comm(8, "make", 0);
  const auto forks = [this](EventTime at_ns, EventTime end_ns, std::uint32_t pid, std::string_view name,
                            std::uint64_t count) {
    sideband_.forks.push_back({at_ns, end_ns, pid, to_comm(name), count});
  };
  forks(9 * kTopSecond, 10 * kTopSecond, 7, "sh", 1000);  // before the window
  forks(19 * kTopSecond, 21 * kTopSecond, 7, "sh", 200);  // half of them before, half now
  for (EventTime at = 21; at < 25; ++at) forks(at * kTopSecond, (at + 1) * kTopSecond, 7, "sh", 3000);
  forks(20 * kTopSecond, 20 * kTopSecond, 8, "make", 5);  // exactly now
  forks(15 * kTopSecond, 15 * kTopSecond, 0, "", 2);      // without a parent
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.units[0].name, "health.service");
  EXPECT_NEAR(ranking.units[0].forks_per_second, 2420, 0.1) << "now, not in the window";
  EXPECT_EQ(ranking.units[0].forked_by, "sh");
  const SidecarForks& summary = ranking.forks;
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.all.count, 12'207U);
  EXPECT_NEAR(*summary.all.per_second_before, 10.2, 0.01);
  EXPECT_NEAR(*summary.all.per_second_now, 2421, 0.01);
  ASSERT_EQ(summary.by_unit.size(), 2U);
  EXPECT_EQ(summary.by_unit[0].name, "health.service");
  EXPECT_EQ(summary.by_unit[0].count, 12'200U);
  EXPECT_EQ(summary.by_unit[1].name, "[unknown]") << "make has no samples, so nothing says its unit";
  ASSERT_EQ(summary.by_program.size(), 2U);
  EXPECT_EQ(summary.by_program[0].name, "sh");
  EXPECT_EQ(summary.by_program[0].unit, "health.service");
  EXPECT_EQ(summary.by_program[1].name, "[unknown]");
  EXPECT_EQ(summary.by_program[1].count, 7U) << "the executable of make is not known";
  ASSERT_EQ(summary.by_pid.size(), 2U);
  EXPECT_EQ(summary.by_pid[0].pid, 7U);
  EXPECT_EQ(summary.by_pid[1].name, "make");

  // If a pid is used again, the unit is that of the process with this name, or none.
  fork(7, 1, 22 * kTopSecond + kTopSecond / 2);
  comm(7, "next", 22 * kTopSecond + kTopSecond / 2);
  sideband_.forks = {{22 * kTopSecond, 23 * kTopSecond, 7, to_comm("sh"), 10},
                     {22 * kTopSecond, 23 * kTopSecond, 7, to_comm("x"), 5}};
  const SidecarForks again = ranked().forks;
  ASSERT_EQ(again.by_pid.size(), 2U);
  EXPECT_EQ(again.by_pid[0].unit, kUnknownUnit) << "the first one's samples have no cgroup here";
  EXPECT_EQ(again.by_pid[1].unit, "[unknown]");

  sideband_.gaps.push_back({.begin_ns = 11 * kTopSecond, .end_ns = 12 * kTopSecond, .lost = 3});
  EXPECT_FALSE(ranked().forks.complete);
}

TEST_F(Top, AForkersProgramIsItsExecutableAndNoName) {
  compare(10, 20, 25);
  comm(7, "sshd", 0);
  program(7, "/opt/bin/storm");
  burn(7, 10, 25);
  for (const auto& [pid, name] : {std::pair<std::uint32_t, const char*>(7, "sshd"), {7, "renamed"}, {8, "[kworker]"}})
    sideband_.forks.push_back({21 * kTopSecond, 22 * kTopSecond, pid, to_comm(name), 3000});
  const SidecarForks summary = ranked().forks;
  ASSERT_EQ(summary.by_program.size(), 2U);
  EXPECT_EQ(summary.by_program[0].name, "storm");
  EXPECT_EQ(summary.by_program[0].count, 6000U);
  EXPECT_EQ(summary.by_program[1].name, "[unknown]");
  ASSERT_EQ(summary.by_pid.size(), 3U) << "a process has the name that it gave itself";
  for (const SidecarForker& row : summary.by_pid) EXPECT_EQ(row.named_by, NamedBy::process) << row.name;
}

// kthreadd has no samples, and one of its kernel threads starts helpers.
TEST_F(Top, AForkerThatIsAKernelThreadIsKnownByWhoForkedIt) {
  compare(10, 20, 25);
  burn(7, 10, 25);
  for (const auto& [pid, parent, name] :
       {std::tuple<std::uint32_t, std::uint32_t, const char*>(2, 0, "kthreadd"), {8, 2, "kworker/0:1"}}) {
    append_fork(sideband_.prologue, {.pid = pid, .ppid = parent, .tid = pid, .ptid = parent, .exec = true}, {});
    comm(pid, name, 0);
    fork(30 + pid, pid, 21 * kTopSecond);
    sideband_.forks.push_back({21 * kTopSecond, 21 * kTopSecond, pid, to_comm(name), 1});
  }
  comm(9, "kthreadd", 0);
  fork(50, 9, 21 * kTopSecond);
  sideband_.forks.push_back({21 * kTopSecond, 21 * kTopSecond, 9, to_comm("kthreadd"), 1});
  const SidecarForks summary = ranked().forks;
  std::map<std::uint32_t, NamedBy> named_by;
  for (const SidecarForker& row : summary.by_pid) named_by[row.pid] = row.named_by;
  EXPECT_EQ(named_by,
            (std::map<std::uint32_t, NamedBy>{{2, NamedBy::kernel}, {8, NamedBy::kernel}, {9, NamedBy::process}}));
  std::set<std::string> programs;
  for (const SidecarForker& row : summary.by_program) programs.insert(row.name);
  EXPECT_EQ(programs, (std::set<std::string>{"[kthreadd]", "[kworker]", "[unknown]"}));
}

// Two processes without samples that had the same number one after the other.
TEST_F(Top, AForkersProgramIsThatOfItsOwnLife) {
  compare(10, 20, 25);
  process(8, "make");
  process(9, "cron");
  const auto forks_by_a_child_of = [this](std::uint32_t parent, EventTime at_ns, std::string_view name) {
    fork(30, parent, at_ns);
    fork(31, 30, at_ns + 1);
    sideband_.forks.push_back({at_ns + 1, at_ns + 1, 30, to_comm(name), 1});
  };
  forks_by_a_child_of(8, 11 * kTopSecond, "make");
  forks_by_a_child_of(9, 15 * kTopSecond, "cron");
  std::set<std::string> programs;
  for (const SidecarForker& row : ranked().forks.by_program) programs.insert(row.name);
  EXPECT_EQ(programs, (std::set<std::string>{"cron", "make"}));
}

// 1,000 forks a second all the time, counted only from some time on.
TEST_F(Top, ARateIsKnownOnlyWhereForksWereCounted) {
  compare(10, 20, 25);
  const auto counted_from = [this](EventTime from_s) {
    sideband_.forks_from_ns = from_s * kTopSecond;
    sideband_.forks.clear();
    for (EventTime at = from_s; at < 25; ++at)
      sideband_.forks.push_back({at * kTopSecond, (at + 1) * kTopSecond, 7, to_comm("sh"), 1000});
    return ranked().forks;
  };
  const SidecarForks all = counted_from(10);
  EXPECT_TRUE(all.complete);
  EXPECT_NEAR(all.all.per_second_before.value_or(0), 1000, 1);
  for (const EventTime from_s : {19, 23}) {
    const SidecarForks some = counted_from(from_s);
    EXPECT_FALSE(some.complete);
    EXPECT_FALSE(some.all.per_second_before);
    ASSERT_EQ(some.by_pid.size(), 1U);
    EXPECT_FALSE(some.by_pid[0].per_second_before);
    EXPECT_EQ(some.all.per_second_now, from_s == 19 ? 1000 : 400) << "at least";
  }
  const SidecarForks none = counted_from(25);
  EXPECT_FALSE(none.complete);
  EXPECT_FALSE(none.all.per_second_now);

  static_cast<void>(counted_from(10));
  sideband_.gaps = {{.begin_ns = 12 * kTopSecond, .end_ns = 13 * kTopSecond, .lost = 100}};
  EXPECT_FALSE(ranked().forks.all.per_second_before) << "a part of the time before is missing";
  EXPECT_EQ(ranked().forks.all.per_second_now, 1000);
  sideband_.gaps = {{.begin_ns = 21 * kTopSecond, .end_ns = 22 * kTopSecond, .lost = 100}};
  EXPECT_FALSE(ranked().forks.complete);
  EXPECT_NEAR(ranked().forks.all.per_second_before.value_or(0), 1000, 1);
}

// A storm of short-lived processes, all the time. Those that ended before 18 s are forgotten.
TEST_F(Top, SharesBeforeAreUnknownIfNamesOfThatTimeAreForgotten) {
  compare(10, 20, 25);
  cgroup_path(5, "/system.slice/storm.service");
  process(7, "steady");
  burn(7, 10, 25, 1);
  for (std::uint32_t i = 0; i < 150; ++i) {
    const EventTime at_ns = 10 * kTopSecond + i * kTopSecond / 10;
    samples(1000 + i, at_ns, 1);
    cgroup(1000 + i, 5);
    if (at_ns < 18 * kTopSecond) continue;
    comm(1000 + i, "true", at_ns);
    sideband_.programs.push_back({.pid = 1000 + i, .from_ns = at_ns, .path = "/usr/bin/true"});
  }
  sideband_.names_from_ns = 18 * kTopSecond;
  const auto row = [](const std::vector<SidecarGroup>& rows, std::string_view name) {
    for (const SidecarGroup& one : rows)
      if (one.name == name) return one;
    return SidecarGroup{};
  };
  Ranking ranking = ranked();
  for (const char* name : {"true", "steady", "[unknown]"}) {
    const SidecarGroup program = row(ranking.programs, name);
    EXPECT_GT(program.samples, 0U) << name;
    EXPECT_FALSE(program.share_before || program.cpus_before) << name;
    EXPECT_EQ(program.cpus_now.has_value(), true) << name;
  }
  ASSERT_EQ(ranking.warnings.size(), 1U);
  EXPECT_THAT(ranking.warnings[0], testing::StartsWith("names: 40 % of the samples before have no name"));
  EXPECT_NEAR(row(ranking.units, "storm.service").cpus_before.value_or(0), 1, 0.01) << "samples have their cgroup";
  EXPECT_EQ(ranking.processes[0].cpus_before, 1.0) << "it is this one, whatever the others are";

  sideband_.names_from_ns = 0;  // nothing is forgotten: they never had a name
  EXPECT_TRUE(row(ranked().programs, "true").cpus_before);
  sideband_.gaps = {{.begin_ns = 12 * kTopSecond, .end_ns = 18 * kTopSecond, .lost = 100}};
  ranking = ranked();
  EXPECT_FALSE(row(ranking.programs, "true").cpus_before) << "nor where their records were lost";
  sideband_.prologue.clear();  // nor a path
  EXPECT_FALSE(row(ranked().units, "").cpus_before);
}

// The pid of a forgotten process is used again.
TEST_F(Top, ANameIsNotGivenToSamplesFromBeforeTheFork) {
  comm(1, "shell", 0);
  samples(7, 100, 10);
  fork(7, 1, 200);
  comm(7, "second", 220);
  samples(7, 230, 5);
  EXPECT_THAT(run(), testing::ElementsAre("second 7 15 1.00 on 1"));
  sideband_.names_from_ns = 150;
  EXPECT_THAT(run(), testing::ElementsAre(":7 7 10 0.67 on 1", "second 7 5 0.33 on 1"));
}

TEST_F(Top, TheUnitOfAForkerWithoutSamplesIsByItsCgroup) {
  compare(10, 20, 25);
  cgroup_path(5, "/system.slice/health.service");
  comm(9, "true", 0);
  burn(9, 10, 25);
  cgroup(9, 5);
  sideband_.forks = {{11 * kTopSecond, 11 * kTopSecond, 7, to_comm("sh"), 10},
                     {11 * kTopSecond, 11 * kTopSecond, 8, to_comm("make"), 5}};
  sideband_.forker_cgroups = {{7, {"/system.slice/health.service/loop"}}};
  const SidecarForks forks = ranked().forks;
  ASSERT_EQ(forks.by_pid.size(), 2U);
  EXPECT_EQ(forks.by_pid[0].unit, "health.service");
  EXPECT_EQ(forks.by_pid[1].unit, kUnknownForker);
  EXPECT_EQ(forks.by_unit[0].name, "health.service");
}

class InheritedUnit : public Top {
 protected:
  // python3 forks a shell that has no samples, and the shell forks.
  void storm(std::string_view cgroup_of_python) {
    compare(10, 20, 25);
    cgroup_path(5, cgroup_of_python);
    process(7, "python3");
    burn(7, 10, 25);
    cgroup(7, 5);
    fork(100, 7, kForked);
    forks(kForked, 7, "python3", 1);
    forks(kForked + 100, 100, "sh", 4);
  }
  void forks(EventTime time_ns, std::uint32_t pid, std::string_view name, std::uint64_t count) {
    sideband_.forks.push_back({time_ns, time_ns, pid, to_comm(name), count});
  }
  // How many of the shell's forks have no unit.
  std::uint64_t unknown() { return ranked().forks.unit_unknown; }

  static constexpr EventTime kForked = 11 * kTopSecond;
};

TEST_F(InheritedUnit, IsThatOfTheNearestAncestorWithSamples) {
  storm("/system.slice/health.service");
  fork(101, 100, kForked + 100);
  forks(kForked + 200, 101, "sh", 3);
  forks(kForked + 300, 900, "sh", 1);
  const SidecarForks found = ranked().forks;
  ASSERT_EQ(found.by_unit.size(), 2U);
  EXPECT_EQ(found.by_unit[0].name, "health.service");
  EXPECT_EQ(found.by_unit[0].count, 8U);
  EXPECT_EQ(found.unit_unknown, 1U) << "nothing is known of 900";
}

TEST_F(InheritedUnit, IsThatOfALivingAncestorWithoutSamples) {
  storm("/system.slice/other.service");
  fork(201, 200, kForked + 100);
  forks(kForked + 100, 200, "loop", 1);
  forks(kForked + 200, 201, "sh", 3);
  sideband_.forker_cgroups = {{200, {"/system.slice/health.service"}}};
  const SidecarForks found = ranked().forks;
  ASSERT_EQ(found.by_unit.size(), 2U);
  EXPECT_EQ(found.by_unit[1].name, "health.service");
  EXPECT_EQ(found.by_unit[1].count, 4U);
}

TEST_F(InheritedUnit, IsNotThatOfAServiceManager) {
  storm("/init.scope");
  EXPECT_EQ(unknown(), 4U);
}

TEST_F(InheritedUnit, IsNotThatOfAProcessWhoseDescendantsAreElsewhere) {
  storm("/system.slice/docker.service");
  EXPECT_EQ(unknown(), 0U);
  cgroup_path(6, "/system.slice/other.service");
  fork(200, 7, 12 * kTopSecond);
  samples(200, 12 * kTopSecond + 10, 3, 1);
  cgroup(200, 6, 1);
  EXPECT_EQ(unknown(), 4U);
}

TEST_F(InheritedUnit, IsUnknownOnceACgroupWasMade) {
  storm("/user.slice/user-1000.slice/session-3.scope");
  append_cgroup(sideband_.log, {.id = 9, .path = "/system.slice/run-1.scope"},
                {.time_ns = kForked + 50, .id = kSideband});
  EXPECT_EQ(unknown(), 4U) << "it may have been moved there";
}

TEST_F(InheritedUnit, IsUnknownAfterALoss) {
  storm("/system.slice/health.service");
  sideband_.gaps = {{.begin_ns = kForked + 20, .end_ns = kForked + 30, .lost = 1}};
  EXPECT_EQ(unknown(), 4U) << "its number may be another process's";
}

TEST_F(InheritedUnit, IsMissedWithAWord) {
  storm("/system.slice/health.service");
  EXPECT_THAT(ranked().warnings, testing::IsEmpty());
  forks(12 * kTopSecond, 900, "sh", 300);
  EXPECT_THAT(ranked().warnings,
              testing::ElementsAre(testing::StartsWith("forks: 300 of 305 are of processes whose unit is not known")));
}

// A process forks a child with its name, and the child forks at once. Nothing but samples says where the child is.
class ForksOfCopies : public Top {
 protected:
  static constexpr EventTime kMs = 1'000'000;
  static constexpr std::uint32_t kManager = 7;
  static constexpr const char* kUnknown = "[unknown]";

  ForksOfCopies() {
    compare(10, 20, 25);
    cgroup_path(5, "/system.slice/manager.service");
    cgroup_path(6, "/system.slice/victim.service");
    process(kManager, "into");
    in_cgroup_ = 5;
    burn(kManager, 10, 25);
  }
  // The child `pid` of `parent` begins at `at`.
  void copy(std::uint32_t pid, std::uint32_t parent, EventTime at) { fork(pid, parent, at); }
  void seen_in(std::uint64_t group, std::uint32_t pid, EventTime at, int count = 1) {
    in_cgroup_ = group;
    samples(pid, at, count, 1);
  }
  // As the tracker has them.
  void forks(std::uint32_t pid, EventTime at, std::uint64_t count = 4, std::uint32_t shell = kManager) {
    sideband_.forks.push_back({at, at, pid, to_comm("into"), count, shell, to_comm("into")});
  }
  void own_forks(std::uint32_t pid, EventTime at, std::uint64_t count = 1) {
    sideband_.forks.push_back({at, at, pid, to_comm("into"), count});
  }
  std::map<std::string, std::uint64_t> units() {
    std::map<std::string, std::uint64_t> out;
    for (const SidecarForker& row : ranked().forks.by_unit) out[row.name] = row.count;
    return out;
  }
  std::uint64_t of_pid(std::uint32_t pid) {
    std::uint64_t out = 0;
    for (const SidecarForker& row : ranked().forks.by_pid)
      if (row.pid == pid) out += row.count;
    return out;
  }
  using Units = std::map<std::string, std::uint64_t>;
};

TEST_F(ForksOfCopies, InASubshellAreTheShells) {
  own_forks(kManager, 11 * kTopSecond);
  copy(100, kManager, 11 * kTopSecond);
  forks(100, 11 * kTopSecond + kMs);
  copy(101, kManager, 12 * kTopSecond);
  seen_in(5, 101, 12 * kTopSecond + kMs);
  forks(101, 12 * kTopSecond + 2 * kMs);
  copy(102, 101, 12 * kTopSecond + kMs);
  forks(102, 12 * kTopSecond + 3 * kMs);
  sideband_.forks.push_back({13 * kTopSecond, 13 * kTopSecond + 100 * kMs, 0, Comm{}, 50, kManager, to_comm("into")});
  EXPECT_EQ(units(), (Units{{"manager.service", 63}}));
  EXPECT_EQ(of_pid(kManager), 63U);
}

// clone3(2) with CLONE_INTO_CGROUP: what has samples shows it for what has none.
TEST_F(ForksOfCopies, StartedInAnotherCgroupAreTheirOwn) {
  own_forks(kManager, 11 * kTopSecond);
  copy(100, kManager, 11 * kTopSecond);
  seen_in(6, 100, 11 * kTopSecond + 2 * kMs);
  forks(100, 11 * kTopSecond + kMs);
  forks(100, 11 * kTopSecond + 3 * kMs);
  own_forks(kManager, 12 * kTopSecond);
  copy(101, kManager, 12 * kTopSecond);
  forks(101, 12 * kTopSecond + kMs);
  fork(900, 101, 12 * kTopSecond + kMs);
  sideband_.forks.push_back({13 * kTopSecond, 13 * kTopSecond + 100 * kMs, kManager, to_comm("into"), 10});
  sideband_.forks.push_back({13 * kTopSecond, 13 * kTopSecond + 100 * kMs, 0, Comm{}, 40, kManager, to_comm("into")});
  EXPECT_EQ(units(), (Units{{"manager.service", 12}, {"victim.service", 8}, {kUnknown, 44}}));
  EXPECT_EQ(of_pid(kManager), 12U) << "what it did itself";
  EXPECT_EQ(of_pid(100), 8U);
  EXPECT_EQ(of_pid(101), 4U);
  const Ranking ranking = ranked();
  EXPECT_EQ(ranking.forks.unit_unknown, 44U);
  ASSERT_EQ(ranking.forks.by_program.size(), 1U) << "a copy executes what its parent does";
  EXPECT_EQ(ranking.forks.by_program[0].name, "into");
  EXPECT_THAT(ranking.warnings, testing::IsEmpty()) << "they are few";
}

TEST_F(ForksOfCopies, OfAnUnknownPlaceAreOfNoUnitWithTheWord) {
  copy(100, kManager, 11 * kTopSecond);
  seen_in(6, 100, 11 * kTopSecond + kMs);
  for (std::uint32_t i = 0; i < 50; ++i) {
    copy(200 + i, kManager, 12 * kTopSecond + i * kMs);
    forks(200 + i, 12 * kTopSecond + i * kMs + 1);
  }
  EXPECT_EQ(units(), (Units{{kUnknown, 200}}));
  EXPECT_THAT(ranked().warnings,
              testing::ElementsAre(testing::StartsWith("forks: 200 of 200 are of processes whose unit is not known")));
}

TEST_F(ForksOfCopies, MovedAfterTheForkAreTheirOwn) {
  copy(100, kManager, 11 * kTopSecond);
  seen_in(5, 100, 11 * kTopSecond + kMs);
  seen_in(6, 100, 11 * kTopSecond + 5 * kMs);
  forks(100, 11 * kTopSecond + kMs / 2, 1);  // before it was moved
  forks(100, 11 * kTopSecond + 3 * kMs, 2);  // before or after
  forks(100, 11 * kTopSecond + 6 * kMs, 4);  // after
  EXPECT_EQ(units(), (Units{{"manager.service", 1}, {kUnknown, 2}, {"victim.service", 4}}));
  EXPECT_EQ(of_pid(kManager), 1U);
  // Seen only before the move, or never.
  copy(101, kManager, 12 * kTopSecond);
  seen_in(5, 101, 12 * kTopSecond + kMs);
  forks(101, 12 * kTopSecond + kMs / 2, 8);
  forks(101, 12 * kTopSecond + 2 * kMs, 16);
  copy(102, kManager, 13 * kTopSecond);
  forks(102, 13 * kTopSecond + kMs, 32);
  EXPECT_EQ(units(), (Units{{"manager.service", 9}, {kUnknown, 50}, {"victim.service", 4}}));
  // It has executed another program before it forks: it is no copy, and where it is, is known as little.
  own_forks(101, 12 * kTopSecond + 3 * kMs, 64);
  copy(103, 101, 12 * kTopSecond + 3 * kMs);
  own_forks(103, 12 * kTopSecond + 4 * kMs, 128);
  EXPECT_EQ(units(), (Units{{"manager.service", 9}, {kUnknown, 242}, {"victim.service", 4}}));
}

// Manager, a copy in the other unit, copies of that.
TEST_F(ForksOfCopies, InADeepChainAreOfTheNearestPlaceThatIsKnown) {
  copy(100, kManager, 11 * kTopSecond);
  seen_in(6, 100, 11 * kTopSecond + kMs);
  copy(101, 100, 11 * kTopSecond + 2 * kMs);
  copy(102, 101, 11 * kTopSecond + 3 * kMs);
  forks(102, 11 * kTopSecond + 4 * kMs);
  EXPECT_EQ(units(), (Units{{"victim.service", 4}}));
  EXPECT_EQ(of_pid(102), 4U);
  EXPECT_EQ(of_pid(kManager), 0U);
}

// The copy that moves is below one that stays. What the other copies of it do is known as little.
TEST_F(ForksOfCopies, OfACopyThatMovesItsChildrenAreTheirOwn) {
  copy(100, kManager, 11 * kTopSecond);
  seen_in(5, 100, 11 * kTopSecond + kMs);
  forks(100, 11 * kTopSecond + kMs / 2, 1);
  copy(101, 100, 11 * kTopSecond + kMs / 2);
  seen_in(6, 101, 11 * kTopSecond + 2 * kMs);
  forks(101, 11 * kTopSecond + 3 * kMs);
  copy(102, 100, 11 * kTopSecond + kMs / 2);
  forks(102, 11 * kTopSecond + 3 * kMs, 8);
  copy(110, kManager, 12 * kTopSecond);
  copy(111, 110, 12 * kTopSecond + kMs);
  forks(111, 12 * kTopSecond + 2 * kMs, 16);
  EXPECT_EQ(units(), (Units{{"manager.service", 1}, {"victim.service", 4}, {kUnknown, 24}}));
}

// As a service's main process: its manager started it in another unit.
TEST_F(ForksOfCopies, OfAShellThatWasMovedItselfAreOfItsUnitThen) {
  seen_in(6, kManager, 10 * kTopSecond - kMs);
  copy(100, kManager, 11 * kTopSecond);
  forks(100, 11 * kTopSecond + kMs);
  sideband_.forks.push_back({13 * kTopSecond, 13 * kTopSecond + 100 * kMs, 0, Comm{}, 40, kManager, to_comm("into")});
  EXPECT_EQ(units(), (Units{{"manager.service", 44}}));
}

// It moves its children as well, which is known although it was in several units.
TEST_F(ForksOfCopies, MovedByOneThatWasMovedItselfAreTheirOwn) {
  seen_in(6, kManager, 10 * kTopSecond - kMs);
  copy(100, kManager, 11 * kTopSecond);
  seen_in(5, 100, 11 * kTopSecond + kMs);  // and then it is moved
  forks(100, 11 * kTopSecond + 2 * kMs);
  copy(101, kManager, 12 * kTopSecond);
  seen_in(6, 101, 12 * kTopSecond + kMs);
  forks(101, 12 * kTopSecond + 2 * kMs, 8);
  copy(102, kManager, 13 * kTopSecond);
  forks(102, 13 * kTopSecond + kMs, 16);
  EXPECT_EQ(units(), (Units{{"victim.service", 8}, {kUnknown, 20}}));
  EXPECT_EQ(of_pid(kManager), 0U);
}

// Without samples, but still there when the snapshot is taken.
TEST_F(ForksOfCopies, ThatLiveHaveTheUnitOfProc) {
  copy(100, kManager, 11 * kTopSecond);
  forks(100, 11 * kTopSecond + kMs);
  copy(101, kManager, 12 * kTopSecond);
  forks(101, 12 * kTopSecond + kMs, 2);
  EXPECT_EQ(units(), (Units{{"manager.service", 6}}));
  sideband_.forker_cgroups = {{100, {"/system.slice/victim.service"}}};
  EXPECT_EQ(units(), (Units{{"victim.service", 4}, {kUnknown, 2}}));
}

// The tracker takes none of them for a subshell. What it has not seen of the time before the window, it says.
TEST_F(ForksOfCopies, ACgroupThatWasMadeOrALossMeanwhileIsNoUnit) {
  copy(100, kManager, 11 * kTopSecond);
  own_forks(100, 11 * kTopSecond + kMs);
  EXPECT_EQ(units(), (Units{{"manager.service", 1}}));
  sideband_.cgroup_made_ns = 11 * kTopSecond;
  EXPECT_EQ(units(), (Units{{kUnknown, 1}})) << "its record is not in the window's log";
  sideband_.cgroup_made_ns = 0;
  sideband_.gaps = {{.begin_ns = 11 * kTopSecond + 1, .end_ns = 11 * kTopSecond + 2, .lost = 1}};
  EXPECT_EQ(units(), (Units{{kUnknown, 1}}));
}

// A FORK from before the window, or that has left the log.
TEST_F(ForksOfCopies, WithAnEarlyForkAreTheShells) {
  forks(100, 10 * kTopSecond + kMs);
  EXPECT_EQ(units(), (Units{{kUnknown, 4}})) << "nothing leads to the shell";
  sideband_.early_forks = {{.pid = 100, .parent = kManager, .time_ns = 10 * kTopSecond - kMs}};
  EXPECT_EQ(units(), (Units{{"manager.service", 4}}));
}

TEST_F(ForksOfCopies, OfAServiceManagerAreOfNoUnit) {
  cgroup_path(9, "/init.scope");
  process(1, "systemd");
  in_cgroup_ = 9;
  burn(1, 10, 25, 1);
  copy(100, 1, 11 * kTopSecond);
  forks(100, 11 * kTopSecond + kMs, 4, 1);
  EXPECT_EQ(units(), (Units{{kUnknown, 4}}));
}

// Where the kernel says no cgroup, a subshell is one as before.
TEST_F(ForksOfCopies, WithoutCgroupsAreTheShells) {
  process(8, "sh");
  for (const std::uint32_t pid : {100U, 101U}) {
    copy(pid, 8, 11 * kTopSecond);
    forks(pid, 11 * kTopSecond + kMs, 4, 8);
  }
  seen_in(0, 101, 11 * kTopSecond + kMs);
  burn(8, 12, 25, 1);
  EXPECT_EQ(of_pid(8), 8U);
}

// The rest of a slice has no name.
TEST_F(ForksOfCopies, WithoutAProcessAreNotOfTheIdleTasks) {
  in_cgroup_ = 0;
  burn(0, 10, 25, 1);
  sideband_.forks = {{11 * kTopSecond, 12 * kTopSecond, 0, Comm{}, 9}};
  EXPECT_EQ(units(), (Units{{kUnknown, 9}}));
  EXPECT_EQ(ranked().forks.by_program.at(0).name, "[unknown]");
}

// In a PID namespace, pid 0 is everything outside of it and the idle tasks. Only the latter are never in user mode.
TEST_F(Top, WhatIsOutsideOfAContainerInUserModeIsNotIdle) {
  append_outside(sideband_.prologue);
  process(100, "inside");
  samples(0, 100, 30, 0, PERF_RECORD_MISC_USER);
  samples(0, 200, 50, 0, PERF_RECORD_MISC_KERNEL);
  samples(0, 300, 10, 1, PERF_RECORD_MISC_USER);
  samples(100, 400, 5, 1, PERF_RECORD_MISC_USER);
  const Ranking ranking = ranked();
  const auto rows_of = [](const auto& all, auto name) {
    std::vector<std::string> out;
    for (const auto& row : all) out.push_back(fmt::format("{} {}", name(row), row.samples));
    return out;
  };
  const std::vector<std::string> expected{"outside this container, or idle 50", "outside this container 40",
                                          "inside 5"};
  EXPECT_EQ(rows_of(ranking.processes, [](const SidecarTop& row) { return row.comm; }), expected);
  EXPECT_EQ(rows_of(ranking.programs, [](const SidecarGroup& row) { return row.name; }), expected);
  EXPECT_EQ(ranking.processes[1].pid, 0U);
}

// -1 is the number of all tasks that are exiting, and of no process.
TEST_F(Top, ExitingTasksAreOneRowWithoutANumber) {
  append_exiting(sideband_.prologue);
  process(100, "server");
  samples(UINT32_MAX, 100, 30);
  samples(100, 400, 5);
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.processes.size(), 2U);
  EXPECT_EQ(ranking.processes[0].comm, "[exiting]");
  EXPECT_EQ(ranking.processes[0].pid, 0U);
  EXPECT_EQ(ranking.processes[0].samples, 30U);
  EXPECT_EQ(texts_of(ranking.programs)[0], "[exiting]: 0 0.86 mostly [exiting][0] 1.00 in ");
  EXPECT_EQ(texts_of(ranking.programs)[1], "server: 1 0.14 mostly server[100] 1.00 in ");
}

// On the host, pid 0 is idle.
TEST_F(Top, WithoutAContainerPidZeroIsOneRow) {
  samples(0, 100, 30, 0, PERF_RECORD_MISC_USER);
  samples(0, 200, 50);
  const auto all = rows();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].comm, "swapper");
  EXPECT_EQ(all[0].samples, 80U);
}

// A hardware counter samples interrupts on idle CPUs, too.
TEST_F(Top, TheIdleTasksAreNoUnknownProgram) {
  samples(0, 100, 30);
  samples(7, 200, 10);
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.programs.size(), 2U);
  EXPECT_EQ(ranking.programs[0].name, "[swapper]");
  EXPECT_EQ(ranking.programs[0].samples, 30U);
  EXPECT_EQ(ranking.programs[1].name, "[unknown]");
}

// It burns in one unit, moves to another one and does little there.
TEST_F(Top, ASampleIsOfTheUnitThatItsProcessWasInThen) {
  compare(10, 20, 25);
  cgroup_path(5, "/system.slice/culprit.service");
  cgroup_path(6, "/system.slice/victim.service/worker");
  process(7, "mover");
  process(8, "server");
  in_cgroup_ = 5;
  burn(7, 10, 15);
  burn(7, 15, 22, 1);
  in_cgroup_ = 6;
  burn(7, 22, 23);
  burn(8, 10, 12, 1);
  const Ranking ranking = ranked();
  EXPECT_THAT(texts_of(ranking.units),
              testing::ElementsAre("culprit.service: 1 0.80 mostly mover[7] 1.00 in /system.slice/culprit.service",
                                   "victim.service: 2 0.20 mostly server[8] 0.67 in /system.slice/victim.service"));
  ASSERT_EQ(ranking.units.size(), 2U);
  EXPECT_NEAR(ranking.units[0].cpus_before.value_or(0), 1, 0.001);
  EXPECT_NEAR(ranking.units[0].cpus_now.value_or(0), 0.4, 0.001);
  EXPECT_NEAR(ranking.units[0].share_now.value_or(0), 2 / 3.0, 0.001);
  EXPECT_THAT(ranking.units[0].cpus, testing::ElementsAre(0, 1));
  EXPECT_NEAR(ranking.units[1].cpus_before.value_or(0), 0.2, 0.001);
  EXPECT_NEAR(ranking.units[1].cpus_now.value_or(0), 0.2, 0.001);
  ASSERT_EQ(ranking.processes.size(), 2U) << "one row, whatever its units";
  EXPECT_EQ(ranking.processes[0].samples, 130U);
  EXPECT_EQ(ranking.processes[0].unit, "culprit.service") << "with most of its samples";
  EXPECT_EQ(ranking.processes[0].units, 2U);
  EXPECT_EQ(ranking.processes[1].cgroup, "/system.slice/victim.service/worker");
  EXPECT_EQ(ranking.processes[1].units, 1U);
  EXPECT_EQ(texts_of(ranking.programs)[0], "mover: 1 0.87 mostly mover[7] 1.00 in /system.slice/culprit.service");
  EXPECT_EQ(ranking.programs[0].units, 2U);
}

// In the order of the CPUs' numbers, and in the other one: it started in a shell and moved to its unit.
TEST_F(Top, TheFewSamplesBeforeAMoveAreOfTheUnitBefore) {
  cgroup_path(5, "/system.slice/containerd.service");
  cgroup_path(6, "/system.slice/burn.service");
  for (const std::size_t old_cpu : {0U, 1U}) {
    tallies_[0].clear(), tallies_[1].clear();
    in_cgroup_ = 5;
    samples(7, 100, 1, old_cpu);
    in_cgroup_ = 6;
    samples(7, 200, 10, 1 - old_cpu);
    const Ranking ranking = ranked();
    ASSERT_EQ(ranking.units.size(), 2U);
    EXPECT_EQ(ranking.units[0].name, "burn.service");
    EXPECT_EQ(ranking.units[0].samples, 10U);
    EXPECT_EQ(ranking.units[1].samples, 1U);
    ASSERT_EQ(ranking.processes.size(), 1U);
    EXPECT_EQ(ranking.processes[0].unit, "burn.service");
  }
}

TEST_F(Top, SamplesWithoutACgroupAreOfTheNewestOne) {
  cgroup_path(5, "/system.slice/containerd.service");
  cgroup_path(6, "/system.slice/burn.service");
  for (const std::size_t old_cpu : {0U, 1U}) {
    tallies_[0].clear(), tallies_[1].clear();
    in_cgroup_ = 5;
    samples(7, 100, 4, old_cpu);
    in_cgroup_ = 6;
    samples(7, 200, 1, 1 - old_cpu);
    in_cgroup_ = 0;
    samples(7, 50, 8);
    samples(7, 300, 8, 1);
    const Ranking ranking = ranked();
    ASSERT_EQ(ranking.units.size(), 2U);
    EXPECT_EQ(ranking.units[0].name, "burn.service");
    EXPECT_EQ(ranking.units[0].samples, 17U);
    EXPECT_EQ(ranking.units[1].samples, 4U);
  }
}

// The first one with the pid moves, then executes another program; the second one is in a third unit.
TEST_F(Top, AMoveOfAProcessWhosePidIsUsedAgain) {
  for (const std::uint64_t id : {5, 6, 7}) cgroup_path(id, fmt::format("/system.slice/{}.service", id));
  process(7, "first");
  in_cgroup_ = 5;
  samples(7, 100, 20);
  in_cgroup_ = 6;
  samples(7, 130, 1, 1);
  exec(7, "second", 200);
  program(7, "/usr/bin/second", 201);
  samples(7, 210, 9, 1);
  fork(7, 1, 300);
  comm(7, "third", 301);
  in_cgroup_ = 7;
  samples(7, 310, 15);
  const Ranking ranking = ranked();
  std::vector<std::string> units;
  for (const SidecarGroup& row : ranking.units)
    units.push_back(fmt::format("{} {} {} {}", row.name, row.samples, row.processes, row.program));
  EXPECT_THAT(units, testing::ElementsAre("5.service 20 1 first", "7.service 15 1 [unknown]", "6.service 10 1 second"));
  ASSERT_EQ(ranking.processes.size(), 2U);
  EXPECT_EQ(ranking.processes[0].unit, "5.service");
  EXPECT_EQ(ranking.processes[0].units, 2U);
  EXPECT_EQ(ranking.processes[0].comm, "second");
  EXPECT_EQ(ranking.processes[1].unit, "7.service");
}

// The samples are of CPUs in turn, and it moves to and fro.
TEST_F(Top, AForkIsOfTheUnitThatItsParentWasInThen) {
  compare(10, 20, 25);
  cgroup_path(5, "/system.slice/culprit.service");
  cgroup_path(6, "/system.slice/victim.service");
  process(7, "sh");
  for (const EventTime from : {11, 13, 15}) {
    in_cgroup_ = 5;
    burn(7, from, from + 1, 0);
    in_cgroup_ = 6;
    samples(7, (from + 1) * kTopSecond, 1, 1);
  }
  const auto forks = [this](EventTime at_ns, EventTime end_ns, std::uint64_t count) {
    sideband_.forks.push_back({at_ns, end_ns, 7, to_comm("sh"), count});
  };
  forks(10 * kTopSecond, 10 * kTopSecond, 1);                      // before its first sample
  forks(13 * kTopSecond + 1, 13 * kTopSecond + 1, 100);            // back in culprit.service
  forks(13 * kTopSecond, 13 * kTopSecond + kTopSecond / 2, 1000);  // a slice
  forks(14 * kTopSecond + 1, 14 * kTopSecond + 1, 10);             // in victim.service
  forks(24 * kTopSecond, 24 * kTopSecond, 5);                      // after its last sample
  const Ranking ranking = ranked();
  const SidecarForks& summary = ranking.forks;
  ASSERT_EQ(summary.by_unit.size(), 2U);
  EXPECT_EQ(summary.by_unit[0].name, "culprit.service");
  EXPECT_EQ(summary.by_unit[0].count, 1101U);
  EXPECT_EQ(summary.by_unit[1].name, "victim.service");
  EXPECT_EQ(summary.by_unit[1].count, 15U);
  for (const auto* rows : {&summary.by_program, &summary.by_pid}) {
    ASSERT_EQ(rows->size(), 1U);
    EXPECT_EQ(rows->front().unit, "culprit.service");
    EXPECT_EQ(rows->front().count, 1116U);
  }
  ASSERT_EQ(ranking.units.size(), 2U);
  EXPECT_EQ(ranking.units[0].forked_by, "sh");
  EXPECT_EQ(ranking.units[0].forks_per_second, 0) << "none of them now";
  EXPECT_EQ(ranking.units[1].forks_per_second, 1);
}

// With each sample it is in another cgroup.
TEST_F(Top, AProcessInVeryManyUnitsIsOneRow) {
  constexpr std::uint64_t kMany = 100'000;
  process(7, "mover");
  for (std::uint64_t id = 1; id <= kMany; ++id) {
    cgroup_path(id, fmt::format("/system.slice/{}.service", id));
    tallies_[id % 2][{7, id}].add({}, id, true);
  }
  const Ranking ranking = ranked();
  ASSERT_EQ(ranking.processes.size(), 1U);
  EXPECT_EQ(ranking.processes[0].samples, kMany);
  EXPECT_EQ(ranking.processes[0].units, kMany);
  ASSERT_EQ(ranking.programs.size(), 1U);
  EXPECT_EQ(ranking.programs[0].units, kMany);
  EXPECT_LE(ranking.units.size(), 20U);
}

}  // namespace
}  // namespace flight
