// SPDX-License-Identifier: Apache-2.0
// Scheduling of files with known switches, and of a machine that is simulated, against the times that it had.
#include "libcore/profile/sched.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using test::append_to_another;
using test::append_wakeup;
using test::kPreempted;
using test::kStateD;
using test::kStateI;
using test::kStateR;
using test::kStateS;
using test::kStateZ;
using test::MadeSwitch;
using test::sched_file;
using testing::ElementsAre;
using testing::IsEmpty;

class SchedTest : public testing::Test {
 protected:
  void to(EventTime time_ns, std::uint32_t cpu, std::uint32_t prev, std::uint16_t state, std::uint32_t next) {
    append_to_another(records_, {.time_ns = time_ns, .cpu = cpu, .prev = prev, .state = state, .next = next});
  }
  void wake(EventTime time_ns, std::uint32_t cpu, std::uint32_t tid, std::int32_t priority = 120) {
    append_wakeup(records_, {.time_ns = time_ns, .cpu = cpu, .tid = tid, .priority = priority});
  }
  [[nodiscard]] SchedProfile read(const SchedOrder& order = {}) const {
    auto profile = SchedProfile::read(sched_file(records_), order);
    EXPECT_TRUE(profile) << profile.error().what;
    return profile ? std::move(*profile) : SchedProfile();
  }
  static SchedThread thread(const SchedProfile& profile, std::uint32_t tid) {
    const auto found = std::find_if(profile.threads.begin(), profile.threads.end(),
                                    [tid](const SchedThread& one) { return one.tid == tid; });
    EXPECT_NE(found, profile.threads.end()) << tid;
    return found == profile.threads.end() ? SchedThread() : *found;
  }
  // Those who ran instead: "11: 3000".
  static std::vector<std::string> instead_of(const SchedProfile& profile, std::uint32_t tid) {
    std::vector<std::string> out;
    for (const SchedRow& row : profile.rows)
      if (profile.threads[row.thread].tid == tid)
        for (const SchedInstead& one : row.instead)
          out.push_back(fmt::format("{}: {}", profile.threads[one.thread].tid, one.ns));
    return out;
  }

  RecordBuffer records_;
};

TEST_F(SchedTest, APreemptedThreadWaitsForTheOthers) {
  to(1000, 0, 0, kStateR, 10);
  to(3000, 0, 10, kPreempted, 11);
  to(7000, 0, 11, kStateR, 12);
  to(8000, 0, 12, kStateS, 10);
  to(9000, 0, 10, kStateS, 11);
  to(9500, 0, 11, kStateS, 0);
  const SchedProfile profile = read();
  const SchedThread ten = thread(profile, 10), eleven = thread(profile, 11);
  EXPECT_EQ(ten.run.total_ns, 3000U);
  EXPECT_EQ(ten.run.count, 2U);
  EXPECT_EQ(ten.waited.total_ns, 5000U);
  EXPECT_EQ(ten.waited.longest_begin_ns, 3000U);
  EXPECT_EQ(ten.preempted.total_ns, 5000U);
  EXPECT_EQ(ten.delayed.count + ten.blocked.count, 0U);
  EXPECT_EQ(ten.slept.total_ns, 500U) << "until the end";
  EXPECT_TRUE(ten.slept.longest_goes_on);
  EXPECT_EQ(eleven.waited.total_ns, 2000U) << "it gave up the CPU";
  EXPECT_THAT(instead_of(profile, 10), ElementsAre("11: 4000", "12: 1000"));
  EXPECT_THAT(instead_of(profile, 11), ElementsAre("10: 1000", "12: 1000"));
  EXPECT_EQ(profile.threads[profile.rows.front().thread].tid, 10U);
  EXPECT_EQ(profile.name_of(profile.rows.front().thread), "task-10");
  EXPECT_EQ(ten.pid, 10U);
  EXPECT_EQ(profile.cpus.at(0).run_ns, 8500U);
  EXPECT_EQ(profile.switches, 6U);
}

