// SPDX-License-Identifier: Apache-2.0
// flightctl snapshot -o, invalid replies, and text for terminals.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "ctl/output.hpp"
#include "libcore/base/bytes.hpp"
#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST_F(FlightctlTest, OutputCopiesTheBytes) {
  run();
  const std::string folder = bench.folder() + "/copies";
  std::filesystem::create_directory(folder);
  const std::string copy = folder + "/copy.perf.data";
  const Outcome outcome = ctl({"snapshot", "-o", copy});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("id:       1"));
  EXPECT_EQ(text_of(copy), bytes_of_data());
  struct stat found {};
  ASSERT_EQ(::stat(copy.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0640U);
  // Again, over the old file, through a link. The link stays a link.
  std::ofstream(copy) << "old";
  std::filesystem::create_symlink(copy, folder + "/link");
  EXPECT_EQ(ctl({"snapshot", "--force", "--output", folder + "/link"}).code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(folder + "/link"));
  EXPECT_EQ(text_of(copy), bytes_of_data());
  EXPECT_EQ(names_in(folder).size(), 2U) << "a temporary file stayed";
}

TEST_F(FlightctlTest, OutputToStdoutLeavesWordsToStderr) {
  run();
  const Outcome plain = ctl({"snapshot", "-o", "-"});
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.out, bytes_of_data());
  EXPECT_THAT(plain.err, HasSubstr("id:       1"));
  const Outcome json = ctl({"--json", "snapshot", "-o", "-"});
  EXPECT_EQ(json.out, bytes_of_data());
  EXPECT_EQ(nlohmann::json::parse(json.err)["id"], "2");
}

TEST_F(FlightctlTest, AnAnswerWaitsForItsReader) {
  const std::string text(1U << 20U, 'x');
  PipeThatDoesNotBlock pipe;
  std::FILE* const stream = ::fdopen(pipe.take_to().release(), "w");
  ASSERT_NE(stream, nullptr);
  auto printed = std::async(std::launch::async, [&] {
    const int code = flight::ctl::print(stream, text);
    std::fclose(stream);
    return code;
  });
  EXPECT_EQ(pipe.read_all(), text);
  EXPECT_EQ(printed.get(), 0);
}

