// SPDX-License-Identifier: Apache-2.0
// Numbers from /proc: from fake trees, from a kernel that lacks files, and from this machine.
#include "libcore/trigger/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/full_table.hpp"
#include "tests/unit/hung_mount.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/trigger/proc_tree.hpp"
#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

using test::kMs;
using test::kS;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

CpuTicks ticks(int cpu, std::uint64_t user, std::uint64_t idle, std::uint64_t iowait = 0) {
  return {.cpu = cpu, .ticks = {user, 0, 0, idle, iowait, 0, 0, 0}};
}

class FakeProc : public testing::Test {
 protected:
  FakeProc() {
    tree_.loadavg(3);
    for (const char* resource : {"cpu", "memory", "io"}) tree_.pressure(resource, 1000, 500);
  }
  // Another pass, `ns` after the previous one.
  MetricPass look(Sampler& sampler, std::uint64_t ns = 100 * kMs) {
    now_ += ns;
    return sampler.pass(now_);
  }
  test::ProcTree tree_;
  EventTime now_ = 50 * kS;
};

TEST_F(FakeProc, SharesAreOfWhatTheColumnsSumUpTo) {
  tree_.stat({{.cpu = 0, .ticks = {100, 50, 30, 1000, 10, 5, 5, 20}}, ticks(1, 0, 1000)}, 4, 2);
  Sampler sampler = Sampler::open(tree_.root);
  EXPECT_TRUE(sampler.missing().empty()) << sampler.missing().front().why;
  const MetricPass first = look(sampler);
  EXPECT_EQ(first.span_ns, 0U);
  EXPECT_FALSE(first.of(Metric::cpu_busy)) << "there is nothing to compare with yet";
  EXPECT_EQ(first.of(Metric::tasks_running), 2) << "loadavg's, without the sampler";
  EXPECT_EQ(first.of(Metric::tasks_blocked), 2);

  // CPU 0: 2 user, 1 nice, 1 system, 2 idle, 1 iowait, 1 irq, 1 softirq, 1 steal; CPU 1 idle, and 11 ticks of 10.
  tree_.stat({{.cpu = 0, .ticks = {102, 51, 31, 1002, 11, 6, 6, 21}}, ticks(1, 0, 1011)});
  const MetricPass pass = look(sampler);
  EXPECT_EQ(pass.span_ns, 100 * kMs);
  ASSERT_EQ(pass.cpus.size(), 2U);
  EXPECT_NEAR(pass.cpus[0].busy, 70, 1e-9);
  EXPECT_NEAR(pass.cpus[0].user, 30, 1e-9);
  EXPECT_NEAR(pass.cpus[0].system, 10, 1e-9);
  EXPECT_NEAR(pass.cpus[0].irq, 20, 1e-9);
  EXPECT_NEAR(pass.cpus[0].steal, 10, 1e-9);
  EXPECT_NEAR(pass.cpus[0].iowait, 10, 1e-9);
  EXPECT_NEAR(pass.cpus[1].busy, 0, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_busy), 100.0 * 7 / 21, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_used), 100.0 * 6 / 21, 1e-9) << "without the stolen tick";
  EXPECT_NEAR(*pass.of(Metric::cpu_hottest), 70, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_lopsided), 70, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_system), 100.0 / 21, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_irq), 200.0 / 21, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_steal), 100.0 / 21, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::cpu_iowait), 100.0 / 21, 1e-9);
}

TEST_F(FakeProc, LopsidedIsTheHottestMinusTheMeanOfTheOthers) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0), ticks(2, 0, 0)});
  Sampler sampler = Sampler::open(tree_.root);
  look(sampler);
  tree_.stat({ticks(0, 1, 9), ticks(1, 10, 0), ticks(2, 3, 7)});
  EXPECT_NEAR(*look(sampler).of(Metric::cpu_lopsided), 100 - 20, 1e-9);
  tree_.stat({ticks(0, 11, 9), ticks(1, 20, 0), ticks(2, 13, 7)});
  EXPECT_NEAR(*look(sampler).of(Metric::cpu_lopsided), 0, 1e-9) << "all of them busy is not lopsided";
}

