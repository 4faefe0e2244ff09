// SPDX-License-Identifier: Apache-2.0
// A profile for the Firefox Profiler: every table is whole, and every number in it is one of another table.
#include "libcore/export/firefox.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libcore/base/text.hpp"
#include "tests/unit/export/gunzipped.hpp"
#include "tests/unit/profile/made_file.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint64_t kFirefoxUser = PERF_CONTEXT_USER, kFirefoxKernel = PERF_CONTEXT_KERNEL;
constexpr std::uint64_t kFirefoxText = 0xffffffff81000000;
constexpr EventTime kFirefoxBegin = 1'000'000'000;

// Each column has the table's length, and its numbers are below `limit`.
void expect_table(const Json& table, const std::vector<std::string>& columns) {
  const auto length = table.at("length").get<std::size_t>();
  for (const std::string& column : columns) EXPECT_EQ(table.at(column).size(), length) << column;
}
void expect_below(const Json& column, std::size_t limit, bool or_none = false) {
  for (const Json& number : column) {
    if (or_none && (number.is_null() || number == -1)) continue;
    ASSERT_TRUE(number.is_number_unsigned()) << number;
    EXPECT_LT(number.get<std::size_t>(), limit);
  }
}

void expect_whole_shared(const Json& profile) {
  const Json& shared = profile.at("shared");
  const Json &stacks = shared.at("stackTable"), &frames = shared.at("frameTable"), &funcs = shared.at("funcTable"),
             &resources = shared.at("resourceTable");
  const std::size_t texts = shared.at("stringArray").size();
  expect_table(stacks, {"frame", "prefix"});
  expect_table(frames, {"address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID",
                        "line", "column"});
  expect_table(funcs, {"name", "isJS", "relevantForJS", "resource", "source", "lineNumber", "columnNumber"});
  expect_table(resources, {"lib", "name", "host", "type"});
  expect_table(shared.at("nativeSymbols"), {"libIndex", "address", "name", "functionSize"});
  expect_table(shared.at("sources"), {"uuid", "filename"});
  expect_below(stacks.at("frame"), frames.at("length"));
  for (std::size_t i = 0; i < stacks.at("prefix").size(); ++i)
    expect_below(Json::array({stacks.at("prefix")[i]}), i, true);  // callers come first
  expect_below(frames.at("func"), funcs.at("length"));
  expect_below(frames.at("category"), profile.at("meta").at("categories").size());
  expect_below(funcs.at("name"), texts);
  expect_below(funcs.at("resource"), resources.at("length"), true);
  expect_below(resources.at("lib"), profile.at("libs").size());
  expect_below(resources.at("name"), texts);
}

void expect_whole_threads(const Json& profile) {
  const Json& shared = profile.at("shared");
  for (const Json& thread : profile.at("threads")) {
    const Json &samples = thread.at("samples"), &markers = thread.at("markers");
    expect_table(samples, {"stack", "time"});
    for (const char* optional : {"weight", "threadCPUDelta"})
      if (samples.contains(optional) && !samples.at(optional).is_null()) expect_table(samples, {optional});
    expect_below(samples.at("stack"), shared.at("stackTable").at("length"));
    EXPECT_TRUE(std::is_sorted(samples.at("time").begin(), samples.at("time").end(),
                               [](const Json& a, const Json& b) { return a.get<double>() < b.get<double>(); }));
    expect_table(markers, {"data", "name", "startTime", "endTime", "phase", "category"});
    expect_below(markers.at("name"), shared.at("stringArray").size());
    EXPECT_TRUE(thread.at("pid").is_string() && thread.at("tid").is_string());
  }
  for (const char* threads : {"initialVisibleThreads", "initialSelectedThreads"})
    expect_below(profile.at("meta").at(threads), profile.at("threads").size());
  for (const Json& counter : profile.at("counters")) {
    expect_table(counter.at("samples"), {"time", "count"});
    expect_below(Json::array({counter.at("mainThreadIndex")}), profile.at("threads").size());
  }
}

