// SPDX-License-Identifier: Apache-2.0
// Every view and export of a snapshot, with what no snapshot should have: hostile names, many CPUs, another
// architecture, a file that is cut; and with a disk that is full, and a reader that leaves.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "libcore/base/text.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using namespace test;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

using Words = std::vector<std::string>;
constexpr EventTime kViewsSecond = 1'000'000'000;

// Each of them writes to stdout.
const std::vector<Words>& text_views() {
  static const std::vector<Words> all{{"stacks", "1"},
                                      {"stacks", "1", "--diff"},
                                      {"stacks", "1", "--inverted"},
                                      {"sched", "1"},
                                      {"diff", "1", "2"},
                                      {"info", "1", "--all"},
                                      {"export", "1", "--format", "folded", "-o", "-"}};
  return all;
}
const std::vector<Words>& binary_views() {
  static const std::vector<Words> all{{"export", "1", "--format", "pprof", "-o", "-"},
                                      {"export", "1", "--format", "firefox", "-o", "-"},
                                      {"html", "1", "-o", "-"},
                                      {"html", "1", "--against", "2", "-o", "-"}};
  return all;
}
std::vector<Words> all_views() {
  std::vector<Words> out = text_views();
  out.insert(out.end(), binary_views().begin(), binary_views().end());
  return out;
}

class ViewsTest : public FlightctlTest {
 protected:
  ViewsTest() {
    fs::create_directory(folder_);
    fs::current_path(folder_);  // flightctl's directory, too
    bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters& parameters) {
      Sidecar sidecar = full_sidecar(id, data_);
      sidecar.reason = parameters.reason + more_reason_;
      sidecar.size_bytes = fs::file_size(data_);
      sidecar.compared = SidecarCompared{
          .before_begin_ns = 2 * kViewsSecond, .now_begin_ns = 8 * kViewsSecond, .now_end_ns = 11 * kViewsSecond};
      return to_json(sidecar);
    };
  }
  ~ViewsTest() override { fs::current_path("/"); }

  void write(const RecordBuffer& records, const std::string& arch = "x86_64") {
    fs::remove(data_);
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_TRUE(file);
    auto writer = FileWriter::create(file->get(), sched_events());
    ASSERT_TRUE(writer) << writer.error().what;
    ASSERT_TRUE(writer->append(packed_records(records)));
    Features features{.hostname = "box", .version = "0.2.0", .arch = arch, .cpus_available = 2, .cpus_online = 2};
    TracingData& tracing = features.tracing_data.emplace();
    tracing.header_page = "page";
    tracing.header_event = "event";
    tracing.systems.push_back({.name = "sched", .formats = sched_format_texts()});
    features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = 1U << 18U};
    const auto finished = writer->finish(features);
    ASSERT_TRUE(finished) << finished.error().what;
  }
  void run_with_two() {
    run();
    for (int i = 0; i < 2; ++i) ASSERT_EQ(ctl({"snapshot", "--reason", "why"}).code, 0);
  }
  // Ten samples before and ten now, of one more function; and a thread that waits.
  static RecordBuffer records(const std::string& comm = "server", const std::string& file = "/no/where/a",
                              const std::string& cgroup = "/system.slice/web.service") {
    RecordBuffer out;
    append_cgroup(out, {.id = 5, .path = cgroup}, {});
    append_comm(out, {.pid = 10, .tid = 10, .name = comm}, {});
    append_mmap2(out, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = file}, {});
    for (std::uint64_t i = 0; i < 20; ++i)
      append_sample(out, {.time_ns = (i < 10 ? 3U : 9U) * kViewsSecond + i,
                          .ip = i < 10 ? 0x400010U : 0x400020U,
                          .period = kViewsSecond / 10,
                          .cgroup = 5});
    append_to_another(out, {.time_ns = 3 * kViewsSecond, .cpu = 0, .prev = 0, .state = kStateR, .next = 10});
    append_to_another(out, {.time_ns = 5 * kViewsSecond, .cpu = 0, .prev = 10, .state = kPreempted, .next = 11});
    append_to_another(out, {.time_ns = 7 * kViewsSecond, .cpu = 0, .prev = 11, .state = kStateD, .next = 10});
    return out;
  }
  static void expect_printable(const std::string& text, const std::string& what) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(is_printable(line)) << what << ": " << line;
  }

  const std::string folder_ = bench.folder() + "/here";
  std::string more_reason_;  // which flightd would refuse
};

// "task-10" of the switches has seven bytes.
RecordBuffer with_hostile_switches(RecordBuffer records) {
  const std::string name = "task-10", other = "\x1b[2J</\xff";
  for (auto at = records.begin(); at != records.end();) {
    at = std::search(at, records.end(), name.begin(), name.end(),
                     [](std::byte a, char b) { return a == static_cast<std::byte>(b); });
    if (at == records.end()) break;
    for (const char c : other) *at++ = static_cast<std::byte>(c);
  }
  return records;
}

