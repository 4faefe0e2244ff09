// SPDX-License-Identifier: Apache-2.0
// The metrics of the last minutes: the part in the sidecar, and the value "before".
#include "libcore/trigger/history.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/trigger/tape.hpp"

namespace flight {
namespace {

using test::kMin;
using test::kMs;
using test::kS;

class History : public testing::Test {
 protected:
  void play(std::uint64_t ns, double busy, std::uint64_t step = 100 * kMs, int cpus = 2) {
    for (const EventTime end = now_ + ns; now_ + step <= end;) {
      now_ += step;
      MetricPass pass{.time_ns = now_, .span_ns = step};
      pass.of(Metric::cpu_busy) = busy;
      pass.of(Metric::cpu_hottest) = busy;
      for (int cpu = 0; cpu < cpus; ++cpu) pass.cpus.push_back({.cpu = cpu, .busy = cpu == 0 ? busy : 0});
      history_.add(pass);
    }
  }
  static std::vector<double> values(const SidecarSeries& series, const std::string& name) {
    for (const auto& [key, list] : series.values)
      if (key == name) return list;
    return {};
  }
  MetricHistory history_;
  EventTime now_ = 5000 * kS;
};

TEST_F(History, NothingBeforeTheFirstPass) {
  EXPECT_FALSE(history_.exported());
  EXPECT_FALSE(history_.baseline(Metric::cpu_busy, now_));
}

TEST_F(History, SixtySecondsTenMinutesAndTenSecondsOfEachCpu) {
  play(20 * kMin, 12.34);
  const SidecarMetrics metrics = *history_.exported();
  EXPECT_EQ(metrics.recent.step_ns, 100 * kMs);
  EXPECT_EQ(metrics.recent.begin_ns, now_ - 60 * kS);
  EXPECT_EQ(values(metrics.recent, "cpu.busy"), std::vector<double>(600, 12.3));
  EXPECT_EQ(metrics.minutes.step_ns, kS);
  EXPECT_EQ(values(metrics.minutes, "cpu.busy").size(), 600U);
  EXPECT_EQ(values(metrics.cpus, "0"), std::vector<double>(100, 12.3));
  EXPECT_EQ(values(metrics.cpus, "1"), std::vector<double>(100, 0));
  EXPECT_EQ(metrics.cpus.begin_ns, now_ - 10 * kS);
  EXPECT_TRUE(values(metrics.recent, "psi.io.full").empty()) << "of what is not known there is no list";
}

TEST_F(History, AYoungOneIsShort) {
  play(2 * kS, 10);
  const SidecarMetrics metrics = *history_.exported();
  EXPECT_EQ(values(metrics.recent, "cpu.busy").size(), 20U);
  EXPECT_EQ(metrics.recent.begin_ns, now_ - 2 * kS);
  EXPECT_EQ(values(metrics.minutes, "cpu.busy").size(), 2U);
}

TEST_F(History, ABurstOf150MillisecondsIsVisible) {
  play(30 * kS, 5);
  play(100 * kMs, 100);
  play(100 * kMs, 50);
  play(5 * kS, 5);
  const SidecarMetrics metrics = *history_.exported();
  const auto recent = values(metrics.recent, "cpu.busy");
  EXPECT_EQ(recent[recent.size() - 52], 100);
  EXPECT_EQ(recent[recent.size() - 51], 50);
  EXPECT_THAT(values(metrics.cpus, "0"), testing::Contains(100));
  // In the long view: the second's maximum of the hottest CPU, and the mean of all CPUs.
  EXPECT_THAT(values(metrics.minutes, "cpu.hottest"), testing::Contains(100));
  EXPECT_THAT(values(metrics.minutes, "cpu.busy"), testing::Contains(19));
}

TEST_F(History, ALongPassFillsItsStepsAndAGapIsUnknown) {
  play(3200 * kMs, 30, 1600 * kMs);
  now_ += 20 * kS;  // no pass
  play(1600 * kMs, 50, 1600 * kMs);
  const auto recent = values(history_.exported()->recent, "cpu.busy");
  ASSERT_EQ(recent.size(), 248U);
  EXPECT_EQ(recent.front(), 30);
  EXPECT_EQ(recent[31], 30);
  EXPECT_TRUE(std::isnan(recent[33]));
  EXPECT_TRUE(std::isnan(recent[230]));
  EXPECT_EQ(recent.back(), 50);
  EXPECT_EQ(recent[233], 50);
}

TEST_F(History, APassOverASuspendSaysNothing) {
  play(5 * kS, 10);
  play(3600 * kS, 90, 3600 * kS);
  play(1 * kS, 10);
  const auto minutes = values(history_.exported()->minutes, "cpu.busy");
  EXPECT_THAT(minutes, testing::Not(testing::Contains(90)));
  EXPECT_EQ(history_.baseline(Metric::cpu_busy, now_), 10);
}

TEST_F(History, TheBaselineIsTheMedianOfTheFiveMinutesBefore) {
  play(10 * kMin, 80);
  play(149 * kS, 20);
  EXPECT_EQ(history_.baseline(Metric::cpu_busy, now_), 80);
  play(5 * kS, 20);
  EXPECT_EQ(history_.baseline(Metric::cpu_busy, now_), 20) << "more than half of it";
  EXPECT_EQ(history_.baseline(Metric::cpu_busy, now_ - 60 * kS), 80) << "before then";
  EXPECT_FALSE(history_.baseline(Metric::psi_io_some, now_));
}

TEST_F(History, APassThatIsNotNewerIsPassedOver) {
  play(1 * kS, 10);
  history_.add({.time_ns = now_ - 50 * kMs, .span_ns = 100 * kMs});
  history_.add({.time_ns = now_, .span_ns = 100 * kMs});
  EXPECT_EQ(values(history_.exported()->recent, "cpu.busy").size(), 10U);
}

// 1,024 CPUs and the longest possible numbers: the text stays within the sidecar's limit.
TEST_F(History, IsBoundedAsJson) {
  for (int i = 0; i < 7000; ++i) {
    now_ += 100 * kMs;
    MetricPass pass{.time_ns = now_, .span_ns = 100 * kMs};
    for (const MetricInfo& info : kMetrics) pass.of(info.metric) = info.share ? 99.96 : 1e9;
    for (int cpu = 0; cpu < 1024; ++cpu) pass.cpus.push_back({.cpu = cpu, .busy = cpu % 8 == 3 ? 99.9 : 11.1});
    history_.add(pass);
  }
  const SidecarMetrics metrics = *history_.exported();
  ASSERT_EQ(metrics.cpus.values.size(), MetricHistory::kMaxExportedCpus);
  EXPECT_EQ(metrics.cpus.values.front().first, "3") << "the busiest, by number";
  EXPECT_EQ(metrics.cpus.values.back().first, "1019");
  Sidecar with, without;
  with.metrics = metrics;
  const std::size_t bytes = to_json_line(with).size() - to_json_line(without).size();
  EXPECT_LE(bytes, MetricHistory::kMaxExportedBytes);
  EXPECT_GT(bytes, MetricHistory::kMaxExportedBytes / 2) << "which is no accident";
}

}  // namespace
}  // namespace flight