class FirefoxTest : public testing::Test {
 protected:
  FirefoxTest() {
    append_kernel_mmap(records_, kFirefoxText, 0x10000, kFirefoxText, "[kernel.kallsyms]_text", {});
    append_cgroup(records_, {.id = 5, .path = "/system.slice/web.service"}, {});
    append_fork(records_, {.pid = 10, .ppid = 1, .tid = 10, .ptid = 1, .exec = true}, {});
    append_comm(records_, {.pid = 10, .tid = 10, .name = "server"}, {});
    append_comm(records_, {.pid = 10, .tid = 11, .name = "worker"}, {});
    BuildId build_id;
    build_id.size = 20;
    for (std::uint8_t i = 0; i < 20; ++i) build_id.bytes.at(i) = static_cast<std::uint8_t>(0xa0 + i);
    append_mmap2(records_,
                 {.pid = 10,
                  .tid = 10,
                  .address = 0x7f1234500000,
                  .bytes = 0x1000,
                  .page_offset = 0x2000,
                  .build_id = build_id,
                  .name = "/no/where/a"},
                 {});
    for (const unsigned ms : {3U, 1U, 2U})
      test::append_sample(records_, {.time_ns = kFirefoxBegin + ms * 1'000'000ULL,
                                     .ip = 0x7f1234500010,
                                     .chain = {kFirefoxUser, 0x7f1234500010, 0x7f1234500020},
                                     .period = 10'000'000,
                                     .cgroup = 5});
    test::append_sample(records_, {.tid = 11,
                                   .time_ns = kFirefoxBegin + 4'500'000,
                                   .ip = kFirefoxText + 0x1010,
                                   .kernel = true,
                                   .chain = {kFirefoxKernel, kFirefoxText + 0x1010, kFirefoxUser, 0x7f1234500020},
                                   .period = 20'000'000,
                                   .cgroup = 5});
    test::append_switch(records_, {.time_ns = kFirefoxBegin + 5, .ip = 0x99});
    sidecar_.id = "12";
    sidecar_.host = "web3";
    sidecar_.kernel = "6.1.0";
    sidecar_.trigger = "cpu-spike";
    sidecar_.reason = "why </script>";
    sidecar_.window = {kFirefoxBegin, kFirefoxBegin + 9'000'000'000, 9, "2026-11-20T03:11:55.000Z",
                       "2026-11-20T03:12:04.000Z"};
    sidecar_.common_window = sidecar_.window;
  }
  std::string bytes(std::size_t event = 1) {
    TimedSamples samples;
    const std::string kallsyms = "ffffffff81000000 T _text\nffffffff81001000 T do_work\n";
    ProfileOrder order{.kallsyms = kallsyms, .read_files = false};
    order.each = [&samples](const CountedSample& sample) { samples.add(sample); };
    const auto profile = SnapshotProfile::read(test::made_file(records_), order);
    EXPECT_TRUE(profile) << profile.error().what;
    if (!profile) return "";
    samples.arrange(kMostFirefoxThreads);
    std::string packed;
    EXPECT_TRUE(write_firefox(
        *profile, event, samples, sidecar_, {"a note"},
        [&packed](std::span<const std::byte> piece) -> Result<void> {
          packed.append(reinterpret_cast<const char*>(piece.data()), piece.size());
          return {};
        },
        sched_ ? &*sched_ : nullptr));
    return test::gunzipped(packed);
  }
  Json whole_profile(std::size_t event = 1) {
    Json out = Json::parse(bytes(event), nullptr, false);
    EXPECT_TRUE(out.is_object());
    if (!out.is_object()) return out;
    expect_whole_shared(out);
    expect_whole_threads(out);
    return out;
  }
  // "a+0x2020;a+0x2010", the outermost frame first.
  static std::string stack_of(const Json& profile, const Json& number) {
    const Json& shared = profile.at("shared");
    std::string out;
    for (Json at = number; !at.is_null(); at = Json(shared.at("stackTable").at("prefix").at(at.get<std::size_t>()))) {
      const auto frame = shared.at("stackTable").at("frame").at(at.get<std::size_t>()).get<std::size_t>();
      const auto func = shared.at("frameTable").at("func").at(frame).get<std::size_t>();
      const auto name = shared.at("funcTable").at("name").at(func).get<std::size_t>();
      out = shared.at("stringArray").at(name).get<std::string>() + (out.empty() ? "" : ";") + out;
    }
    return out;
  }