TEST_F(FakeProc, OneCpuIsNeverLopsided) {
  tree_.stat({ticks(0, 0, 0)});
  Sampler sampler = Sampler::open(tree_.root);
  ASSERT_EQ(sampler.missing().size(), 1U);
  EXPECT_EQ(sampler.missing()[0].metric, Metric::cpu_lopsided);
  look(sampler);
  tree_.stat({ticks(0, 10, 0)});
  const MetricPass pass = look(sampler);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 100);
  EXPECT_FALSE(pass.of(Metric::cpu_lopsided));
}

// A CPU goes offline and returns with lower or much higher counters: no pass has a wrong share.
TEST_F(FakeProc, CpusComeAndGo) {
  tree_.stat({ticks(0, 0, 1000), ticks(1, 500, 5000)});
  Sampler sampler = Sampler::open(tree_.root);
  look(sampler);
  tree_.stat({ticks(0, 0, 1010)});  // CPU 1 is off
  MetricPass pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 1U);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 0);
  EXPECT_FALSE(pass.of(Metric::cpu_lopsided));

  tree_.stat({ticks(0, 0, 1020), ticks(1, 505, 5000)});  // back: its present counters are the new start
  pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 1U);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 0);
  tree_.stat({ticks(0, 0, 1030), ticks(1, 505, 5010)});
  pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 2U);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 0);

  // It goes offline and returns between two passes, and its idle time starts again: the user ticks alone would be 100
  // %.
  tree_.stat({ticks(0, 0, 1040), ticks(1, 508, 7)});
  pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 1U);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 0);
  // Counters that jump ahead, as after a migration of the virtual machine.
  tree_.stat({ticks(0, 90000, 1050), ticks(1, 508, 17)});
  pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 1U);
  EXPECT_EQ(pass.cpus[0].cpu, 1);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 0);
  tree_.stat({ticks(0, 90005, 1055), ticks(1, 508, 27)});
  EXPECT_EQ(look(sampler).of(Metric::cpu_hottest), 50) << "and goes on from there";
}

TEST_F(FakeProc, ColumnsThatGoBackAreNoTime) {
  tree_.stat({ticks(0, 100, 1000, 400), ticks(1, 0, 0)});
  Sampler sampler = Sampler::open(tree_.root);
  look(sampler);
  tree_.stat({ticks(0, 105, 1005, 100), ticks(1, 0, 10)});  // iowait can decrease
  MetricPass pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 2U);
  EXPECT_EQ(pass.cpus[0].busy, 50);
  EXPECT_EQ(pass.cpus[0].iowait, 0);
  tree_.stat({ticks(0, 109, 1003, 107), ticks(1, 0, 20)});  // and idle, because of rounding
  pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 2U);
  EXPECT_NEAR(pass.cpus[0].busy, 400.0 / 11, 1e-9);
}

// A CPU without ticks has no value, and one tick is not 100 %: a value follows when there are more ticks.
TEST_F(FakeProc, TooFewTicksWaitForMore) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  Sampler sampler = Sampler::open(tree_.root);
  look(sampler);
  tree_.stat({ticks(0, 0, 10), ticks(1, 1, 0)});
  MetricPass pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 1U);
  EXPECT_EQ(pass.of(Metric::cpu_hottest), 0);
  tree_.stat({ticks(0, 0, 20), ticks(1, 2, 18)});
  pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 2U);
  EXPECT_EQ(pass.cpus[1].busy, 10) << "2 of 20, the ticks of the pass before with it";
}

