// SPDX-License-Identifier: Apache-2.0
// flightctl sched: threads with known times.
#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "ctl/sched_text.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kNsOfSecond = 1'000'000'000;

// Nine seconds of two CPUs: 10 waits four of them for 11, and is blocked in the last three.
class FlightctlSchedTest : public FlightctlTest {
 protected:
  FlightctlSchedTest() {
    std::filesystem::remove(data_);
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_TRUE(file);
    if (file) write_sched_file(file->get(), records());
    bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
      Sidecar sidecar = full_sidecar(id, data_);
      if (parameters.reason == "without holes") sidecar.holes.clear();
      sidecar.metrics.emplace().recent = {
          .begin_ns = kNsOfSecond,
          .step_ns = kNsOfSecond,
          .values = {{"psi.io.some", {0, 0, 0, 0, 0, 0, 0, 50, 75, 50}}, {"cpu.busy", {1, 2, 3}}}};
      return to_json(sidecar);
    };
  }
  static RecordBuffer records() {
    RecordBuffer out;
    for (const MadeSwitch& one : std::vector<MadeSwitch>{{2 * kNsOfSecond, 0, 0, kStateR, 10},
                                                         {3 * kNsOfSecond, 0, 10, kPreempted, 11},
                                                         {7 * kNsOfSecond, 0, 11, kStateS, 10},
                                                         {8 * kNsOfSecond, 0, 10, kStateD, 0},
                                                         {2 * kNsOfSecond, 1, 0, kStateR, 12},
                                                         {4 * kNsOfSecond, 1, 12, kStateS, 0}})
      append_to_another(out, one);
    return out;
  }
  void run_with_a_snapshot(const std::string& reason = "without holes") {
    run();
    ASSERT_EQ(ctl({"snapshot", "--reason", reason}).code, 0);
  }
};

TEST_F(FlightctlSchedTest, ShowsWhoWaitedAndWhoRan) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"sched", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out,
              testing::StartsWith("Snapshot 1, scheduling: the 9.00 s up to 2026-11-20 03:12:04, 6 switch"));
  EXPECT_THAT(outcome.out, ContainsRegex("they ran 8.00 s,[ \n]waited 4.00 s"));
  EXPECT_THAT(outcome.out, ContainsRegex("task-10\\[10\\] +2.00 s +4.00 s +4.00 s +03:11:56.000 +3.00 s +-\n"));
  EXPECT_THAT(outcome.out, ContainsRegex("task-12\\[12\\] +2.00 s +- +- +- +- +7.00 s\n"));
  EXPECT_THAT(outcome.out, HasSubstr("who ran on their CPUs instead:\n  task-10[10]: task-11[11] 4.00 s\n"));
  EXPECT_THAT(outcome.out,
              ContainsRegex("blocked \\(state D\\):\n.*\n  task-10\\[10\\] +3.00 s +1 +3.00 s\\+ +03:12:01.000"));
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("threads in state D, at most 1.0 at once\n"), HasSubstr("psi.io.some, 0 % .. 75 %\n"),
                    Not(HasSubstr("cpu.busy")), HasSubstr("+: it goes on at the end")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("~")));
}

// In the last two seconds of a time: 10 ran after 11; and 12 ran, then its CPU was idle.
TEST_F(FlightctlSchedTest, ShowsWhoRanOnEachCpu) {
  run_with_a_snapshot();
  const std::string out = ctl({"sched", "1", "--until=-3s"}).out;
  EXPECT_THAT(out, HasSubstr("\nwho ran on each CPU from 03:11:59.000 on, a cell is 29.4 ms:\n  CPU 0    " +
                             std::string(34, 'B') + std::string(34, 'A') + "\n  1 CPU not shown: less busy\n"));
  EXPECT_THAT(out, HasSubstr("\n  A task-10[10] 1.00 s, B task-11[11] 1.00 s, . idle, + others, ? not known\n"));
  EXPECT_THAT(ctl({"sched", "1", "--until=-6s"}).out,
              HasSubstr("\n  CPU 0    " + std::string(68, 'A') + "\n  CPU 1    " + std::string(34, 'B') +
                        std::string(34, '.') + "\n  A task-11[11] 2.00 s, B task-12[12] 1.00 s, "));
}

TEST_F(FlightctlSchedTest, SaysWhatIsNotKnown) {
  run_with_a_snapshot("with a hole");
  const std::string out = ctl({"sched", "--since", "2026-11-20T03:11:54Z"}).out;
  EXPECT_THAT(out, AllOf(HasSubstr("\nnot known:\n"), HasSubstr("only those of real-time"),
                         HasSubstr("switches have no stacks"), HasSubstr("before 2026-11-20 03:11:55"),
                         ContainsRegex("in holes, 42 us of CPU 1"), HasSubstr("~4.00 s")));
}