  // "hole 2000 2500.0: stacks, CPU 1: 7 records lost"
  static std::vector<std::string> markers_of(const Json& profile, std::size_t thread) {
    const Json& markers = profile.at("threads").at(thread).at("markers");
    std::vector<std::string> out;
    for (std::size_t i = 0; i < markers.at("length").get<std::size_t>(); ++i)
      out.push_back(fmt::format(
          "{} {:.0f} {}: {}",
          profile.at("shared").at("stringArray").at(markers.at("name")[i].get<std::size_t>()).get<std::string>(),
          markers.at("startTime")[i].get<double>(), markers.at("endTime")[i].dump(),
          markers.at("data")[i].at("text").get<std::string>()));
    return out;
  }

  RecordBuffer records_;
  Sidecar sidecar_;
  std::optional<SchedProfile> sched_;
};

TEST_F(FirefoxTest, HasEachThreadInTime) {
  const Json profile = whole_profile();
  EXPECT_EQ(profile["meta"]["preprocessedProfileVersion"], 60);
  EXPECT_EQ(profile["meta"]["initialVisibleThreads"], Json::array({0, 1, 2}));
  const Json& threads = profile["threads"];
  ASSERT_EQ(threads.size(), 3U);
  EXPECT_EQ(threads[0]["name"], "flightd");
  EXPECT_EQ(threads[1]["name"], "server") << "the busiest one";
  EXPECT_EQ(threads[1]["processName"], "server (web.service)");
  EXPECT_EQ(threads[1]["pid"], "10");
  EXPECT_EQ(threads[1]["isMainThread"], true);
  EXPECT_EQ(threads[1]["samples"]["time"], Json::array({1.0, 2.0, 3.0})) << "ms from the begin";
  EXPECT_EQ(threads[1]["samples"]["weight"], Json::array({10.0, 10.0, 10.0})) << "ms of a CPU";
  EXPECT_EQ(threads[1]["samples"]["threadCPUDelta"], Json::array({10'000'000, 10'000'000, 10'000'000}));
  EXPECT_EQ(stack_of(profile, threads[1]["samples"]["stack"][0]), "a+0x2020;a+0x2010");
  EXPECT_EQ(threads[2]["name"], "worker");
  EXPECT_EQ(threads[2]["isMainThread"], false);
  EXPECT_EQ(threads[2]["tid"], "11");
  EXPECT_EQ(stack_of(profile, threads[2]["samples"]["stack"][0]), "a+0x2020;do_work");
  const Json& shared = profile["shared"];
  for (std::size_t i = 0; i < shared["frameTable"]["length"].get<std::size_t>(); ++i)
    EXPECT_EQ(shared["frameTable"]["category"][i],
              shared["stringArray"][shared["funcTable"]["name"][i].get<std::size_t>()] == "do_work" ? 2 : 1);
}

TEST_F(FirefoxTest, HasFilesWithTheirBuildIds) {
  const Json profile = whole_profile();
  ASSERT_EQ(profile["libs"].size(), 2U);
  const Json& lib = profile["libs"][0];
  EXPECT_EQ(lib["name"], "a");
  EXPECT_EQ(lib["path"], "/no/where/a");
  EXPECT_EQ(lib["codeId"], "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3");
  EXPECT_EQ(lib["breakpadId"], "A3A2A1A0A5A4A7A6A8A9AAABACADAEAF0");
  EXPECT_EQ(profile["libs"][1]["name"], "[kernel.kallsyms]");
  EXPECT_TRUE(profile["libs"][1]["codeId"].is_null());
}

