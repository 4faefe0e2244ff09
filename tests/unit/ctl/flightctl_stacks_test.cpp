// SPDX-License-Identifier: Apache-2.0
// flightctl stacks: a call tree with known values, now and before.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "ctl/stacks_text.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kSecond = 1'000'000'000;

// Before: 4 s, now: 6 s. A hundred samples are a second of a CPU, those of the helper three.
class StacksTest : public FlightctlTest {
 protected:
  StacksTest() {
    std::filesystem::remove(data_);
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_TRUE(file);
    if (file) write_made_file(file->get(), records());
    bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
      Sidecar sidecar = full_sidecar(id, data_);
      if (parameters.reason != "alone")
        sidecar.compared =
            SidecarCompared{.before_begin_ns = 1 * kSecond, .now_begin_ns = 5 * kSecond, .now_end_ns = 11 * kSecond};
      return to_json(sidecar);
    };
  }
  static RecordBuffer records() {
    RecordBuffer out;
    append_cgroup(out, {.id = 5, .path = "/system.slice/web.service"}, {});
    append_comm(out, {.pid = 10, .tid = 10, .name = "server"}, {});
    append_comm(out, {.pid = 10, .tid = 11, .name = "helper"}, {});
    append_mmap2(out, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/no/where/a"}, {});
    for (std::uint64_t i = 0; i < 100; ++i) {
      for (const std::uint64_t second : {2U, 6U, 7U, 8U})
        append_sample(out, {.cpu = 1,
                            .time_ns = second * kSecond + i,
                            .ip = 0x400010,
                            .chain = {static_cast<std::uint64_t>(PERF_CONTEXT_USER), 0x400010, 0x400020},
                            .period = kSecond / 100,
                            .cgroup = 5});
      append_sample(out, {.tid = 11, .time_ns = 9 * kSecond + i, .ip = 0x400030, .period = 3 * kSecond / 100});
    }
    append_switch(out, {.time_ns = 7 * kSecond, .ip = 0x400040});
    append_switch(out, {.tid = 11, .time_ns = 3 * kSecond, .ip = 0x400040});
    return out;
  }
  void run_with_a_snapshot(const std::string& reason = "why") {
    run();
    ASSERT_EQ(ctl({"snapshot", "--reason", reason}).code, 0);
  }
};

TEST_F(StacksTest, ShowsNowAndBefore) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"stacks", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out,
            "Snapshot 1, CPUs of cpu-clock: now is the 6.0 s up to 2026-11-20 03:12:04,\n"
            "before is the 4.0 s before that.\n"
            "     now  before\n"
            "    1.00    0.25  all\n"
            "    0.50    0.25    server → a+0x20 → a+0x10\n"
            "    0.50    0.00    helper → a+0x30\n");
  EXPECT_THAT(outcome.err, HasSubstr("flightctl: kernel functions have no names"));
}

TEST_F(StacksTest, InTheOrderOfTheChange) {
  run_with_a_snapshot();
  EXPECT_THAT(ctl({"stacks", "--diff"}).out, HasSubstr("     now  before  change\n"
                                                       "    1.00    0.25   +0.75  all\n"
                                                       "    0.50    0.00   +0.50    helper → a+0x30\n"
                                                       "    0.50    0.25   +0.25    server → a+0x20 → a+0x10\n"));
  const Outcome helper = ctl({"--json", "stacks", "--diff", "--comm=helper"});
  const auto said = nlohmann::json::parse(helper.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << helper.out;
  EXPECT_EQ(said["rows"][0]["noise"], false);
  const std::string before = ctl({"stacks", "--before"}).out;
  EXPECT_THAT(before, AllOf(HasSubstr("server"), Not(HasSubstr("helper"))));
}

// A switch in four seconds, and one in six.
TEST_F(StacksTest, NoiseIsNoChange) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"stacks", "--diff", "--event", "context-switches"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("     now  before  change\n  100.0%  100.0%  ~+0.0%  all\n"),
                                 HasSubstr("no change is larger than noise"), Not(HasSubstr("server"))));
}

TEST_F(StacksTest, SharesIfTheyAreAskedFor) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"stacks", "1", "--shares"});
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("shares of cpu-clock"),
                                 HasSubstr("  100.0%  100.0%  all\n"
                                           "   50.0%  100.0%    server"),
                                 HasSubstr("   50.0%    0.0%    helper")));
  const auto said = nlohmann::json::parse(ctl({"--json", "stacks", "1", "--shares"}).out, nullptr, false);
  ASSERT_TRUE(said.is_object());
  EXPECT_EQ(said["unit"], "share");
}