TEST_F(SchedTest, ABlockedThreadIsBlockedUntilItRuns) {
  to(1000, 0, 10, kStateD, 0);
  wake(4000, 1, 10);
  to(4500, 1, 11, kPreempted, 10);
  to(5000, 1, 10, kStateI, 11);
  to(6000, 1, 11, kStateS, 10);
  to(7000, 1, 10, kStateD, 0);
  to(9000, 0, 0, kStateR, 12);
  const SchedProfile profile = read();
  const SchedThread ten = thread(profile, 10);
  EXPECT_EQ(ten.blocked.count, 2U);
  EXPECT_EQ(ten.blocked.total_ns, 3500U + 2000U);
  EXPECT_EQ(ten.blocked.longest_ns, 3500U);
  EXPECT_EQ(ten.blocked.longest_begin_ns, 1000U);
  EXPECT_FALSE(ten.blocked.longest_goes_on);
  EXPECT_EQ(ten.delayed.total_ns, 500U);
  EXPECT_EQ(ten.waited.total_ns, 500U);
  EXPECT_EQ(ten.slept.total_ns, 1000U) << "state I";
  EXPECT_EQ(ten.unknown_wakeups, 1U);
  EXPECT_THAT(instead_of(profile, 10), IsEmpty()) << "what ran before the first switch is not known";
  ASSERT_EQ(profile.blocked.size(), 1U);
  EXPECT_EQ(profile.threads[profile.blocked.front()].tid, 10U);
  EXPECT_TRUE(profile.knowledge.normal_wakeups);
  EXPECT_FALSE(profile.knowledge.stacks);
  EXPECT_TRUE(profile.knowledge.every_switch);
}

