// SPDX-License-Identifier: Apache-2.0
// flightctl record, and what the other commands do with the parts of a recording.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "libcore/control/record_messages.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/daemon/patience.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

// A flightctl that runs beside the test.
class RecordTest : public FlightctlTest {
 protected:
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  void begin(std::vector<std::string> words) {
    words.insert(words.begin(), {test::flightctl(), "--socket", bench.socket(), "record"});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 1, path("record.out").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::posix_spawn_file_actions_addopen(&actions, 2, path("record.err").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawnattr_t as_usual;  // the test may run in the background, where SIGINT is ignored
    sigset_t all;
    ::sigfillset(&all);
    ASSERT_EQ(::posix_spawnattr_init(&as_usual), 0);
    ASSERT_EQ(::posix_spawnattr_setsigdefault(&as_usual, &all), 0);
    ASSERT_EQ(::posix_spawnattr_setflags(&as_usual, POSIX_SPAWN_SETSIGDEF), 0);
    ASSERT_EQ(::posix_spawn(&pid_, test::flightctl().c_str(), &actions, &as_usual, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&as_usual);
  }
  Outcome end() {
    int status = -1;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(path("record.out")), text_of(path("record.err"))};
  }
  [[nodiscard]] std::string path(const std::string& name) const { return bench.folder() + "/" + name; }
  static CatalogueRow part(const std::string& id, std::uint64_t number, const std::string& first,
                           std::optional<std::string> ended) {
    CatalogueRow row;
    row.id = id;
    row.path = "/s/" + id;
    row.time = "2026-11-20T03:12:04.123Z";
    row.trigger = "record";
    row.size_bytes = 1024;
    row.samples = 10;
    row.seconds = 1.5;
    row.record = SidecarRecord{.first = first, .part = number, .ended = std::move(ended)};
    return row;
  }
  void report_parts() {
    CatalogueRow other;
    other.id = "8";
    other.path = "/s/8";
    other.trigger = "manual";
    bench.backend.rows_to_report =
        to_json(std::vector{part("7", 1, "7", std::nullopt), other, part("9", 2, "7", "killed")});
  }

  pid_t pid_ = -1;
};

TEST_F(RecordTest, CtrlCEndsItInOrderAndEachPartIsCopiedAsItEnds) {
  bench.backend.progress_to_report.finished = {"7"};
  bench.backend.result_to_report.progress.finished = {"7", "9"};
  run();
  ASSERT_NO_FATAL_FAILURE(begin({"--past", "1min", "--channel", "stacks", "--channel", "sched", "--reason", "slow",
                                 "--max-size", "1G", "--layout", "directory", "-o", path("copy")}));
  ASSERT_TRUE(soon([this] { return std::filesystem::exists(path("copy")); })) << "while it runs";
  EXPECT_FALSE(std::filesystem::exists(path("copy.2")));
  ::kill(pid_, SIGINT);
  const Outcome outcome = end();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("ended:"), HasSubstr("asked"), HasSubstr("/nowhere")));
  EXPECT_EQ(text_of(path("copy")), bytes_of_data());
  EXPECT_EQ(text_of(path("copy.2")), bytes_of_data());
  const RecordParameters asked = bench.on_loop([this] { return bench.backend.last_record; });
  EXPECT_EQ(asked.past_ns, 60'000'000'000U);
  EXPECT_FALSE(asked.for_ns);
  EXPECT_EQ(asked.max_bytes, 1U << 30U);
  EXPECT_FALSE(asked.part_bytes);
  EXPECT_THAT(asked.channels, testing::ElementsAre("stacks", "sched"));
  EXPECT_EQ(asked.layout, "directory");
  EXPECT_EQ(asked.reason, "slow");
}