// A hole of one CPU.
TEST_F(StacksTest, SaysThatTimeIsMissing) {
  bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters&) {
    Sidecar sidecar = full_sidecar(id, data_);
    sidecar.compared =
        SidecarCompared{.before_begin_ns = 1 * kSecond, .now_begin_ns = 5 * kSecond, .now_end_ns = 11 * kSecond};
    for (const std::uint64_t second : {1U, 2U, 3U})
      sidecar.holes.push_back({"stacks", 1, second * kSecond, second * kSecond + kSecond / 4, 2});
    return to_json(sidecar);
  };
  run_with_a_snapshot();
  EXPECT_THAT(ctl({"stacks", "1"}).err,
              AllOf(HasSubstr("there are holes in the time before: of CPU 1, 750 ms"), Not(HasSubstr("the time now"))));
  EXPECT_THAT(ctl({"stacks", "1", "--since=-5s"}).err, Not(HasSubstr("holes")));
}

TEST_F(StacksTest, OfAPartOfTheTime) {
  run_with_a_snapshot();
  for (const char* since : {"--since=2026-11-20T03:12:00Z", "--since=-4s"})
    EXPECT_THAT(ctl({"stacks", "1", since}).out,
                AllOf(HasSubstr("the 4.0 s up to 2026-11-20 03:12:04"), HasSubstr("    CPUs\n    1.25  all\n"
                                                                                  "    0.75    helper → a+0x30\n"
                                                                                  "    0.50    server")));
  const Outcome nothing = ctl({"stacks", "1", "--since=-1s", "--until=-2s"});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("nothing between these times"));
  EXPECT_EQ(ctl({"stacks", "1", "--diff", "--since=-4s"}).code, 2);
  EXPECT_THAT(ctl({"stacks", "1", "--since=2026-11-20T03:11:54Z"}).err, HasSubstr("not all CPUs have samples"));
}

// One that has too little of the time before.
TEST_F(StacksTest, WithoutAComparison) {
  run_with_a_snapshot("alone");
  const Outcome outcome = ctl({"stacks"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("    CPUs\n    0.78  all\n")) << "7 s in 9";
  const Outcome diff = ctl({"stacks", "--diff"});
  EXPECT_EQ(diff.code, 2);
  EXPECT_THAT(diff.err, HasSubstr("too little of the time before"));
}

TEST_F(StacksTest, OfSomeSamplesOnly) {
  run_with_a_snapshot();
  for (const char* some : {"--comm=helper", "--thread=11", "--cpu=0"})
    EXPECT_THAT(ctl({"stacks", "1", some}).out, AllOf(HasSubstr("helper"), Not(HasSubstr("server")))) << some;
  for (const char* some : {"--comm=serv*", "--thread=10", "--cpu=1", "-uweb", "--unit=web.service"})
    EXPECT_THAT(ctl({"stacks", "1", some}).out, AllOf(HasSubstr("server"), Not(HasSubstr("helper")))) << some;
  EXPECT_EQ(ctl({"stacks", "1", "--cpu", "x"}).code, 2);
  EXPECT_EQ(ctl({"stacks", "1", "--event", "cycles"}).code, 2);
  const std::string one = ctl({"stacks", "1", "-n", "1"}).out;
  EXPECT_THAT(one, AllOf(HasSubstr("server"), Not(HasSubstr("helper")), HasSubstr("1 smaller row not shown")));
}

// An event that is no clock has shares.
TEST_F(StacksTest, OfAnotherEvent) {
  run_with_a_snapshot();
  EXPECT_THAT(ctl({"stacks", "1", "--event", "context-switches"}).out,
              AllOf(HasSubstr("shares of context-switches"), HasSubstr("  100.0%  100.0%  all\n"
                                                                       "  100.0%    0.0%    server → a+0x40\n")));
}

TEST_F(StacksTest, Inverted) {
  run_with_a_snapshot();
  EXPECT_THAT(ctl({"stacks", "1", "--inverted"}).out, HasSubstr("    1.00    0.25  all\n"
                                                                "    0.50    0.25    a+0x10 → a+0x20 → server\n"
                                                                "    0.50    0.00    a+0x30 → helper\n"));
}

TEST_F(StacksTest, JsonHasTheSame) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"--json", "stacks", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto said = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << outcome.out;
  EXPECT_EQ(said["id"], "1");
  EXPECT_EQ(said["event"], "cpu-clock");
  EXPECT_EQ(said["unit"], "cpus");
  EXPECT_EQ(said["now"]["begin_ns"], 5 * kSecond);
  EXPECT_EQ(said["before"]["end_ns"], 5 * kSecond);
  ASSERT_EQ(said["rows"].size(), 3U);
  EXPECT_EQ(said["rows"][0]["depth"], 0);
  EXPECT_DOUBLE_EQ(said["rows"][0]["now"].get<double>(), 1.0);
  EXPECT_DOUBLE_EQ(said["rows"][0]["before"].get<double>(), 0.25);
  EXPECT_EQ(said["rows"][1]["samples"], 400);
  EXPECT_EQ(said["rows"][1]["frames"], nlohmann::json::parse(R"([{"name": "server", "object": ""},
                                      {"name": "a+0x20", "object": "a", "kind": "user"},
                                      {"name": "a+0x10", "object": "a", "kind": "user"}])"));
  EXPECT_EQ(said["left_out"], 0);
  EXPECT_FALSE(said["notes"].empty());
}

