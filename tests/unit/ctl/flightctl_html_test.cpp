// SPDX-License-Identifier: Apache-2.0
// flightctl html: the page of one snapshot, or of two.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/profile/made_file.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

// In the base64 of the payload any short text can occur.
std::string without_payload(const std::string& page) {
  const std::size_t begin = page.find("<script id=\"payload\"");
  const std::size_t end = begin == std::string::npos ? begin : page.find("</script>", begin);
  if (end == std::string::npos) {
    ADD_FAILURE() << "the page has no payload";
    return page;
  }
  EXPECT_GT(end - begin, 500U);
  return page.substr(0, begin) + page.substr(end);
}

class HtmlTest : public FlightctlTest {
 protected:
  HtmlTest() {
    fs::create_directory(folder_);
    fs::current_path(folder_);  // flightctl's directory, too
    fs::remove(data_);
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_TRUE(file);
    if (!file) return;
    RecordBuffer records;
    append_comm(records, {.pid = 10, .tid = 10, .name = "</script><img>"}, {});
    append_mmap2(records, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/no/where/a"}, {});
    for (const EventTime time_ns : {1000U, 1001U, 1002U}) append_sample(records, {.time_ns = time_ns, .ip = 0x400010});
    append_switch(records, {.time_ns = 1004, .ip = 0x400030});
    write_made_file(file->get(), records);
  }
  ~HtmlTest() override { fs::current_path("/"); }

  void run_with_snapshots(int count = 1) {
    run();
    for (int i = 0; i < count; ++i) ASSERT_EQ(ctl({"snapshot", "--reason", "why <b>"}).code, 0);
  }
  // With $PATH.
  Outcome ctl_with_path(std::vector<std::string> words, const std::string& path) {
    words.insert(words.begin(), {"--socket", bench.socket()});
    return bare(std::move(words), {"PATH=" + path});
  }

  std::string folder_ = bench.folder() + "/here";
  const std::string name_ = "flight-web3-20261120T031204.123Z-manual-1.html";
};

TEST_F(HtmlTest, WritesAPage) {
  run_with_snapshots();
  const Outcome outcome = ctl({"html", "1"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, name_ + "\n");
  EXPECT_THAT(outcome.err, HasSubstr("flightctl: kernel functions have no names"));
  const std::string page = text_of(name_);
  EXPECT_THAT(page, AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("Content-Security-Policy")));
  EXPECT_THAT(without_payload(page), AllOf(Not(HasSubstr("<img>")), Not(HasSubstr("why <b>")), Not(HasSubstr("web3"))));
  EXPECT_EQ(ctl({"html", "-o", "-"}).out, page) << "the same bytes each time";
  const Outcome again = ctl({"html", "1"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(ctl({"html", "1", "-f"}).code, 0);
}

TEST_F(HtmlTest, OfTwoSnapshots) {
  run_with_snapshots(2);
  const Outcome one = ctl({"html", "2", "-o", "one.html"}),
                two = ctl({"html", "2", "--against", "1", "-o", "two.html"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.err, AllOf(HasSubstr("flightctl: snapshot 1: kernel functions"),
                             HasSubstr("flightctl: snapshot 2: kernel functions")));
  EXPECT_GT(fs::file_size("two.html"), fs::file_size("one.html"));
  EXPECT_THAT(ctl({"html", "2", "--against", "latest", "-o", "x"}).err, HasSubstr("both are snapshot 2"));
  EXPECT_FALSE(fs::exists("x"));
}

TEST_F(HtmlTest, JsonSaysWhatWasWritten) {
  run_with_snapshots();
  const Outcome outcome = ctl({"--json", "html", "-o", "x"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto said = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << outcome.out;
  EXPECT_EQ(said["path"], "x");
  EXPECT_EQ(said["samples"], 4) << "of all events";
  EXPECT_EQ(said["scheduling"], false);
  EXPECT_FALSE(said["notes"].empty());
}

TEST_F(HtmlTest, HasTheSchedulingOfASnapshotWithSwitches) {
  fs::remove(data_);
  {
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_TRUE(file);
    RecordBuffer records;
    append_to_another(records, {.time_ns = 4'000'000'000, .cpu = 0, .prev = 0, .state = kStateR, .next = 10});
    append_to_another(records, {.time_ns = 6'000'000'000, .cpu = 0, .prev = 10, .state = kStateD, .next = 0});
    write_sched_file(file->get(), records);
  }
  run_with_snapshots();
  const Outcome outcome = ctl({"--json", "html", "-o", "x"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto said = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << outcome.out;
  EXPECT_EQ(said["scheduling"], true);
}

TEST_F(HtmlTest, OpensThePage) {
  const std::string bin = folder_ + "/bin";
  fs::create_directory(bin);
  std::ofstream(bin + "/xdg-open") << "#!/bin/sh\necho \"opened $*\"\n";
  ASSERT_EQ(::chmod((bin + "/xdg-open").c_str(), 0755), 0);
  run_with_snapshots();
  const Outcome opened = ctl_with_path({"html", "1", "--open"}, bin);
  EXPECT_EQ(opened.code, 0) << opened.err;
  EXPECT_EQ(opened.out, name_ + "\nopened ./" + name_ + "\n");
  EXPECT_EQ(ctl_with_path({"html", "1", "--open", "-o", folder_ + "/-x"}, bin).out,
            folder_ + "/-x\nopened " + folder_ + "/-x\n");
  const Outcome without = ctl_with_path({"html", "1", "--open", "-o", "y"}, "/nowhere");
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.err, AllOf(HasSubstr("xdg-open"), HasSubstr("open y with a browser")));
  EXPECT_TRUE(fs::exists("y")) << "it is written";
}

TEST_F(HtmlTest, SaysWhatIsWrong) {
  run_with_snapshots();
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{{"html", "one"},
                                                                                     {"html", "1", "2"},
                                                                                     {"html", "1", "--against", "1"},
                                                                                     {"html", "--against", "latest"},
                                                                                     {"html", "--open", "-o", "-"},
                                                                                     {"html", "--against", ""}}) {
    const Outcome outcome = ctl(wrong);
    EXPECT_EQ(outcome.code, 2) << wrong.back();
    EXPECT_EQ(outcome.out, "") << wrong.back();
  }
  EXPECT_EQ(error_of(ctl({"--json", "html", "98"})), "io.flightd.Recorder.NoSuchSnapshot");
  EXPECT_EQ(error_of(ctl({"--json", "html", "1", "--against", "98"})), "io.flightd.Recorder.NoSuchSnapshot");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(HtmlTest, ABrokenSnapshotLeavesNoFile) {
  fs::resize_file(data_, fs::file_size(data_) / 2);
  run_with_snapshots();
  EXPECT_EQ(ctl({"html", "1"}).code, 1);
  EXPECT_EQ(error_of(ctl({"--json", "html", "1"})), "io.flightd.Client.OutputFailed");
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace flight
