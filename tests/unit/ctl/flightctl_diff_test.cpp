// SPDX-License-Identifier: Apache-2.0
// flightctl diff: two snapshots with known values.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/profile/made_file.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kDiffSecond = 1'000'000'000;

// The first is of 9 s, of which the server has 9 s of a CPU. The second is of 3 s: the server has 3 s, the same, and
// the helper 1.5 s.
class DiffTest : public FlightctlTest {
 protected:
  DiffTest() {
    bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
      const bool first = id == "1";
      const std::string path = bench.folder() + "/" + id + ".perf.data";
      std::filesystem::remove(path);
      const auto file = open_file(path, O_RDWR | O_CREAT | O_EXCL, 0600);
      EXPECT_TRUE(file);
      if (file) write_made_file(file->get(), records(first ? 900 : 300, first ? 0 : 150, parameters.reason == "odd"));
      Sidecar sidecar = full_sidecar(id, path);
      sidecar.size_bytes = std::filesystem::file_size(path);
      sidecar.common_window.begin_ns = 2 * kDiffSecond;
      sidecar.common_window.end_ns = (first ? 11 : 5) * kDiffSecond;
      if (parameters.reason == "short") sidecar.common_window.end_ns = sidecar.common_window.begin_ns;
      return to_json(sidecar);
    };
  }
  static RecordBuffer records(std::uint64_t server, std::uint64_t helper, bool other_comm) {
    RecordBuffer out;
    append_cgroup(out, {.id = 5, .path = "/system.slice/web.service"}, {});
    append_comm(out, {.pid = 10, .tid = 10, .name = other_comm ? "evil\x1b[2J;" : "server"}, {});
    append_comm(out, {.pid = 10, .tid = 11, .name = "helper"}, {});
    append_mmap2(out, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/no/where/a"}, {});
    const auto add = [&](std::uint64_t count, std::uint32_t tid, std::uint64_t ip, std::uint64_t cgroup) {
      for (std::uint64_t i = 0; i < count; ++i)
        append_sample(out, {.tid = tid,
                            .cpu = tid - 10,
                            .time_ns = 3 * kDiffSecond + i,
                            .ip = ip,
                            .period = kDiffSecond / 100,
                            .cgroup = cgroup});
    };
    add(server, 10, 0x400010, 5);
    add(helper, 11, 0x400020, 0);
    append_sample(out,
                  {.time_ns = 1 * kDiffSecond, .ip = 0x400010, .period = 5 * kDiffSecond, .cgroup = 5});  // outside
    return out;
  }
  void run_with_two(const std::string& reason = "why") {
    run();
    ASSERT_EQ(ctl({"snapshot"}).code, 0);
    ASSERT_EQ(ctl({"snapshot", "--reason", reason}).code, 0);
  }
};

TEST_F(DiffTest, OfSnapshotsOfUnequalLength) {
  run_with_two();
  const Outcome outcome = ctl({"diff", "1", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("CPUs of cpu-clock: now is the 3.0 s of snapshot 2 up to"),
                                 HasSubstr("before is the 9.0 s of snapshot 1 up to 2026-11-20 03:12:04.\n"),
                                 HasSubstr("     now  before  change\n"
                                           "    1.50    1.00   +0.50  all\n"
                                           "    0.50    0.00   +0.50    helper → a+0x20\n"),
                                 Not(HasSubstr("server"))));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("flightctl: snapshot 1: kernel functions have no names"),
                                 HasSubstr("flightctl: snapshot 2: kernel functions have no names")));
  EXPECT_THAT(ctl({"diff", "2", "1"}).out, HasSubstr("    0.00    0.50   -0.50    helper → a+0x20\n"))
      << "what is gone";
  EXPECT_THAT(ctl({"diff", "1", "latest", "--inverted"}).out, HasSubstr("   +0.50    a+0x20 → helper\n"));
}

TEST_F(DiffTest, OfSomeSamplesOnly) {
  run_with_two();
  for (const char* some : {"--comm=server", "--thread=10", "--cpu=0", "-uweb"})
    EXPECT_THAT(ctl({"diff", "1", "2", some}).out,
                AllOf(HasSubstr("    1.00    1.00  ~+0.00  all\n"), HasSubstr("no change is larger than noise\n")))
        << some;
  // With shares, what has not changed has less now.
  EXPECT_THAT(ctl({"diff", "1", "2", "--shares"}).out,
              AllOf(HasSubstr("Shares of cpu-clock"), HasSubstr("   66.7%  100.0%  -33.3%    server")));
}

TEST_F(DiffTest, JsonHasTheSame) {
  run_with_two("odd");
  const Outcome outcome = ctl({"--json", "diff", "1", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto said = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << outcome.out;
  EXPECT_EQ(said["now"]["id"], "2");
  EXPECT_EQ(said["before"]["id"], "1");
  EXPECT_EQ(said["before"]["end_ns"], 11 * kDiffSecond);
  EXPECT_EQ(said["event"], "cpu-clock");
  EXPECT_EQ(said["unit"], "cpus");
  ASSERT_EQ(said["rows"].size(), 4U);
  EXPECT_EQ(said["rows"][0]["noise"], false);
  const auto& rows = said["rows"];
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const auto& row) {
    return !row["frames"].empty() && row["frames"][0]["name"] == "evil\x1b[2J;";
  })) << "as it is: JSON escapes it";
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(ctl({"diff", "1", "2"}).out.find('\x1b'), std::string::npos);
}

TEST_F(DiffTest, SaysWhatIsWrong) {
  run_with_two("short");
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"diff"}, {"diff", "1"}, {"diff", "1", "1"}, {"diff", "2", "latest"}, {"diff", "1", "2", "3"}})
    EXPECT_EQ(ctl(wrong).code, 2) << wrong.back();
  const Outcome none = ctl({"diff", "1", "2"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("snapshot 2 has no time of which all CPUs have samples"));
  EXPECT_EQ(error_of(ctl({"--json", "diff", "98", "1"})), "io.flightd.Recorder.NoSuchSnapshot");
  const Outcome event = ctl({"diff", "2", "1", "--event", "cycles"});
  EXPECT_EQ(event.code, 2);
  EXPECT_THAT(event.err, HasSubstr("snapshot 1: the snapshot has no event 'cycles'"));
}

}  // namespace
}  // namespace flight