TEST_F(FakeProc, PressureIsOfTheTimeThatReallyPassed) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  Sampler sampler = Sampler::open(tree_.root);
  EXPECT_FALSE(look(sampler).of(Metric::psi_memory_some));
  tree_.pressure("memory", 1000 + 30'000, 500 + 15'000);
  MetricPass pass = look(sampler, 120 * kMs);
  EXPECT_NEAR(*pass.of(Metric::psi_memory_some), 25, 1e-9);
  EXPECT_NEAR(*pass.of(Metric::psi_memory_full), 12.5, 1e-9);
  EXPECT_EQ(pass.of(Metric::psi_io_some), 0);
  tree_.pressure("memory", 10'000'000, 500);
  pass = look(sampler);
  EXPECT_EQ(pass.of(Metric::psi_memory_some), 100) << "never more than all of it";
  EXPECT_FALSE(pass.of(Metric::psi_memory_full)) << "a total that went back gives no value";
}

TEST_F(FakeProc, AKernelWithoutPressureLacksJustThat) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  std::filesystem::remove_all(tree_.root + "/pressure");
  Sampler sampler = Sampler::open(tree_.root);
  ASSERT_EQ(sampler.missing().size(), 6U);
  for (const MissingMetric& missing : sampler.missing()) {
    EXPECT_TRUE(info_of(missing.metric).name.starts_with("psi."));
    EXPECT_THAT(missing.why, HasSubstr("/pressure/"));
    EXPECT_THAT(missing.why, HasSubstr("No such file"));
    EXPECT_THAT(missing.why, HasSubstr("psi=1"));
  }
  look(sampler);
  tree_.stat({ticks(0, 5, 5), ticks(1, 5, 5)});
  EXPECT_EQ(look(sampler).of(Metric::cpu_busy), 50);
}

// At start there is no descriptor: that is not the kernel's fault, and it ends.
TEST_F(FakeProc, SourcesThatCannotBeOpenedAreTriedAgain) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  auto full = std::make_optional<test::FullTable>();
  Sampler sampler = Sampler::open(tree_.root);
  EXPECT_EQ(sampler.missing().size(), kMetrics.size());
  for (const MissingMetric& missing : sampler.missing()) {
    EXPECT_TRUE(missing.passing);
    EXPECT_THAT(missing.why, StartsWith("open " + tree_.root));
    EXPECT_THAT(missing.why, HasSubstr("Too many open files"));
    EXPECT_THAT(missing.why, HasSubstr("LimitNOFILE="));
    EXPECT_THAT(missing.why, HasSubstr("again every 10 s"));
    EXPECT_THAT(missing.why, Not(HasSubstr("kernel")));
  }
  look(sampler);
  EXPECT_TRUE(sampler.take_changed());
  full.reset();
  look(sampler, 9 * kS);
  EXPECT_FALSE(sampler.take_changed());
  EXPECT_EQ(sampler.missing().size(), kMetrics.size());
  look(sampler, kS);
  EXPECT_TRUE(sampler.take_changed());
  EXPECT_THAT(sampler.missing(), IsEmpty());
  tree_.stat({ticks(0, 5, 5), ticks(1, 5, 5)});
  tree_.pressure("memory", 1000 + 50'000, 500);
  const MetricPass pass = look(sampler);
  EXPECT_EQ(pass.of(Metric::cpu_busy), 50);
  EXPECT_EQ(pass.of(Metric::tasks_running), 2);
  EXPECT_NEAR(*pass.of(Metric::psi_memory_some), 50, 1e-9);
  for (int i = 0; i < 3; ++i) look(sampler, 10 * kS);
  EXPECT_FALSE(sampler.take_changed());
}

