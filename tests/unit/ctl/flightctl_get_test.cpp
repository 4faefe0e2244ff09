// SPDX-License-Identifier: Apache-2.0
// flightctl get writes the whole file, owned by the caller, or nothing.
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "libcore/base/bytes.hpp"
#include "libcore/compress/zstd.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/environment.hpp"

namespace flight {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::AllOf;
using testing::HasSubstr;

class GetTest : public FlightctlTest {
 protected:
  GetTest() {
    std::filesystem::create_directory(folder_);
    std::filesystem::current_path(folder_);  // flightctl's directory, too
  }
  ~GetTest() override { std::filesystem::current_path("/"); }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) names.push_back(entry.path().filename());
    return names;
  }
  std::string folder_ = bench.folder() + "/here";
};

TEST_F(GetTest, WithoutAFileItIsTheSnapshotsOwnNameHere) {
  run();
  const std::string& name = bench.backend.name_to_read;
  const Outcome plain = ctl({"get", "1"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, name + "\n");
  EXPECT_THAT(names(), testing::ElementsAre(name));
  EXPECT_EQ(text_of(folder_ + "/" + name), bytes_of_data());
  struct stat found {};
  ASSERT_EQ(::stat((folder_ + "/" + name).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0640U);
  EXPECT_EQ(found.st_uid, ::geteuid());
  const Outcome again = ctl({"get"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "get", "-o", "x"}).out), nlohmann::json::array({"x"}));
}

TEST_F(GetTest, SeveralGetTheirOwnNames) {
  const std::string first = "flight-web3-20261120T031204.123Z-manual-1.perf.data";
  const std::string second = "flight-web3-20261120T031205.123Z-oom-2.perf.data";
  bench.backend.names_of_ids = {{"2", second}};
  run();
  const Outcome both = ctl({"get", "2", "1"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_EQ(both.out, second + "\n" + first + "\n");
  EXPECT_THAT(names(), testing::UnorderedElementsAre(first, second));
  EXPECT_EQ(text_of(folder_ + "/" + second), bytes_of_data());
  EXPECT_EQ(nlohmann::json::parse(ctl({"--json", "get", "-f", "1", "2"}).out), nlohmann::json({first, second}));
  // One that is missing, or cannot be written, does not stop the others.
  std::filesystem::remove(folder_ + "/" + second);
  const Outcome some = ctl({"get", "99", "1", "2"});
  EXPECT_EQ(some.code, 1);
  EXPECT_EQ(some.out, second + "\n");
  EXPECT_THAT(some.err, AllOf(HasSubstr("99"), HasSubstr(first + " exists already")));
  EXPECT_EQ(error_of(ctl({"--json", "get", "-f", "1", "99"})), "io.flightd.Recorder.NoSuchSnapshot");
}

TEST_F(GetTest, SeveralDoNotFitIntoOneFile) {
  for (const char* file : {"x", "-"}) {
    const Outcome outcome = ctl({"get", "1", "2", "-o", file});
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr(fmt::format("-o {} is one file", file)), HasSubstr("leave out -o")));
  }
  EXPECT_THAT(ctl({"get", "1", "1"}).err, HasSubstr("'1' is given twice"));
  EXPECT_THAT(names(), testing::IsEmpty());
}