TEST_F(ViewsTest, HostileNamesArePrintableInEachOfThem) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  more_reason_ = "\x1b[2J</script>\xe2\x80\xae" + std::string(3000, 'x');
  ASSERT_NO_FATAL_FAILURE(run_with_two());
  for (const std::string& name : Words{"\x1b]0;title\x07", "</script><img>", "\xff\xfe\xc3", "\xe2\x80\xaeright", ""}) {
    SCOPED_TRACE(printable(name));
    ASSERT_NO_FATAL_FAILURE(write(with_hostile_switches(
        records(name.substr(0, 15), "/x/" + std::string(3000, 'y') + name + ";", "/" + name + "\n.service"))));
    for (const Words& words : text_views()) {
      const Outcome outcome = ctl(words);
      EXPECT_EQ(outcome.code, 0) << words.front() << ": " << outcome.err;
      expect_printable(outcome.out, words.front());
      expect_printable(outcome.err, words.front());
    }
    for (const Words& words : std::vector<Words>{{"stacks", "1"}, {"sched", "1"}, {"diff", "1", "2"}}) {
      Words json{"--json"};
      json.insert(json.end(), words.begin(), words.end());
      const Outcome outcome = ctl(json);
      EXPECT_EQ(outcome.code, 0) << words.front() << ": " << outcome.err;
      EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << words.front();
    }
    for (const Words& words : binary_views()) EXPECT_EQ(ctl(words).code, 0) << words.front();
    EXPECT_THAT(ctl({"html", "1", "-o", "-"}).out, Not(HasSubstr("</script><img>")));
  }
}

TEST_F(ViewsTest, AFullDiskIsAnError) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  run_with_two();
  stdout_path = "/dev/full";
  for (const Words& words : all_views()) {
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 1) << words.front();
    EXPECT_THAT(outcome.err, HasSubstr("No space left")) << words.front();
  }
}

TEST_F(ViewsTest, AReaderThatLeavesEndsThemQuietly) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  run_with_two();
  for (const bool ignored : {false, true})
    for (const Words& words : all_views()) {
      std::string err;
      const int status = without_reader(words, ignored, err);
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << words.front() << ": " << status;
      EXPECT_THAT(err, Not(HasSubstr("ipe"))) << words.front();
    }
}

// 1,024 CPUs, each with a sample and a thread of its own that switches.
TEST_F(ViewsTest, OfManyCpus) {
  constexpr std::uint32_t kCpus = 1024;
  RecordBuffer many = records();
  for (std::uint32_t cpu = 1; cpu < kCpus; ++cpu) {
    append_sample(many, {.tid = 1000 + cpu,
                         .cpu = cpu,
                         .time_ns = 9 * kViewsSecond + cpu,
                         .ip = 0x400030,
                         .period = kViewsSecond / 10,
                         .cgroup = 5});
    append_to_another(many, {.time_ns = 9 * kViewsSecond + cpu, .cpu = cpu, .prev = 0, .next = 1000 + cpu});
    append_to_another(many, {.time_ns = 10 * kViewsSecond + cpu, .cpu = cpu, .prev = 1000 + cpu, .state = kStateS});
  }
  ASSERT_NO_FATAL_FAILURE(write(many));
  run_with_two();
  for (const Words& words : all_views()) {
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 0) << words.front() << ": " << outcome.err;
    EXPECT_LT(outcome.out.size(), 1'500'000U) << words.front();
  }
  EXPECT_THAT(ctl({"stacks", "1", "--cpu", "1023"}).out, HasSubstr("a+0x30"));
  const auto said = nlohmann::json::parse(ctl({"--json", "sched", "1"}).out, nullptr, false);
  ASSERT_TRUE(said.is_object());
  EXPECT_EQ(said["cpus"].size(), kCpus);
  EXPECT_EQ(said["cpus"].back()["run_ns"], kViewsSecond);
}

TEST_F(ViewsTest, OfAnotherArchitecture) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  run_with_two();
  std::vector<std::string> outs;
  for (const char* arch : {"x86_64", "aarch64", "riscv64", ""}) {
    ASSERT_NO_FATAL_FAILURE(write(records(), arch));
    std::string out;
    for (const Words& words : all_views()) {
      const Outcome outcome = ctl(words);
      EXPECT_EQ(outcome.code, 0) << words.front() << ": " << outcome.err;
      if (words.front() != "info" && words.front() != "html") out += outcome.out;
    }
    outs.push_back(out);
  }
  for (const std::string& out : outs) EXPECT_TRUE(out == outs.front()) << "the same stacks";
}

// Without samples and switches, but for a hole.
TEST_F(ViewsTest, OfNothing) {
  RecordBuffer none;
  append_comm(none, {.pid = 10, .tid = 10, .name = "idle"}, {});
  append_lost(none, {.id = kClockId, .lost = 5}, made_trailer(10, 5 * kViewsSecond));
  ASSERT_NO_FATAL_FAILURE(write(none));
  run_with_two();
  for (const Words& words : all_views()) {
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 0) << words.front() << ": " << outcome.err;
    expect_printable(outcome.err, words.front());
  }
}

// Wherever it is cut: no crash, and no half of a file.
TEST_F(ViewsTest, OfACutFile) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  const std::string whole = text_of(data_);
  run_with_two();
  for (const std::size_t percent : {3U, 10U, 60U, 90U}) {
    SCOPED_TRACE(percent);
    std::ofstream(data_, std::ios::binary | std::ios::trunc) << whole.substr(0, whole.size() * percent / 100);
    for (Words words : all_views()) {
      const bool to_file = words.back() == "-";
      if (to_file) words.back() = "x";
      const Outcome outcome = ctl(words);
      EXPECT_TRUE(outcome.code == 0 || outcome.code == 1) << words.front() << ": " << outcome.code;
      if (to_file) {
        EXPECT_EQ(fs::exists("x"), outcome.code == 0) << words.front();
      }
      if (percent <= 10 && words.front() != "info") {
        EXPECT_EQ(outcome.code, 1) << words.front();
        EXPECT_NE(outcome.err, "") << words.front();
      }
      fs::remove("x");
      EXPECT_TRUE(fs::is_empty(folder_)) << words.front();
    }
  }
}

}  // namespace
}  // namespace flight