// `info` ends with the paths that changed most, if the file can be read in place, and is small.
TEST_F(StacksTest, InfoHasWhatChangedMost) {
  bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
    Sidecar sidecar = full_sidecar(id, data_);
    sidecar.size_bytes = parameters.reason == "elsewhere" ? 1 : std::filesystem::file_size(data_);
    sidecar.fired.reset();
    sidecar.warnings.clear();
    if (parameters.reason == "large") sidecar.raw_bytes = (32U << 20U) + 1;
    if (parameters.reason != "alone")
      sidecar.compared =
          SidecarCompared{.before_begin_ns = 1 * kSecond, .now_begin_ns = 5 * kSecond, .now_end_ns = 11 * kSecond};
    return to_json(sidecar);
  };
  run_with_a_snapshot();
  const std::string page = ctl({"info", "1"}).out;
  EXPECT_THAT(page, HasSubstr("\nchanged most, in CPUs, before and now (`flightctl stacks 1 --diff` has all):\n"
                              "    0.00 →   0.50  helper → a+0x30\n"
                              "    0.25 →   0.50  server → a+0x20 → a+0x10\n"
                              "\nto look into it:\n"));
  std::string brief = on_terminal({"info", "1"}, {"TERM=dumb"}).out;
  std::erase(brief, '\r');
  EXPECT_LT(std::count(brief.begin(), brief.end(), '\n'), 24) << brief;
  EXPECT_THAT(brief, AllOf(HasSubstr("  helper → a+0x30\n"), HasSubstr("top processes:")));

  for (const auto& [reason, why] : {std::pair("large", "32.0M without compression, more than 32.0M"),
                                    std::pair("elsewhere", "the file cannot be read in its place")}) {
    ASSERT_EQ(ctl({"snapshot", "--reason", reason}).code, 0);
    std::string said = ctl({"info"}).out;
    std::replace(said.begin(), said.end(), '\n', ' ');
    EXPECT_THAT(said, AllOf(HasSubstr("What changed most is not read here: "), HasSubstr(why),
                            HasSubstr("--diff` shows it"), Not(HasSubstr("helper →"))));
  }
  ASSERT_EQ(ctl({"snapshot", "--reason", "alone"}).code, 0);
  EXPECT_THAT(ctl({"info"}).out, Not(HasSubstr("hanged most")));
  EXPECT_THAT(ctl({"info", "1", "2"}).out, Not(HasSubstr("hanged most"))) << "of several, no file is read";
}

TEST(StacksText, AChainIsCutInItsMiddle) {
  const ctl::Screen screen(false, 80);
  const std::vector<std::string> names{"server", "main", "loop", "work", "read"};
  EXPECT_EQ(ctl::chain_text(names, 80, screen), "server > main > loop > work > read");
  EXPECT_EQ(ctl::chain_text(names, 34, screen), "server > main > loop > work > read");
  EXPECT_EQ(ctl::chain_text(names, 33, screen), "server > (2 more) > work > read");
  EXPECT_EQ(ctl::chain_text(names, 25, screen), "server > (3 more) > read");
  EXPECT_LE(ctl::chain_text(names, 10, screen).size(), 10U);
  EXPECT_EQ(ctl::chain_text({"one"}, 80, screen), "one");
  EXPECT_EQ(ctl::chain_text({"a\x1b[2J", "b"}, 80, screen), "a?[2J > b");
  EXPECT_EQ(ctl::chain_text({}, 80, screen), "");
}

}  // namespace
}  // namespace flight