// The number of threads in D, in steps of a 240th of the time; a thread that is awake is in D no longer.
TEST_F(SchedTest, BlockedThreadsOverTime) {
  to(100'000, 0, 10, kStateD, 11);
  to(100'000, 1, 12, kStateD, 0);
  wake(112'000, 1, 12);
  to(115'000, 0, 11, kStateS, 10);
  to(116'000, 1, 0, kStateR, 12);
  to(124'000, 0, 10, kStateS, 0);
  SchedOrder order;
  order.shown = {.begin_ns = 100'000, .end_ns = 124'000, .covered_ns = 100'000};
  const SchedProfile profile = read(order);
  const std::vector<double>& lane = profile.blocked_lane;
  ASSERT_EQ(profile.lane_step_ns, 101U);
  ASSERT_EQ(lane.size(), 238U);
  EXPECT_DOUBLE_EQ(lane.front(), 2);
  EXPECT_DOUBLE_EQ(lane[11'900 / 101], 2);
  EXPECT_DOUBLE_EQ(lane[12'200 / 101], 1);
  EXPECT_DOUBLE_EQ(lane[15'200 / 101], 0);
}

TEST_F(SchedTest, AWakeUpCountsFromTheFirst) {
  to(1000, 0, 10, kStateS, 11);
  wake(2000, 0, 10, 98);
  wake(2500, 0, 10, 98);
  to(4000, 0, 11, kPreempted, 10);
  wake(4100, 0, 10, 98);  // it runs
  to(5000, 0, 10, kStateS, 11);
  to(6000, 0, 11, kStateS, 10);
  const SchedProfile profile = read();
  EXPECT_EQ(thread(profile, 10).delayed.total_ns, 2000U);
  EXPECT_EQ(thread(profile, 10).delayed.count, 1U);
  EXPECT_EQ(thread(profile, 10).unknown_wakeups, 1U);
  EXPECT_THAT(instead_of(profile, 10), ElementsAre("11: 2000"));
  EXPECT_TRUE(profile.knowledge.has_wakeups);
  EXPECT_FALSE(profile.knowledge.normal_wakeups);
}

// As `perf sched timehist`: only what has ended, and nothing before the first switch.
TEST_F(SchedTest, WithoutWhatGoesOn) {
  to(1000, 0, 10, kPreempted, 11);
  to(5000, 0, 11, kStateD, 12);
  const SchedProfile profile = read({.count_what_goes_on = false});
  EXPECT_EQ(thread(profile, 11).run.total_ns, 4000U);
  EXPECT_EQ(thread(profile, 10).run.total_ns + thread(profile, 10).waited.total_ns, 0U);
  EXPECT_EQ(thread(profile, 11).blocked.total_ns, 0U);
}

TEST_F(SchedTest, OnlyTheShownTimeCounts) {
  to(1000, 0, 10, kPreempted, 11);
  to(5000, 0, 11, kPreempted, 10);
  to(9000, 0, 10, kPreempted, 11);
  to(20'000, 0, 11, kStateS, 10);
  SchedOrder order;
  order.shown = {.begin_ns = 2000, .end_ns = 10'000, .covered_ns = 500};
  const SchedProfile profile = read(order);
  const SchedThread ten = thread(profile, 10), eleven = thread(profile, 11);
  EXPECT_EQ(ten.waited.total_ns, 3000U + 1000U);
  EXPECT_EQ(ten.waited.longest_begin_ns, 2000U);
  EXPECT_EQ(ten.run.total_ns, 4000U);
  EXPECT_EQ(eleven.run.total_ns, 3000U + 1000U);
  EXPECT_THAT(instead_of(profile, 10), ElementsAre("11: 4000"));
  EXPECT_EQ(profile.cpus.at(0).run_ns, 8000U);
}

// It ran from the begin on, as all switches of the CPU are there.
TEST_F(SchedTest, WhatRanBeforeTheFirstSwitch) {
  to(5000, 0, 10, kStateS, 0);
  to(6000, 1, 0, kStateR, 10);
  to(7000, 1, 10, kStateS, 0);
  SchedOrder order;
  order.shown = {.begin_ns = 1000, .end_ns = 8000, .covered_ns = 2000};
  const SchedProfile profile = read(order);
  EXPECT_EQ(thread(profile, 10).run.total_ns, 3000U + 1000U);
  EXPECT_EQ(profile.cpus.at(1).idle_ns, 4000U + 1000U);
}

TEST_F(SchedTest, ANumberCanBeUsedAgain) {
  to(1000, 0, 11, kStateS, 10);
  to(2000, 0, 10, kStateZ, 11);
  to(5000, 0, 11, kStateS, 10);
  to(6000, 0, 10, kStateS, 0);
  const SchedProfile profile = read();
  std::vector<std::uint64_t> runs;
  for (const SchedThread& one : profile.threads)
    if (one.tid == 10) runs.push_back(one.run.total_ns);
  EXPECT_THAT(runs, ElementsAre(1000U, 1000U));
  EXPECT_EQ(thread(profile, 10).slept.total_ns, 0U) << "it has ended";
}

// Of a thread that was there in between, nothing is known, and nothing is invented.
TEST_F(SchedTest, MissingSwitchesAreUnknownTime) {
  to(1000, 0, 0, kStateR, 10);
  // 10 leaves the CPU, 11 gets it: not recorded
  to(5000, 0, 11, kStateS, 10);
  to(6000, 0, 10, kStateS, 0);
  const SchedProfile profile = read();
  EXPECT_EQ(profile.cpus.at(0).breaks, 1U);
  EXPECT_EQ(profile.cpus.at(0).unknown_ns, 4000U);
  EXPECT_EQ(thread(profile, 10).run.total_ns, 1000U);
  EXPECT_EQ(thread(profile, 10).waited.count + thread(profile, 10).slept.count, 0U);
  EXPECT_EQ(thread(profile, 11).run.total_ns, 0U);
  EXPECT_EQ(thread(profile, 10).run.unsure, 0U);
}

// Who ran when, in the newest part of the time: "0 10 3000-5000"; ?: it is not known.
std::vector<std::string> lanes_of(const SchedProfile& profile) {
  std::vector<std::string> out;
  for (const SchedRan& one : profile.lanes.all_ran())
    out.push_back(fmt::format("{} {} {}-{}", one.cpu,
                              one.thread == SchedWaits::kNobody ? "?" : std::to_string(profile.threads[one.thread].tid),
                              one.begin_ns, one.end_ns));
  return out;
}
std::vector<std::string> off_of(const SchedProfile& profile) {
  std::vector<std::string> out;
  for (const SchedOff& one : profile.lanes.all_off()) {
    const char* state = one.state == SchedState::blocked ? "D" : one.state == SchedState::sleeping ? "S" : "R";
    out.push_back(fmt::format("{} {} {}-{}{}{}", profile.threads[one.thread].tid, state, one.begin_ns, one.end_ns,
                              one.unsure ? " ~" : "", one.goes_on ? " +" : ""));
  }
  return out;
}

TEST_F(SchedTest, LanesHaveWhoRanInTheNewestPart) {
  to(1000, 0, 0, kStateR, 10);
  to(3000, 0, 10, kStateS, 11);
  to(6000, 0, 11, kStateS, 0);
  to(7000, 0, 0, kStateR, 10);
  to(2000, 1, 0, kStateR, 12);
  // 12 leaves the CPU, 13 gets it: not recorded
  to(5000, 1, 13, kStateS, 14);
  SchedOrder order;
  order.shown = {.begin_ns = 1000, .end_ns = 8000, .covered_ns = 1000};
  order.lanes.ran_ns = 6000;
  const SchedProfile profile = read(order);
  EXPECT_EQ(profile.lanes.ran_begin_ns(), 2000U);
  EXPECT_THAT(lanes_of(profile),
              ElementsAre("0 10 2000-3000", "0 11 3000-6000", "0 10 7000-8000", "1 ? 2000-5000", "1 14 5000-8000"));
  EXPECT_THAT(off_of(profile), IsEmpty());
  EXPECT_EQ(thread(profile, 10).run.total_ns, 3000U) << "in all of the time";
  EXPECT_THAT(lanes_of(read()), IsEmpty()) << "nobody has asked for them";
}

// The sums of the stretches are those of the threads and CPUs.
TEST_F(SchedTest, LanesOfAllTimeHaveTheTimesOfTheThreads) {
  for (EventTime i = 1; i <= 50; ++i) {
    to(1000 * i, 0, 10, i % 3 == 0 ? kStateD : kPreempted, 11);
    to(1000 * i + 300, 0, 11, kStateS, 10);
    to(1000 * i + 400, 1, 20, kStateS, 21);
    to(1000 * i + 900, 1, 21, kPreempted, 20);
  }
  SchedOrder order;
  order.lanes = {.ran_ns = UINT64_MAX, .least_off_ns = 1};
  const SchedProfile profile = read(order);
  std::vector<std::uint64_t> ran(profile.threads.size()), off(profile.threads.size());
  for (const SchedRan& one : profile.lanes.all_ran()) ran.at(one.thread) += one.end_ns - one.begin_ns;
  for (const SchedOff& one : profile.lanes.all_off()) off.at(one.thread) += one.end_ns - one.begin_ns;
  for (std::size_t i = 0; i < profile.threads.size(); ++i) {
    const SchedThread& one = profile.threads[i];
    EXPECT_EQ(ran[i], one.run.total_ns) << one.tid;
    EXPECT_EQ(off[i], one.preempted.total_ns + one.blocked.total_ns + one.slept.total_ns) << one.tid;
  }
}

TEST_F(SchedTest, LanesBeginLaterIfThereAreTooManyStretches) {
  for (EventTime i = 1; i <= 100; ++i) to(1000 * i, 0, i % 2 == 0 ? 10 : 11, kPreempted, i % 2 == 0 ? 11 : 10);
  to(500, 1, 0, kStateR, 12);
  to(100'500, 1, 12, kStateS, 0);
  SchedOrder order;
  order.lanes = {.ran_ns = 99'000, .most_ran = 5};
  const SchedProfile profile = read(order);
  EXPECT_EQ(profile.lanes.ran_begin_ns(), 97'000U);
  EXPECT_THAT(lanes_of(profile), ElementsAre("0 10 97000-98000", "0 11 98000-99000", "0 10 99000-100000",
                                             "0 11 100000-100500", "1 12 97000-100500"));
}

// By its state, each with its wait for a CPU after it.
TEST_F(SchedTest, LongStretchesOffTheCpus) {
  to(1000, 0, 10, kStateD, 11);
  wake(4000, 0, 10);
  to(5500, 0, 11, kPreempted, 10);
  to(6000, 0, 10, kStateS, 11);
  to(6400, 0, 11, kStateS, 10);
  to(7000, 0, 10, kStateS, 0);
  to(7100, 1, 0, kStateR, 12);
  to(9000, 1, 12, kStateS, 0);
  Sidecar sidecar;
  sidecar.holes.push_back({"sched", 1, 2000, 2100, 7});
  SchedOrder order;
  order.sidecar = &sidecar;
  order.lanes.least_off_ns = 500;
  EXPECT_THAT(off_of(read(order)), ElementsAre("10 D 1000-4000 ~", "10 R 4000-5500", "11 R 5500-6000",
                                               "11 S 6400-9000 +", "10 S 7000-9000 +"));
  order.lanes.most_off = 1;
  const SchedProfile some = read(order);
  EXPECT_THAT(off_of(some), ElementsAre("10 D 1000-4000 ~", "10 R 4000-5500", "11 S 6400-9000 +"));
  EXPECT_EQ(some.lanes.left_out_off(), 2U);
}

// Idle threads sleep longest: they would use up the limit.
TEST_F(SchedTest, LongSleepsDoNotCountInAPicture) {
  constexpr EventTime kSecondNs = 1'000'000'000;
  to(1 * kSecondNs, 0, 10, kStateS, 11);
  to(2 * kSecondNs, 0, 11, kStateS, 12);
  to(3 * kSecondNs, 0, 12, kStateD, 11);
  to(5 * kSecondNs, 0, 11, kStateZ, 10);
  to(6 * kSecondNs, 0, 10, kStateZ, 12);
  SchedOrder order;
  order.lanes = kUsualLanes;
  order.lanes.most_off = 1;
  const SchedProfile usual = read(order);
  EXPECT_THAT(off_of(usual), ElementsAre("11 S 2000000000-3000000000", "12 D 3000000000-6000000000"));
  EXPECT_EQ(usual.lanes.left_out_off(), 0U);
  EXPECT_EQ(thread(usual, 10).slept.total_ns, 4 * kSecondNs) << "not in the picture only";
  order.lanes.most_asleep_ns = UINT64_MAX;
  const SchedProfile all = read(order);
  EXPECT_THAT(off_of(all), ElementsAre("10 S 1000000000-5000000000", "12 D 3000000000-6000000000"));
  EXPECT_EQ(all.lanes.left_out_off(), 1U);
  order.lanes.most_asleep_ns = 0;
  EXPECT_THAT(off_of(read(order)), ElementsAre("12 D 3000000000-6000000000"));
}

// A thread can have run in a hole.
TEST_F(SchedTest, ATimeAcrossAHoleIsUnsure) {
  to(1000, 0, 10, kPreempted, 11);
  to(9000, 0, 11, kPreempted, 10);
  to(9500, 1, 0, kStateR, 12);
  to(9600, 1, 12, kStateS, 0);
  Sidecar sidecar;
  sidecar.holes.push_back({"sched", 1, 4000, 5000, 7});
  const SchedProfile profile = read({.sidecar = &sidecar});
  EXPECT_EQ(thread(profile, 10).waited.unsure, 1U) << "off the CPUs in the hole of another one";
  EXPECT_EQ(thread(profile, 11).run.unsure, 0U) << "it ran on a CPU without a hole";
  EXPECT_EQ(profile.holes.count(), 1U);
  EXPECT_EQ(profile.holes.worst(0, 10'000).first, 1U);
  EXPECT_EQ(profile.holes.worst(4500, 10'000).second, 500U);

  // A ring with fewer samples than there are switches is that of other events.
  sidecar.rings.push_back({"sched", 1, 4096, 1000, 9600, 2, 1, 0, 0, 0, 0});
  EXPECT_EQ(read({.sidecar = &sidecar}).holes.count(), 0U);
  sidecar.rings.back().samples = 2;
  EXPECT_EQ(read({.sidecar = &sidecar}).holes.count(), 1U);
}

TEST_F(SchedTest, OfTooManyTheNewestAreUsed) {
  for (EventTime i = 1; i <= 100; ++i) {
    to(1000 * i, 0, 10, kPreempted, 11);
    to(1000 * i + 500, 0, 11, kPreempted, 10);
  }
  const SchedProfile all = read();
  EXPECT_EQ(all.left_out, 0U);
  const SchedProfile some = read({.most_records = 21});
  EXPECT_EQ(some.left_out, 200U - 21U);
  EXPECT_EQ(some.shown.begin_ns, 90'001U);
  EXPECT_EQ(some.switches, 200U);
  EXPECT_EQ(thread(some, 11).run.total_ns + thread(some, 10).run.total_ns, 100'500U - some.shown.begin_ns);
}

TEST_F(SchedTest, LostAndMalformedRecordsAreCounted) {
  to(1000, 0, 10, kStateS, 0);
  const std::size_t at = records_.size();
  to(2000, 0, 0, kStateR, 10);
  constexpr std::size_t kRawType = 8 + 6 * 8 + 4;
  records_[at + kRawType] = std::byte{1};
  append_lost(records_, {.id = test::kToAnotherId, .lost = 5}, test::made_trailer(1, 3000));
  append_lost(records_, {.id = test::kClockId, .lost = 7}, test::made_trailer(1, 3000));
  const SchedProfile profile = read();
  EXPECT_EQ(profile.malformed, 1U);
  EXPECT_EQ(profile.switches, 1U);
  EXPECT_EQ(profile.lost, 5U);
}

TEST(Sched, OfAFileWithoutSwitchesIsAnError) {
  RecordBuffer records;
  test::append_switch(records, {.time_ns = 1000});
  const auto profile = SchedProfile::read(test::made_file(records), {});
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().errno_value(), ENODEV);
}

TEST(Sched, OfAFileInWhichNothingWasSwitched) {
  RecordBuffer records;
  test::append_sample(records, {.time_ns = 1000});
  const auto profile = SchedProfile::read(sched_file(records), {});
  ASSERT_TRUE(profile) << profile.error().what;
  EXPECT_THAT(profile->threads, IsEmpty());
  EXPECT_THAT(profile->rows, IsEmpty());
}

// A machine with some CPUs and more threads: what each thread did is known, and its switches are recorded.
class SimulatedMachine {
 public:
  struct Times {
    std::uint64_t run = 0, preempted = 0, blocked = 0, slept = 0, delayed = 0;
    friend bool operator==(const Times&, const Times&) = default;
  };
  explicit SimulatedMachine(std::uint64_t seed) : random_(seed) {}

  void go_on(std::size_t steps) {
    for (std::size_t i = 0; i < steps; ++i) {
      time_ns_ += 1 + random_() % 1000;
      const auto cpu = static_cast<std::uint32_t>(random_() % kCpus);
      if (random_() % 3 == 0)
        wake_one(cpu);
      else
        switch_on(cpu);
    }
  }
  std::vector<RecordBuffer> records;
  std::map<std::uint32_t, Times> times;  // by tid; what has ended

 private:
  static constexpr std::uint32_t kCpus = 3, kThreads = 12;
  struct Task {
    char state = '-';  // R: on no CPU; r: runs
    EventTime since_ns = 0, woken_ns = 0;
  };
  void wake_one(std::uint32_t cpu) {
    const auto tid = static_cast<std::uint32_t>(1 + random_() % kThreads);
    Task& task = tasks_[tid];
    if ((task.state != 'S' && task.state != 'D') || task.woken_ns != 0) return;
    task.woken_ns = time_ns_;
    append_wakeup(records.emplace_back(), {.time_ns = time_ns_, .cpu = cpu, .tid = tid});
  }
  // A thread that can run; 0: an idle task.
  std::uint32_t next_one() {
    const auto first = static_cast<std::uint32_t>(random_() % (kThreads + 3));
    for (std::uint32_t i = 0; i < kThreads && first < kThreads; ++i) {
      const std::uint32_t tid = 1 + (first + i) % kThreads;
      if (tasks_[tid].state == '-' || tasks_[tid].state == 'R' || tasks_[tid].woken_ns != 0) return tid;
    }
    return 0;
  }
  void switch_on(std::uint32_t cpu) {
    const std::uint32_t prev = running_[cpu], next = next_one();
    if (prev == next) return;
    constexpr std::uint16_t kStates[] = {kStateR, kPreempted, kStateS, kStateD};
    const std::size_t choice = prev == 0 ? 0 : random_() % 4;
    append_to_another(records.emplace_back(),
                      {.time_ns = time_ns_, .cpu = cpu, .prev = prev, .state = kStates[choice], .next = next});
    if (prev != 0) {
      times[prev].run += time_ns_ - tasks_[prev].since_ns;
      tasks_[prev] = {.state = "RRSD"[choice], .since_ns = time_ns_};
    }
    if (next != 0) {
      const Task& task = tasks_[next];
      Times& sums = times[next];
      if (task.state != '-')
        (task.state == 'R'   ? sums.preempted
         : task.state == 'D' ? sums.blocked
                             : sums.slept) += time_ns_ - task.since_ns;
      if (task.woken_ns != 0) sums.delayed += time_ns_ - task.woken_ns;
      tasks_[next] = {.state = 'r', .since_ns = time_ns_};
    }
    running_[cpu] = next;
  }

  std::mt19937_64 random_;
  EventTime time_ns_ = 1'000'000;
  std::map<std::uint32_t, Task> tasks_;
  std::map<std::uint32_t, std::uint32_t> running_;
};

// In any order in the file.
TEST(Sched, HasTheTimesOfASimulatedMachine) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SimulatedMachine machine(seed);
    machine.go_on(3000);
    std::mt19937_64 random(seed);
    std::shuffle(machine.records.begin(), machine.records.end(), random);
    RecordBuffer records;
    for (const RecordBuffer& one : machine.records) records.insert(records.end(), one.begin(), one.end());
    const auto profile = SchedProfile::read(sched_file(records), {.count_what_goes_on = false});
    ASSERT_TRUE(profile) << profile.error().what;
    EXPECT_EQ(profile->threads.size(), machine.times.size());
    for (const SchedThread& one : profile->threads) {
      const SimulatedMachine::Times mine{.run = one.run.total_ns,
                                         .preempted = one.preempted.total_ns,
                                         .blocked = one.blocked.total_ns,
                                         .slept = one.slept.total_ns,
                                         .delayed = one.delayed.total_ns};
      EXPECT_EQ(mine, machine.times[one.tid]) << one.tid;
      EXPECT_EQ(one.waited.total_ns, mine.preempted + mine.delayed);
      EXPECT_EQ(one.waited.unsure + one.run.unsure, 0U);
    }
    for (const SchedCpu& cpu : profile->cpus) EXPECT_EQ(cpu.breaks, 0U);
  }
}

// An answer or an error.
TEST_F(SchedTest, HostileBytes) {
  for (EventTime i = 1; i <= 20; ++i) {
    to(1000 * i, 0, 10, kPreempted, 11);
    wake(1000 * i + 100, 0, 10);
    to(1000 * i + 500, 0, 11, kStateD, 10);
  }
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    RecordBuffer records = records_;
    for (std::uint64_t i = 0; i < 1 + random() % 8; ++i) {
      const std::size_t at = random() % records.size();
      records[at] = static_cast<std::byte>(random());
    }
    // Records keep their sizes, so that the file is whole.
    for (std::size_t at = 0; at < records_.size(); at += load<std::uint16_t>(records_.data() + at + 6))
      std::copy_n(records_.data() + at + 6, sizeof(std::uint16_t), records.data() + at + 6);
    const auto profile = SchedProfile::read(sched_file(records), {.most_records = 30});
    if (!profile) continue;
    EXPECT_LE(profile->rows.size(), 20U);
  }
}

}  // namespace
}  // namespace flight