// A source that fails later is reported by its own reason, and opened anew. (A directory can be opened and not be
// read.)
TEST_F(FakeProc, ASourceThatCannotBeReadIsOpenedAnew) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  std::filesystem::remove(tree_.root + "/pressure/io");
  std::filesystem::create_directory(tree_.root + "/pressure/io");
  Sampler sampler = Sampler::open(tree_.root);
  ASSERT_EQ(sampler.missing().size(), 2U);
  for (const MissingMetric& missing : sampler.missing()) {
    EXPECT_TRUE(missing.passing);
    EXPECT_EQ(info_of(missing.metric).source, MetricSource::pressure_io);
    EXPECT_THAT(missing.why, StartsWith("read " + tree_.root + "/pressure/io: Is a directory"));
    EXPECT_THAT(missing.why, Not(HasSubstr("kernel")));
  }
  std::filesystem::remove(tree_.root + "/pressure/io");
  tree_.pressure("io", 1000, 500);
  look(sampler);
  EXPECT_THAT(sampler.missing(), IsEmpty());
  look(sampler);
  EXPECT_EQ(look(sampler).of(Metric::psi_io_some), 0);
}

// It was absent at start, as a file system that is mounted later.
TEST_F(FakeProc, AFileThatComesLaterIsMeasured) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  std::filesystem::remove(tree_.root + "/loadavg");
  std::filesystem::remove(tree_.root + "/pressure/cpu");
  Sampler sampler = Sampler::open(tree_.root);
  ASSERT_EQ(sampler.missing().size(), 2U);
  for (const MissingMetric& missing : sampler.missing()) EXPECT_FALSE(missing.passing);
  look(sampler);
  tree_.pressure("cpu", 1000, 500);
  look(sampler, 10 * kS);
  EXPECT_THAT(sampler.missing(), IsEmpty());
}

TEST_F(FakeProc, AnOldKernelHasNoFullForTheCpu) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)});
  tree_.write("pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
  const Sampler sampler = Sampler::open(tree_.root);
  ASSERT_EQ(sampler.missing().size(), 1U);
  EXPECT_EQ(sampler.missing()[0].metric, Metric::psi_cpu_full);
}

TEST_F(FakeProc, NothingAtAllIsNoReasonToFail) {
  const std::string nowhere = tree_.root + "/nowhere";
  Sampler sampler = Sampler::open(nowhere);
  EXPECT_EQ(sampler.missing().size(), kMetrics.size());
  for (int i = 0; i < 3; ++i) {
    const MetricPass pass = look(sampler);
    for (const auto& value : pass.values) EXPECT_FALSE(value);
  }
}

TEST_F(FakeProc, WithoutLoadavgTheRunningOnesAreStats) {
  tree_.stat({ticks(0, 0, 0), ticks(1, 0, 0)}, 6, 0);
  std::filesystem::remove(tree_.root + "/loadavg");
  Sampler sampler = Sampler::open(tree_.root);
  EXPECT_TRUE(sampler.missing().empty());
  EXPECT_EQ(look(sampler).of(Metric::tasks_running), 5);
}