TEST_F(FlightctlSchedTest, OfAPartOfTheTime) {
  run_with_a_snapshot();
  const std::string out = ctl({"sched", "1", "--since=-6s", "--until=-5s", "-n", "1"}).out;
  EXPECT_THAT(out, AllOf(ContainsRegex("task-10\\[10\\] +- +1.00 s +1.00 s\\+ +03:11:58.000 +- +-\n"),
                         HasSubstr("  2 threads not shown"), HasSubstr("no thread was in state D")));
  EXPECT_EQ(ctl({"sched", "1", "--since=-1s", "--until=-2s"}).code, 2);
}

TEST_F(FlightctlSchedTest, JsonHasAll) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"--json", "sched", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto said = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << outcome.out;
  EXPECT_EQ(said["id"], "1");
  EXPECT_EQ(said["begin_ns"], 2 * kNsOfSecond);
  EXPECT_EQ(said["end_ns"], 11 * kNsOfSecond);
  EXPECT_EQ(said["switches"], 6);
  EXPECT_EQ(said["wakeups_of"], "real-time");
  EXPECT_EQ(said["stacks"], false);
  ASSERT_EQ(said["threads"].size(), 3U);
  const auto& first = said["threads"][0];
  EXPECT_EQ(first["tid"], 10);
  EXPECT_EQ(first["pid"], 10);
  EXPECT_EQ(first["comm"], "task-10");
  EXPECT_EQ(first["state"], "blocked");
  EXPECT_EQ(first["wait"]["ns"], 4 * kNsOfSecond);
  EXPECT_EQ(first["wait"]["longest_begin_ns"], 3 * kNsOfSecond);
  EXPECT_EQ(first["preempted"], first["wait"]);
  EXPECT_EQ(first["delay"]["count"], 0);
  EXPECT_EQ(first["blocked"]["longest_goes_on"], true);
  EXPECT_EQ(first["instead"][0]["comm"], "task-11");
  EXPECT_EQ(first["instead"][0]["ns"], 4 * kNsOfSecond);
  EXPECT_EQ(said["blocked"].size(), 1U);
  EXPECT_EQ(said["blocked_over_time"]["begin_ns"], 2 * kNsOfSecond);
  EXPECT_EQ(said["blocked_over_time"]["threads"].back(), 1.0);
  EXPECT_EQ(said["cpus"][1]["run_ns"], 2 * kNsOfSecond);
  EXPECT_EQ(said["cpus"][1]["idle_ns"], 7 * kNsOfSecond);
  EXPECT_FALSE(said["notes"].empty());
}

TEST_F(FlightctlSchedTest, ASnapshotWithoutSwitchesSaysWhatToRecord) {
  std::filesystem::remove(data_);
  {
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_TRUE(file);
    RecordBuffer records;
    test::append_sample(records, {.time_ns = 1000});
    write_made_file(file->get(), records);
  }
  run_with_a_snapshot();
  const Outcome outcome = ctl({"sched"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("snapshot 1 cannot show who waited"), HasSubstr("{\"profile\": \"sched\"}"),
                                 HasSubstr("and run `flightctl reload`")));
  EXPECT_EQ(error_of(ctl({"--json", "sched"})), "io.flightd.Client.OutputFailed");
}

TEST_F(FlightctlSchedTest, AnErrorNamesTheSnapshot) {
  {
    std::fstream file(data_, std::ios::in | std::ios::out | std::ios::binary);
    std::int64_t records_at = 0;
    file.seekg(40);  // in the file's header: where the data begins
    file.read(reinterpret_cast<char*>(&records_at), sizeof records_at);
    file.seekp(records_at + 6);
    file.write("\0\0", 2);  // the size of the first record
    ASSERT_TRUE(file);
  }
  run_with_a_snapshot();
  const Outcome outcome = ctl({"sched"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("snapshot 1: the record at byte 0 of the data is truncated"));
}

TEST(SchedNotes, SayHowManyStretchesAreLeftOut) {
  SchedProfile profile;
  profile.lanes = SchedLanes({.begin_ns = 0, .end_ns = 100}, {.least_off_ns = 1, .most_off = 2});
  for (const EventTime begin : {10U, 20U, 30U})
    profile.lanes.off({.begin_ns = begin, .end_ns = begin + 5, .thread = 1, .state = SchedState::runnable});
  profile.lanes.arrange();
  EXPECT_THAT(ctl::sched_notes(Sidecar(), profile, true),
              testing::Contains("1 stretch off the CPUs: there are too many, and the longest are kept"));
  EXPECT_THAT(ctl::sched_notes(Sidecar(), SchedProfile(), true), Not(testing::Contains(HasSubstr("off the CPUs:"))));
}

TEST(SchedText, TimesAreShort) {
  EXPECT_EQ(ctl::ns_text(0), "-");
  EXPECT_EQ(ctl::ns_text(3), "1 us");
  EXPECT_EQ(ctl::ns_text(345'600), "346 us");
  EXPECT_EQ(ctl::ns_text(12'340'000), "12.3 ms");
  EXPECT_EQ(ctl::ns_text(4'812'000'000), "4.81 s");
  EXPECT_EQ(ctl::ns_text(123'456'000'000), "123 s");
}

}  // namespace
}  // namespace flight
