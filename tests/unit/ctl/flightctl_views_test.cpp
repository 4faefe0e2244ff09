// SPDX-License-Identifier: Apache-2.0
// Every view and export of a snapshot, with what no snapshot should have: hostile names, many CPUs, another
// architecture, a file that is cut; and with a disk that is full, and a reader that leaves.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libcore/base/text.hpp"
#include "libcore/export/page.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/export/from_base64.hpp"
#include "tests/unit/export/gunzipped.hpp"
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
// One of each way of writing: what the others write comes from the same functions.
const std::vector<Words>& kinds_of_views() {
  static const std::vector<Words> all{{"stacks", "1"},
                                      {"sched", "1"},
                                      {"diff", "1", "2"},
                                      {"info", "1", "--all"},
                                      {"export", "1", "--format", "folded", "-o", "-"},
                                      {"export", "1", "--format", "pprof", "-o", "-"},
                                      {"export", "1", "--format", "firefox", "-o", "-"},
                                      {"html", "1", "-o", "-"}};
  return all;
}
std::string text_of_view(const Words& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

// Ten samples before and ten now, of one more function.
struct MadeProcess {
  std::uint32_t pid = 10;
  std::string comm = "server", file = "/no/where/a", cgroup = "/system.slice/web.service";
};

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
    SnapshotParameters parameters;
    parameters.reason = "why";
    for (int i = 0; i < 2; ++i) {
      std::promise<bool> taken;
      bench.on_loop([&] {
        bench.backend.take_snapshot(
            {}, parameters, [](std::string_view, unsigned) {},
            [&taken](const auto& sidecar) { taken.set_value(sidecar.has_value()); });
        return 0;
      });
      ASSERT_TRUE(taken.get_future().get());
    }
  }
  // And a thread that waits.
  static RecordBuffer records(const std::vector<MadeProcess>& processes = {MadeProcess()}) {
    RecordBuffer out;
    for (const MadeProcess& one : processes) {
      append_cgroup(out, {.id = one.pid, .path = one.cgroup}, {});
      append_comm(out, {.pid = one.pid, .tid = one.pid, .name = one.comm}, {});
      append_mmap2(out, {.pid = one.pid, .tid = one.pid, .address = 0x400000, .bytes = 0x1000, .name = one.file}, {});
      for (std::uint64_t i = 0; i < 20; ++i)
        append_sample(out, {.pid = one.pid,
                            .tid = one.pid,
                            .time_ns = (i < 10 ? 3U : 9U) * kViewsSecond + i,
                            .ip = i < 10 ? 0x400010U : 0x400020U,
                            .period = kViewsSecond / 10,
                            .cgroup = one.pid});
    }
    append_to_another(out, {.time_ns = 3 * kViewsSecond, .cpu = 0, .prev = 0, .state = kStateR, .next = 10});
    append_to_another(out, {.time_ns = 5 * kViewsSecond, .cpu = 0, .prev = 10, .state = kPreempted, .next = 11});
    append_to_another(out, {.time_ns = 7 * kViewsSecond, .cpu = 0, .prev = 11, .state = kStateD, .next = 10});
    return out;
  }
  static void expect_printable(const std::string& text, const std::string& what) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_TRUE(is_printable(line)) << what << ": " << line;
  }
  static void expect_all_printable(const nlohmann::json& names) {
    ASSERT_TRUE(names.is_array() && !names.empty()) << names;
    for (const auto& name : names) EXPECT_TRUE(is_printable(name.get<std::string>())) << name;
  }
  // What the page has of the snapshot, without the columns. All else is the page as it is in the repository.
  static nlohmann::json head_of_page(std::string_view page) {
    const std::string_view own = page_html();
    const std::size_t at = own.find(kPagePayload);
    const std::string_view before = own.substr(0, at), after = own.substr(at + kPagePayload.size());
    EXPECT_TRUE(page.starts_with(before));
    EXPECT_TRUE(page.ends_with(after));
    if (page.size() < before.size() + after.size()) return nullptr;
    const std::string payload = gunzipped(from_base64(page.substr(at, page.size() - before.size() - after.size())));
    return nlohmann::json::parse(payload.substr(0, payload.find('\n')), nullptr, false);
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

// Of five processes, and of the two threads that switch.
TEST_F(ViewsTest, HostileNamesArePrintableInEachOfThem) {
  std::vector<MadeProcess> processes;
  std::uint32_t pid = 10;
  for (const std::string& name : Words{"\x1b]0;title\x07", "</script><img>", "\xff\xfe\xc3", "\xe2\x80\xaeright", ""})
    processes.push_back({.pid = pid++,
                         .comm = name.substr(0, 15),
                         .file = "/x/" + name + ";" + std::string(3000, 'y'),
                         .cgroup = "/" + name + "\n.service"});
  ASSERT_NO_FATAL_FAILURE(write(with_hostile_switches(records(processes))));
  more_reason_ = "\x1b[2J</script>\xe2\x80\xae" + std::string(3000, 'x');
  ASSERT_NO_FATAL_FAILURE(run_with_two());
  for (const Words& words : text_views()) {
    const Outcome outcome = ctl(words);
    const std::string view = text_of_view(words);
    EXPECT_EQ(outcome.code, 0) << view << ": " << outcome.err;
    expect_printable(outcome.out, view);
    expect_printable(outcome.err, view);
  }
  for (const Words& words : std::vector<Words>{{"stacks", "1"}, {"sched", "1"}, {"diff", "1", "2"}}) {
    Words json{"--json"};
    json.insert(json.end(), words.begin(), words.end());
    const Outcome outcome = ctl(json);
    EXPECT_EQ(outcome.code, 0) << words.front() << ": " << outcome.err;
    EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << words.front();
  }
  std::map<std::string, std::string> files;
  for (const Words& words : binary_views()) {
    const Outcome outcome = ctl(words);
    const std::string view = text_of_view(words);
    EXPECT_EQ(outcome.code, 0) << view << ": " << outcome.err;
    expect_printable(outcome.err, view);
    files[view] = outcome.out;
  }

  const auto firefox = nlohmann::json::parse(gunzipped(files["export 1 --format firefox -o -"]), nullptr, false);
  ASSERT_TRUE(firefox.is_object());
  expect_all_printable(firefox.at("shared").at("stringArray"));
  EXPECT_THAT(firefox.at("shared").at("stringArray").dump(), HasSubstr("img>;yyy")) << "a name that is hostile";
  for (const auto& thread : firefox.at("threads"))
    EXPECT_TRUE(is_printable(thread.at("name").get<std::string>())) << thread;
  for (const char* view : {"html 1 -o -", "html 1 --against 2 -o -"}) {
    SCOPED_TRACE(view);
    const auto head = head_of_page(files[view]);
    ASSERT_TRUE(head.is_object());
    for (const auto& side : head.at("sides")) {
      expect_all_printable(side.at("frames").at("name"));
      expect_all_printable(side.at("objects").at("name"));
      expect_all_printable(side.at("sched").at("threads").at("name"));
      EXPECT_THAT(side.at("frames").at("name").dump(), HasSubstr("img>;yyy"));
    }
  }
}

TEST_F(ViewsTest, AFullDiskIsAnError) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  run_with_two();
  stdout_path = "/dev/full";
  for (const Words& words : kinds_of_views()) {
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 1) << text_of_view(words);
    EXPECT_THAT(outcome.err, HasSubstr("No space left")) << text_of_view(words);
  }
}