TEST_F(GetTest, ToStdoutComeTheBytesOnly) {
  run();
  const Outcome outcome = ctl({"get", "latest", "--output", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, bytes_of_data());
  EXPECT_EQ(outcome.err, "");
}

TEST_F(GetTest, ADaemonsNameCannotLeadElsewhere) {
  for (const char* name : {"../escaped", "/tmp/escaped.perf.data", ".bashrc", "",
                           "flight-web3-20261120T031204.123Z-manual-1.json", "flight-\x1b[2J"}) {
    SCOPED_TRACE(name);
    ControlBench other;
    other.backend.file_to_read = data_;
    other.backend.name_to_read = name;
    ASSERT_TRUE(other.run());
    const Outcome outcome = bare({"--socket", other.socket(), "get"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("not a snapshot name"), testing::Not(HasSubstr("\x1b"))));
    EXPECT_THAT(names(), testing::IsEmpty());
  }
}

TEST_F(GetTest, NothingIsLeftWhenTheBytesEndEarly) {
  bench.backend.bytes_too_many = 1;
  run();
  std::ofstream("x") << "old";
  const Outcome outcome = ctl({"get", "-f", "-o", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(" 1 byte before the end"));
  EXPECT_EQ(text_of("x"), "old");
  EXPECT_THAT(names(), testing::ElementsAre("x"));
}

TEST_F(GetTest, NothingIsLeftWhenItIsInterrupted) {
  const UniqueFd end = bench.hang_reads();
  run();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::vector<std::string> words{test::flightctl(), "--socket", bench.socket(), "get", "-o", "x"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    // Under nohup(1) SIGHUP would be ignored.
    posix_spawnattr_t as_usual;
    sigset_t all;
    ::sigfillset(&all);
    ASSERT_EQ(::posix_spawnattr_init(&as_usual), 0);
    ASSERT_EQ(::posix_spawnattr_setsigdefault(&as_usual, &all), 0);
    ASSERT_EQ(::posix_spawnattr_setflags(&as_usual, POSIX_SPAWN_SETSIGDEF), 0);
    pid_t pid = -1;
    ASSERT_EQ(::posix_spawn(&pid, test::flightctl().c_str(), nullptr, &as_usual, argv.data(), environ), 0);
    ::posix_spawnattr_destroy(&as_usual);
    for (int attempt = 0; attempt < 500 && names().empty(); ++attempt) std::this_thread::sleep_for(10ms);
    EXPECT_THAT(names(), testing::ElementsAre("x.partial"));
    std::this_thread::sleep_for(50ms);
    // While it writes, the file is locked against other writers.
    EXPECT_THAT(ctl({"get", "-o", "x"}).err, HasSubstr("another flightctl is writing"));
    ::kill(pid, number);
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number);
    EXPECT_THAT(names(), testing::IsEmpty());
  }
  ASSERT_EQ(::write(end.get(), "12341234123412341234", 20), 20);  // for the readers that still wait
}

TEST_F(GetTest, AKilledOnesPartialFileIsReplacedButNotAnothers) {
  run();
  std::ofstream("x.partial") << "of a flightctl that was killed";
  EXPECT_EQ(ctl({"get", "-o", "x"}).code, 0);
  EXPECT_THAT(names(), testing::ElementsAre("x"));
  std::filesystem::create_symlink(bench.folder() + "/elsewhere", "y.partial");
  const Outcome outcome = ctl({"get", "-o", "y"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("y.partial is in the way"));
  EXPECT_FALSE(std::filesystem::exists(bench.folder() + "/elsewhere"));
}

TEST_F(GetTest, NothingIsWrittenOverUnlessForced) {
  run();
  const std::string& own = bench.backend.name_to_read;
  for (const std::string& name : {std::string("x"), own}) std::ofstream(name) << "old";
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"get", "-o", "x"}, {"get"}, {"snapshot", "-o", "x"}}) {
    SCOPED_TRACE(testing::PrintToString(words));
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr("--force"));
    EXPECT_EQ(text_of("x"), "old");
    EXPECT_EQ(text_of(own), "old");
  }
  EXPECT_EQ(bench.backend.begun, 0) << "a snapshot was taken whose copy had no place";
  EXPECT_EQ(ctl({"get", "--force", "-o", "x"}).code, 0);
  EXPECT_EQ(text_of("x"), bytes_of_data());
  EXPECT_EQ(ctl({"get", "-f"}).code, 0);
  EXPECT_EQ(text_of(own), bytes_of_data());
  // An empty file, as mktemp(1) makes it, may be overwritten.
  std::ofstream("empty").flush();
  EXPECT_EQ(ctl({"get", "-o", "empty"}).code, 0);
  EXPECT_EQ(text_of("empty"), bytes_of_data());
}

// As `snapshot` does: one line, which is removed at the end.
TEST_F(GetTest, ATerminalShowsHowMuchHasCome) {
  bench.backend.kallsyms_to_read = bench.folder() + "/kallsyms.zst";
  const auto frame = compress_all(bytes_of("ffffffff81000000 T _text\n"), 1);
  ASSERT_TRUE(frame);
  std::ofstream(bench.backend.kallsyms_to_read, std::ios::binary)
      .write(reinterpret_cast<const char*>(frame->data()), static_cast<std::streamsize>(frame->size()));
  run();
  ASSERT_EQ(ctl({"snapshot"}).code, 0);
  const std::string& name = bench.backend.name_to_read;
  const Outcome shown = on_terminal({"get", "1"}, {"TERM=xterm"});
  EXPECT_EQ(shown.code, 0) << shown.out;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("\rcopying 100% of "), testing::EndsWith("\r\x1b[K" + name + "\r\n")));
  EXPECT_THAT(on_terminal({"get", "1", "--with-symbols"}, {"TERM=xterm"}).out,
              AllOf(HasSubstr("\rkernel symbols"), HasSubstr("\rcopying 100% of ")));
  for (const std::vector<std::string>& environment :
       std::vector<std::vector<std::string>>{{"TERM=dumb"}, {"TERM="}, {}})
    EXPECT_EQ(on_terminal({"get", "1", "-f"}, environment).out, name + "\r\n");
  EXPECT_THAT(on_terminal({"--json", "get", "1", "-f"}, {"TERM=xterm"}).out, testing::Not(HasSubstr("copying")));
}

TEST_F(GetTest, TheDaemonSaysNo) {
  run();
  const Outcome outcome = ctl({"--json", "get", "99", "-o", "x"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(error_of(outcome), "io.flightd.Recorder.NoSuchSnapshot");
  EXPECT_THAT(names(), testing::IsEmpty());
}

}  // namespace
}  // namespace flight