// The first one waits for a disk that hangs.
TEST_F(RecordTest, TheSecondCtrlCEndsFlightctlAtOnce) {
  bench.backend.answer_stops = false;
  run();
  ASSERT_NO_FATAL_FAILURE(begin({}));
  ASSERT_TRUE(soon([this] { return bench.backend.record_steps >= 1; }));
  ::kill(pid_, SIGINT);
  ASSERT_TRUE(soon([this] { return bench.backend.stops_asked >= 1; }));
  ::kill(pid_, SIGINT);
  int status = 0;
  ASSERT_TRUE(soon([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }));
  pid_ = -1;
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

TEST_F(RecordTest, AnotherFlightctlStopsIt) {
  run();
  ASSERT_NO_FATAL_FAILURE(begin({}));
  ASSERT_TRUE(soon([this] { return bench.backend.record_steps >= 1; }));
  EXPECT_EQ(error_of(ctl({"--json", "record", "--stop", "8"})), "io.flightd.Recorder.NoSuchRecording");
  const Outcome stopped = ctl({"--json", "record", "--stop", "7"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_EQ(nlohmann::json::parse(stopped.out)["id"], "7");
  const Outcome outcome = end();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("/nowhere"));
}

TEST_F(RecordTest, AKilledClientEndsItsRecording) {
  run();
  ASSERT_NO_FATAL_FAILURE(begin({}));
  ASSERT_TRUE(soon([this] { return bench.backend.record_steps >= 1; }));
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  EXPECT_TRUE(soon([this] { return bench.backend.client_left.load(); }));
}

TEST_F(RecordTest, AnEarlyEndIsAnError) {
  bench.backend.result_to_report.ended = "disk";
  run();
  ASSERT_NO_FATAL_FAILURE(begin({}));
  ASSERT_TRUE(soon([this] { return bench.backend.record_steps >= 1; }));
  EXPECT_EQ(ctl({"record", "--stop", "7"}).code, 1);
  const Outcome outcome = end();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ended early (disk)"));
  EXPECT_THAT(outcome.out, HasSubstr("/nowhere")) << "what there is";
}

TEST_F(RecordTest, ARefusalIsAnError) {
  bench.backend.refuse_recording = recording_refused("two run already");
  run();
  EXPECT_EQ(error_of(ctl({"--json", "record"})), "io.flightd.Recorder.RecordingRefused");
  std::ofstream(path("there")) << "old";
  EXPECT_THAT(ctl({"record", "-o", path("there")}).err, HasSubstr("--force overwrites it"));
  EXPECT_THAT(ctl({"record", "--stop", "latest"}).err, HasSubstr("`flightctl status` shows those that run"));
}

TEST_F(RecordTest, TheListHasOneLineForEachRecording) {
  report_parts();
  run();
  const Outcome plain = ctl({"list"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(std::count(plain.out.begin(), plain.out.end(), '\n'), 3) << plain.out;
  EXPECT_THAT(plain.out, AllOf(HasSubstr("present, 2 parts, killed"), HasSubstr("2.0K"), HasSubstr("3.0")));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "list"}).out).size(), 3U) << "each part";
}

TEST_F(RecordTest, TheFirstPartsIdIsThatOfAll) {
  report_parts();
  run();
  const Outcome both = ctl({"get", "7", "-o", path("all")});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, path("all") + "\n" + path("all") + ".2\n");
  EXPECT_EQ(text_of(path("all.2")), bytes_of_data());
  EXPECT_EQ(ctl({"get", "9", "-o", path("second")}).out, path("second") + "\n");
  const Outcome refused = ctl({"get", "7", "-o", "-"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("2 parts"));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(ctl({"snapshot"}).code, 0);
  EXPECT_EQ(ctl({"pin", "7"}).out, "pinned 7\npinned 9\n");
  const int lists = bench.backend.lists;
  EXPECT_EQ(ctl({"remove", "7", "9"}).out, "removed 7\nremoved 9\n") << "each once";
  EXPECT_EQ(bench.backend.lists, lists + 1) << "a list may have 10,000 snapshots";
}

TEST_F(RecordTest, AFileHasTheNumberOfItsPart) {
  bench.backend.rows_to_report = to_json(std::vector{part("9", 2, "7", std::nullopt), part("10", 3, "7", "asked")});
  run();
  std::ofstream(path("all.3")) << "old";
  const Outcome refused = ctl({"get", "7", "-o", path("all")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("all.3"));
  EXPECT_FALSE(std::filesystem::exists(path("all.2"))) << "nothing is copied in part";
  std::filesystem::remove(path("all.3"));
  const Outcome both = ctl({"get", "7", "-o", path("all")});
  EXPECT_EQ(both.out, path("all") + ".2\n" + path("all") + ".3\n") << both.err;
  EXPECT_FALSE(std::filesystem::exists(path("all"))) << "the first one was vacuumed";
}

}  // namespace
}  // namespace flight