TEST_F(ViewsTest, AReaderThatLeavesEndsThemQuietly) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  run_with_two();
  const auto expect_quiet_end = [this](const Words& words, bool ignored) {
    std::string err;
    const int status = without_reader(words, ignored, err);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << text_of_view(words) << ": " << status;
    EXPECT_THAT(err, Not(HasSubstr("ipe"))) << text_of_view(words);
  };
  for (const Words& words : kinds_of_views()) expect_quiet_end(words, false);
  // Where the signal is ignored, text and files, which are written in different ways, fail with EPIPE.
  expect_quiet_end({"stacks", "1"}, true);
  expect_quiet_end({"html", "1", "-o", "-"}, true);
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
                         .cgroup = 10});
    append_to_another(many, {.time_ns = 9 * kViewsSecond + cpu, .cpu = cpu, .prev = 0, .next = 1000 + cpu});
    append_to_another(many, {.time_ns = 10 * kViewsSecond + cpu, .cpu = cpu, .prev = 1000 + cpu, .state = kStateS});
  }
  ASSERT_NO_FATAL_FAILURE(write(many));
  run_with_two();
  for (const Words& words : kinds_of_views()) {
    const Outcome outcome = ctl(words);
    EXPECT_EQ(outcome.code, 0) << text_of_view(words) << ": " << outcome.err;
    EXPECT_LT(outcome.out.size(), 1'500'000U) << text_of_view(words);
  }
  EXPECT_THAT(ctl({"stacks", "1", "--cpu", "1023"}).out, HasSubstr("a+0x30"));
  const auto said = nlohmann::json::parse(ctl({"--json", "sched", "1"}).out, nullptr, false);
  ASSERT_TRUE(said.is_object());
  EXPECT_EQ(said["cpus"].size(), kCpus);
  EXPECT_EQ(said["cpus"].back()["run_ns"], kViewsSecond);
}

// The other views read the file as these do.
TEST_F(ViewsTest, OfAnotherArchitecture) {
  ASSERT_NO_FATAL_FAILURE(write(records()));
  run_with_two();
  std::vector<std::string> outs;
  for (const char* arch : {"x86_64", "aarch64", ""}) {
    ASSERT_NO_FATAL_FAILURE(write(records(), arch));
    std::string out;
    for (const Words& words :
         std::vector<Words>{{"stacks", "1"}, {"sched", "1"}, {"export", "1", "--format", "firefox", "-o", "-"}}) {
      const Outcome outcome = ctl(words);
      EXPECT_EQ(outcome.code, 0) << text_of_view(words) << ": " << outcome.err;
      out += outcome.out;
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
    EXPECT_EQ(outcome.code, 0) << text_of_view(words) << ": " << outcome.err;
    expect_printable(outcome.err, text_of_view(words));
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
    const bool in_head = percent <= 10;  // it cannot be opened, which all views do alike
    for (Words words : in_head ? std::vector<Words>{{"stacks", "1"}, {"html", "1", "-o", "-"}} : kinds_of_views()) {
      const bool to_file = words.back() == "-";
      if (to_file) words.back() = "x";
      const Outcome outcome = ctl(words);
      const std::string view = text_of_view(words);
      EXPECT_TRUE(outcome.code == 1 || (outcome.code == 0 && !in_head)) << view << ": " << outcome.code;
      if (outcome.code == 1) {
        EXPECT_NE(outcome.err, "") << view;
      }
      if (to_file) {
        EXPECT_EQ(fs::exists("x"), outcome.code == 0) << view;
      }
      fs::remove("x");
      EXPECT_TRUE(fs::is_empty(folder_)) << view;
    }
  }
}

}  // namespace
}  // namespace flight