TEST_F(FirefoxTest, HasMarkersOfWhatHappened) {
  sidecar_.fired = SidecarFired{"cpu.busy", 93, 90, 12, kFirefoxBegin + 8'000'000'000};
  sidecar_.requests = {{0, 12, "flightctl", "2026-11-20T03:12:00.000Z", "slow\x1b[2J"}};
  sidecar_.compared = SidecarCompared{kFirefoxBegin, kFirefoxBegin + 3'000'000'000, kFirefoxBegin + 9'000'000'000};
  sidecar_.holes = {{"stacks", 1, kFirefoxBegin + 2'000'000'000, kFirefoxBegin + 2'500'000'000, 7}};
  sidecar_.common_window.begin_ns = kFirefoxBegin + 1'000'000'000;
  sidecar_.rings = {{"stacks", 3, 4096, kFirefoxBegin + 1'000'000'000, kFirefoxBegin + 9'000'000'000},
                    {"stacks", 4, 4096, kFirefoxBegin + 5'000'000'000, kFirefoxBegin + 9'000'000'000}};  // idle
  const Json profile = whole_profile();
  EXPECT_THAT(markers_of(profile, 0),
              testing::ElementsAre("before 0 3000.0: what now is compared with",
                                   "no older records 0 1000.0: stacks, CPU 3: its ring has no older records",
                                   "hole 2000 2500.0: stacks, CPU 1: 7 records lost",
                                   "now 3000 9000.0: what is compared with before",
                                   "request 5000 null: flightctl (pid 12, uid 0): slow?[2J",
                                   "firing 8000 9000.0: cpu-spike: cpu.busy is 93, the threshold is 90"));
}

// Thread 10 is blocked, then 11, which has no samples, waits for it; it sleeps at the end.
TEST_F(FirefoxTest, HasWhoWaitedAndWhoRan) {
  RecordBuffer switches;
  const auto at = [](std::uint64_t ms) { return kFirefoxBegin + ms * 1'000'000; };
  for (const test::MadeSwitch& one : std::vector<test::MadeSwitch>{{at(1), 0, 0, test::kStateR, 10},
                                                                   {at(3), 0, 10, test::kStateD, 11},
                                                                   {at(7), 0, 11, test::kPreempted, 10},
                                                                   {at(9), 0, 10, test::kStateS, 0}})
    append_to_another(switches, one);
  SchedOrder order;
  order.shown = {.begin_ns = kFirefoxBegin, .end_ns = at(10), .covered_ns = kFirefoxBegin};
  order.lanes = {.ran_ns = 5'000'000, .least_off_ns = 1'000'000};
  auto sched = SchedProfile::read(test::sched_file(switches), order);
  ASSERT_TRUE(sched) << sched.error().what;
  sched_ = std::move(*sched);
  const Json profile = whole_profile();
  EXPECT_THAT(markers_of(profile, 0), testing::ElementsAre("waits for a CPU 7 10.0: task-11 (11)"));
  EXPECT_EQ(profile["threads"][1]["name"], "server");
  EXPECT_THAT(markers_of(profile, 1), testing::ElementsAre("blocked (state D) 3 7.0: task-10 (10)"));
  ASSERT_EQ(profile["threads"].size(), 4U);
  EXPECT_EQ(profile["threads"][3]["name"], "CPUs");
  EXPECT_THAT(markers_of(profile, 3), testing::ElementsAre("CPU 0 5 7.0: task-11 (11)", "CPU 0 7 9.0: task-10 (10)"));
  EXPECT_EQ(profile["meta"]["initialVisibleThreads"], Json::array({0, 1, 2, 3}));
}

TEST_F(FirefoxTest, HasTheMetricsOfTheWindow) {
  SidecarSeries recent{.begin_ns = kFirefoxBegin - 1'000'000'000, .step_ns = 1'000'000'000, .values = {}};
  recent.values = {{"cpu.busy", {1, 2, std::nan(""), 4}}, {"psi.cpu", {std::nan(""), std::nan("")}}};
  sidecar_.metrics = SidecarMetrics{.recent = recent, .minutes = {}, .cpus = {}};
  const Json profile = whole_profile();
  ASSERT_EQ(profile["counters"].size(), 1U);
  const Json& counter = profile["counters"][0];
  EXPECT_EQ(counter["name"], "cpu.busy");
  EXPECT_EQ(counter["samples"]["time"], Json::array({0.0, 2000.0}));
  EXPECT_EQ(counter["samples"]["count"], Json::array({2, 4}));
}

TEST_F(FirefoxTest, OfAnotherEvent) {
  const Json profile = whole_profile(2);
  EXPECT_FALSE(profile["meta"].contains("sampleUnits"));
  std::size_t samples = 0;
  for (const Json& thread : profile["threads"]) {
    samples += thread["samples"]["length"].get<std::size_t>();
    EXPECT_TRUE(thread["samples"]["weight"].is_null());
  }
  EXPECT_EQ(samples, 1U);
}

TEST_F(FirefoxTest, OfNothing) {
  records_.clear();
  append_comm(records_, {.pid = 10, .tid = 10, .name = "idle"}, {});
  const Json profile = whole_profile();
  EXPECT_EQ(profile["threads"].size(), 1U);
  EXPECT_EQ(profile["meta"]["initialSelectedThreads"], Json::array({0}));
}

TEST_F(FirefoxTest, HasNoAddressOfMemory) {
  const std::string text = bytes();
  for (const char* address : {"7f12345", "13971616", "ffffffff8", "18446744"})
    EXPECT_THAT(text, Not(HasSubstr(address)));
  const Json profile = whole_profile();
  for (const Json& address : profile["shared"]["frameTable"]["address"])
    EXPECT_LT(address.get<std::int64_t>(), 0x10000);
}

TEST_F(FirefoxTest, HostileNamesArePrintable) {
  for (const char* comm : {"</script>", "\x1b[2J", "\xff\xfe", "\xe2\x80\xae", "\"],", ""}) {
    append_comm(records_, {.pid = 10, .tid = 10, .name = comm}, {});
    append_comm(records_, {.pid = 10, .tid = 11, .name = comm}, {});
    append_mmap2(records_,
                 {.pid = 10,
                  .tid = 10,
                  .address = 0x7f1234500000,
                  .bytes = 0x1000,
                  .name = "/x/" + std::string(3000, 'y') + comm},
                 {});
    sidecar_.reason = comm;
    const Json profile = whole_profile();
    for (const Json& text : profile["shared"]["stringArray"]) {
      EXPECT_TRUE(is_printable(text.get<std::string>()));
      EXPECT_LE(text.get<std::string>().size(), 1100U);
    }
    for (const Json& thread : profile["threads"]) EXPECT_TRUE(is_printable(thread["name"].get<std::string>()));
  }
}

// A pid that is used again.
TEST_F(FirefoxTest, ProcessesAreApart) {
  append_fork(records_, {.pid = 20, .ppid = 1, .tid = 20, .ptid = 1, .exec = true}, {});
  append_comm(records_, {.pid = 20, .tid = 20, .name = "first"}, {});
  test::append_sample(records_, {.pid = 20, .tid = 20, .time_ns = kFirefoxBegin + 1000, .ip = 0x99});
  append_fork(records_, {.pid = 20, .ppid = 1, .tid = 20, .ptid = 1, .time_ns = kFirefoxBegin + 2000},
              test::made_trailer(1, kFirefoxBegin + 2000));
  append_comm(records_, {.pid = 20, .tid = 20, .name = "second"}, test::made_trailer(20, kFirefoxBegin + 2001));
  test::append_sample(records_, {.pid = 20, .tid = 20, .time_ns = kFirefoxBegin + 3000, .ip = 0x99});
  const Json profile = whole_profile();
  std::vector<std::string> processes;
  for (const Json& thread : profile["threads"])
    processes.push_back(thread["pid"].get<std::string>() + " " + thread["processName"].get<std::string>());
  EXPECT_THAT(processes, testing::UnorderedElementsAre("flightd flightd", "10 server (web.service)",
                                                       "10 server (web.service)", "20 first", "20.2 second"));
}

TEST_F(FirefoxTest, StopsWhereNothingCanBeWritten) {
  TimedSamples samples;
  samples.arrange(1);
  const auto profile = SnapshotProfile::read(test::made_file(records_), {.read_files = false});
  ASSERT_TRUE(profile);
  const auto written =
      write_firefox(*profile, 1, samples, sidecar_, {},
                    [](std::span<const std::byte>) -> Result<void> { return sys_error(ENOSPC, "write"); });
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().errno_value(), ENOSPC);
}

}  // namespace
}  // namespace flight