// 1,024 CPUs and the line of all their interrupts: more than the first buffer holds.
TEST_F(FakeProc, ALargeMachine) {
  std::vector<CpuTicks> cpus;
  for (int i = 0; i < 1024; ++i) cpus.push_back(ticks(i, 0, 1'000'000'000));
  tree_.stat(cpus);
  Sampler sampler = Sampler::open(tree_.root);
  look(sampler);
  for (CpuTicks& cpu : cpus) cpu.ticks[cpu.cpu == 700 ? 0 : 3] += 10;
  tree_.stat(cpus);
  const MetricPass pass = look(sampler);
  ASSERT_EQ(pass.cpus.size(), 1024U);
  EXPECT_EQ(pass.cpus[700].busy, 100);
  EXPECT_EQ(pass.of(Metric::cpu_lopsided), 100);
  EXPECT_EQ(pass.of(Metric::tasks_blocked), 0) << "which stands behind all of it";
}

// Garbage is skipped, never used.
TEST(ProcStatText, OddLines) {
  ProcStat stat;
  parse_proc_stat(
      "cpu0 1 2 3\ncpux 1 2 3 4 5 6 7 8\ncpu99999 1 2 3 4 5 6 7 8\ncpu1 1 2 -3 4 5 6 7 8\n"
      "cpu2 1 2 3 4 5 6 7 8 9 10 11 12\nprocs_running x\nprocs_blocked 18446744073709551616",
      stat);
  ASSERT_EQ(stat.cpus.size(), 1U);
  EXPECT_EQ(stat.cpus[0].cpu, 2);
  EXPECT_EQ(stat.cpus[0].of(CpuColumn::steal), 8U);
  EXPECT_FALSE(stat.running);
  EXPECT_FALSE(stat.blocked);
  EXPECT_EQ(parse_loadavg_running("0.00 0.00 0.00 7/99 12"), 7U);
  EXPECT_FALSE(parse_loadavg_running("0.00 0.00"));
  EXPECT_FALSE(parse_loadavg_running(""));
  EXPECT_FALSE(parse_pressure("some avg10=0.00 total=\nfull total=x").some_us);
}

// The machine on which the test runs: every number is within its bounds, and everything measurable is there.
class CoveredProc : public test::RootTest {};

// As in a container whose lxcfs hangs. In an earlier version so did the thread, and flightd could not be ended.
TEST_F(CoveredProc, AServersFileIsLeftOutAndSaid) {
  test::in_own_mounts([] {
    const test::HungMount cpus("/proc/stat"), tasks("/proc/loadavg");
    Sampler sampler = Sampler::open();
    std::size_t said = 0;
    for (const MissingMetric& missing : sampler.missing()) {
      const MetricSource source = info_of(missing.metric).source;
      if (source != MetricSource::stat && source != MetricSource::loadavg) continue;
      EXPECT_TRUE(missing.passing) << "it is tried again";
      EXPECT_THAT(missing.why,
                  testing::AllOf(HasSubstr("fuse.hung is mounted over it"), HasSubstr("again every 10 s")));
      ++said;
    }
    EXPECT_GE(said, 3U);
    const MetricPass pass = sampler.pass(monotonic_now());
    EXPECT_FALSE(pass.of(Metric::cpu_busy));
    EXPECT_FALSE(pass.of(Metric::tasks_running));
  });
}

TEST_F(CoveredProc, WhatWasOpenedBeforeIsTheKernels) {
  test::in_own_mounts([] {
    Sampler sampler = Sampler::open();
    const test::HungMount cpus("/proc/stat"), tasks("/proc/loadavg");
    EXPECT_TRUE(sampler.pass(monotonic_now()).of(Metric::tasks_running));
  });
}

TEST(RealProc, EveryNumberIsInItsBounds) {
  Sampler sampler = Sampler::open();
  static_cast<void>(sampler.pass(monotonic_now()));
  std::array<int, kMetrics.size()> known{};
  for (int passes = 0; passes < 5; ++passes) {
    const EventTime begin = monotonic_now();  // the CPUs' ticks continue whether this test runs or not
    while (monotonic_now() < begin + 150 * kMs) {
    }
    const MetricPass pass = sampler.pass(monotonic_now());
    for (const MetricInfo& info : kMetrics) {
      const auto value = pass.of(info.metric);
      if (!value) continue;
      ++known.at(index_of(info.metric));
      EXPECT_GE(*value, 0) << info.name;
      EXPECT_LE(*value, info.share ? 100 + 1e-9 : 1e9) << info.name;
    }
    for (const CpuShares& cpu : pass.cpus)
      EXPECT_NEAR(cpu.user + cpu.system + cpu.irq + cpu.steal, cpu.busy, 1e-6) << "CPU " << cpu.cpu;
  }
  EXPECT_GT(known.at(index_of(Metric::tasks_running)), 0);
  EXPECT_GT(known.at(index_of(Metric::tasks_blocked)), 0);
  EXPECT_GT(known.at(index_of(Metric::cpu_busy)), 0);
  for (const MissingMetric& missing : sampler.missing())
    EXPECT_EQ(known.at(index_of(missing.metric)), 0) << info_of(missing.metric).name << " is missing: " << missing.why;
}

}  // namespace
}  // namespace flight