TEST_F(FlightctlTest, ASnapshotWaitsForItsReader) {
  run();
  const Outcome outcome = ctl_into_pipe({"get", "latest", "-o", "-"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, bytes_of_data());
}

TEST_F(FlightctlTest, ATarWaitsForItsReader) {
  bench.backend.kallsyms_to_read = bench.folder() + "/kallsyms.zst";
  const auto frame = compress_all(bytes_of("ffffffff81000000 T _text\n"), 1);
  ASSERT_TRUE(frame);
  std::ofstream(bench.backend.kallsyms_to_read, std::ios::binary)
      .write(reinterpret_cast<const char*>(frame->data()), static_cast<std::streamsize>(frame->size()));
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const std::string tar = bench.folder() + "/x.tar";
  const Outcome file = ctl({"get", "1", "--with-symbols", "-o", tar});
  ASSERT_EQ(file.code, 0) << file.err;
  const std::string expected = text_of(tar);
  ASSERT_GT(expected.size(), bytes_of_data().size());
  const Outcome outcome = ctl_into_pipe({"get", "1", "--with-symbols", "-o", "-"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with(expected)) << outcome.out.size() << " bytes of " << expected.size();
  EXPECT_EQ(outcome.out.find_first_not_of('\0', expected.size()), std::string::npos) << "to the end of a block";
}

TEST_F(FlightctlTest, OutputThatFailsLeavesTheSnapshotWhereItIs) {
  run();
  for (const std::string& target : {bench.folder() + "/none/copy", bench.folder(), std::string("/dev/full")}) {
    SCOPED_TRACE(target);
    const Outcome outcome = ctl({"snapshot", "-o", target});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("is at " + data_), HasSubstr(target)));
  }
  EXPECT_EQ(error_of(ctl({"--json", "snapshot", "-o", bench.folder()})), "io.flightd.Client.OutputFailed");
  EXPECT_EQ(ctl({"snapshot", "-o", "/dev/null"}).code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(FlightctlTest, VacuumListsTheDeleted) {
  bench.backend.vacuumed_to_report = R"([{"id":"3","path":"/s/a\u001b[2Jb","reason":"max_use","bytes":2048},)"
                                     R"({"id":"4","path":"/s/c","reason":"missing","bytes":1024}])";
  run();
  const Outcome dry = ctl({"vacuum", "--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, MatchesRegex("Would delete /s/a\\?\\[2Jb \\(2\\.0K, store\\.max_use\\)\n"
                                    "Would delete /s/c \\(1\\.0K, [^\n]*data file[^\n]*missing\\)\n"
                                    "Would free [^\n]*2 snapshots, 3\\.0K\\.\n"));
  EXPECT_EQ(bench.backend.vacuums, 0);
  EXPECT_THAT(ctl({"vacuum"}).out,
              AllOf(HasSubstr("Deleted /s/c"), HasSubstr("Freed the space of 2 snapshots, 3.0K.")));
  EXPECT_EQ(bench.backend.vacuums, 1);
  const auto json = nlohmann::json::parse(ctl({"--json", "vacuum"}).out);
  EXPECT_EQ(json["freed_bytes"], 4096);
  EXPECT_EQ(json["removed"][1]["reason"], "missing");
}

// Its budget can be kept, and still be too small.
TEST_F(FlightctlTest, AVacuumThatDeletesNothingSaysNoMoreThanThat) {
  bench.backend.vacuum_warnings = {"store.max_use is small: 2.0M is less than 8 snapshots"};
  run();
  EXPECT_EQ(ctl({"vacuum"}).out, "store.max_use is small: 2.0M is less than 8 snapshots\nNothing was deleted.\n");
  EXPECT_THAT(ctl({"vacuum", "--dry-run"}).out, HasSubstr("\nNothing would be deleted.\n"));
}

TEST_F(FlightctlTest, AFullStdoutIsAnError) {
  run();
  stdout_path = "/dev/full";
  const Outcome outcome = ctl({"snapshot"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("No space left"));
}

// `flightctl list | head -1`.
TEST_F(FlightctlTest, AReaderThatLeavesEndsItQuietly) {
  std::vector<CatalogueRow> rows(1);
  rows[0].id = "1", rows[0].path = "/x", rows[0].time = "2026-11-20T03:12:04.123Z", rows[0].trigger = "oom";
  bench.backend.rows_to_report = to_json(rows);
  run();
  for (const bool ignored : {false, true})
    for (const std::vector<std::string>& words :
         std::vector<std::vector<std::string>>{{"list"}, {"--json", "list"}, {"get", "1", "-o", "-"}, {"--help"}}) {
      SCOPED_TRACE(testing::PrintToString(words) + (ignored ? ", SIGPIPE is ignored" : ""));
      std::string err;
      const int status = without_reader(words, ignored, err);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status;
      EXPECT_EQ(err, "");
    }
}

// A daemon that sends the given replies, one on each connection, after a good one to GetInfo.
class StrangeDaemon {
 public:
  StrangeDaemon(const std::string& path, std::vector<std::string> answers)
      : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
    thread_ = std::thread([this, answers = std::move(answers)] {
      for (const std::string& answer : answers) {
        const UniqueFd client(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        const auto reply = [&client](const std::string& text) {
          char c = 'x';
          while (c != '\0' && ::read(client.get(), &c, 1) == 1) {
          }
          ::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL);
        };
        reply(R"({"parameters":{"product":"flightd"}})" + std::string(1, '\0'));
        reply(answer);
      }
    });
  }
  ~StrangeDaemon() { thread_.join(); }
  StrangeDaemon(const StrangeDaemon&) = delete;
  StrangeDaemon& operator=(const StrangeDaemon&) = delete;

 private:
  UniqueFd fd_;
  std::thread thread_;
};

TEST_F(FlightctlTest, StrangeAnswersAreErrorsNotCrashes) {
  const std::vector<std::string> answers{
      "",
      std::string(1, '\0'),
      "[]" + std::string(1, '\0'),
      "{}" + std::string(1, '\0'),
      R"({"parameters":{"snapshot":7,"status":7,"snapshots":7}})" + std::string(1, '\0'),
      R"({"parameters":{"snapshot":[],"status":[],"snapshots":{}}})" + std::string(1, '\0'),
      R"({"parameters":{"snapshot":{"id":[],"rings":7},"status":"x","snapshots":[7]}})" + std::string(1, '\0'),
      R"({"error":"a.b.\u001b[2J"})" + std::string(1, '\0'),
      std::string(100'000, '[') + std::string(1, '\0'),
  };
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"status"}, {"list"}, {"info"}, {"snapshot"}}) {
    std::filesystem::remove(bench.socket());
    StrangeDaemon daemon(bench.socket(), answers);
    for (const std::string& answer : answers) {
      SCOPED_TRACE(words[0] + ": " + answer.substr(0, 80));
      const Outcome outcome = ctl(words);
      EXPECT_EQ(outcome.code, 1) << outcome.out;
      EXPECT_EQ(outcome.out, "");
      EXPECT_NE(outcome.err, "");
      EXPECT_THAT(outcome.err, testing::Not(HasSubstr("\x1b")));
    }
  }
}

TEST_F(FlightctlTest, AnInvalidStatusIsShownPartly) {
  StrangeDaemon daemon(
      bench.socket(),
      {R"({"parameters":{"status":{"uptime_seconds":1e300,"cpus":-1,"channels":[{"events":[{"per_second":-1e308,"bytes_per_second":1e308}],
    "history_seconds":{"min":-5,"max":1e300}}],"self":{"flightd":{"cpu_seconds":1e308}}}}})" +
       std::string(1, '\0')});
  const Outcome outcome = ctl({"status"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("NOT RECORDING"));
}

TEST(Output, TablesAreAligned) {
  EXPECT_EQ(ctl::width("é€x"), 3U);
  EXPECT_EQ(ctl::table({{"A", "B", "C"}, {"long", "1", "x"}, {"é", "22"}}, {1}),
            "A      B  C\nlong   1  x\né     22\n");
  EXPECT_EQ(ctl::key_values({{"a", "1"}, {"long", "2\n"}}), "a:    1\nlong: 2?\n");
  EXPECT_EQ(ctl::local_time("no\x1btime"), "no?time");
}

}  // namespace
}  // namespace flight
