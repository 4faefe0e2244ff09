// SPDX-License-Identifier: Apache-2.0
// Whole files, verified by the stock perf of this machine, or by the command in FLIGHT_PERF ("tests/verifiers/perf-of
// sid --"). perf exits 0 after fatal read errors, so the test checks the number of printed samples, and that stderr is
// empty.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "libcore/base/files.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/perfdata/user_records.hpp"
#include "libcore/perfdata/writer.hpp"
#include "tests/unit/perfdata/machine.hpp"
#include "tests/unit/perfdata/records.hpp"
#include "tests/unit/root_test.hpp"

// The address of the files' user samples: perf must find its name in this executable.
extern "C" __attribute__((noinline, used)) unsigned flight_verifier_hot_function(unsigned value) {
  return value * 31 + 7;
}

namespace flight {
namespace {

using test::Bytes;
using test::Kernel;
using test::SchedSwitch;
using test::Self;

constexpr std::uint32_t kPid = 5'000'000;  // above the largest pid_max (2^22): no process of this machine
constexpr std::uint64_t kSidebandId = 11, kClockId = 21, kSwitchId = 31;
constexpr std::uint64_t kBeginNs = 1'000'000'000'000;
constexpr std::size_t kClockSamples = 20'000, kSwitchSamples = 500, kKernelEvery = 10;
constexpr std::size_t kRoundBytes = 200'000;
constexpr std::uint32_t kMmapBytes = 262'144;

struct Said {
  std::string out, err;
  [[nodiscard]] std::size_t lines() const { return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n')); }
  [[nodiscard]] std::size_t count(std::string_view text) const {
    std::size_t found = 0;
    for (std::size_t at = out.find(text); at != std::string::npos; at = out.find(text, at + 1)) ++found;
    return found;
  }
  [[nodiscard]] bool has(std::string_view text) const { return out.find(text) != std::string::npos; }
};

Said perf(const test::TemporaryFolder& folder, const std::string& arguments) {
  const std::string err_path = folder.path("stderr");
  const char* verifier = std::getenv("FLIGHT_PERF");
  const std::string command = fmt::format("LC_ALL=C PAGER=cat HOME={} {} {} 2>{} </dev/null", folder.path(""),
                                          verifier == nullptr ? "perf" : verifier, arguments, err_path);
  Said said;
  FILE* pipe = ::popen(command.c_str(), "re");
  EXPECT_NE(pipe, nullptr);
  std::array<char, 65536> part{};
  for (std::size_t count = 0; (count = ::fread(part.data(), 1, part.size(), pipe)) > 0;)
    said.out.append(part.data(), count);
  ::pclose(pipe);
  said.err = read_file(err_path).value_or("(stderr was not kept)");
  return said;
}

std::string hex(const std::vector<std::uint8_t>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

// The content of the file and its form. A file with all of it is what flightd writes.
struct Kind {
  bool tracepoint = false;
  bool compressed = false;
  bool fallback = false;  // one of the compressed rounds is plain, as after a failure of zstd
};

class Verified : public test::RootTest, public testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    const UniqueFd fd = test::create_file(path_);
    const bool tracepoint = GetParam().tracepoint;
    std::vector<FileEvent> events{{test::sideband_attr(), "flightd:sideband", {kSidebandId}},
                                  {test::clock_attr(), "cpu-clock", {kClockId, kClockId + 1}}};
    if (tracepoint) events.push_back({test::tracepoint_attr(switch_.id), "sched:sched_switch", {kSwitchId}});
    auto writer = FileWriter::create(fd.get(), std::move(events));
    ASSERT_TRUE(writer) << writer.error().what;
    write_records(*writer);
    const auto finished = writer->finish(features());
    ASSERT_TRUE(finished) << finished.error().what;
  }

  [[nodiscard]] std::size_t samples() const { return kClockSamples + (GetParam().tracepoint ? kSwitchSamples : 0); }

  // Plain, or one frame for one COMPRESSED record.
  void append_round(FileWriter& writer, const Bytes& records) {
    Bytes out;
    if (GetParam().compressed && !(++round_ == 3 && GetParam().fallback)) {
      const auto frame = compress_all(records, 1);
      ASSERT_TRUE(frame);
      ASSERT_LE(frame->size(), kMaxCompressedPayload);
      append_compressed(out, *frame);
    } else {
      out = records;
    }
    append_finished_round(out);
    ASSERT_TRUE(writer.append(out));
  }

  void write_records(FileWriter& writer) {
    Bytes records;
    if (kernel_.text != 0)
      test::put_kernel_mmap(records, kernel_.text, kernel_.end - kernel_.text, "[kernel.kallsyms]_text");
    test::put_fork(records, kPid);
    test::put_comm(records, kPid, "verifier-hot");
    test::put_mmap2(records, kPid, self_.address, self_.bytes, self_.offset, self_.path);
    append_finished_init(records);
    const auto hot = reinterpret_cast<std::uint64_t>(&flight_verifier_hot_function);
    for (std::size_t i = 0; i < kClockSamples; ++i) {
      const bool in_kernel = i % kKernelEvery == 0;
      const test::Moment moment{.pid = kPid,
                                .tid = kPid,
                                .cpu = static_cast<std::uint32_t>(i % 2),
                                .time_ns = kBeginNs + i * 10'000,
                                .id = kClockId + i % 2};
      test::put_clock_sample(records, moment, in_kernel ? kernel_.schedule : hot, in_kernel);
      if (GetParam().tracepoint && i % (kClockSamples / kSwitchSamples) == 0)
        test::put_raw_sample(records,
                             {.pid = kPid, .tid = kPid, .cpu = 0, .time_ns = moment.time_ns + 1, .id = kSwitchId}, hot,
                             switch_.raw("verifier-hot", kPid, "verifier-next", 77));
      if (records.size() >= kRoundBytes) {
        append_round(writer, records);
        records.clear();
      }
    }
    append_round(writer, records);
  }

  [[nodiscard]] Features features() const {
    Features features;
    if (GetParam().tracepoint) features.tracing_data = switch_.tracing;
    features.build_ids = {{.kernel = true, .id = kernel_.build_id, .name = "[kernel.kallsyms]_text"},
                          {.kernel = false, .id = self_.build_id, .name = self_.path},
                          {.kernel = false, .id = {1, 2, 3, 4, 5, 6, 7, 8}, .name = "/short/id"}};
    features.hostname = "verifier-host";
    features.os_release = "6.1.0-verifier";
    features.version = "0.1.0";
    features.arch = "x86_64";
    features.cpu_description = "Verifier CPU @ 1 GHz";
    features.cpu_id = "AuthenticVerifier,1,2,3";
    features.cpus_available = 4;
    features.cpus_online = 2;
    features.total_memory_kb = 1'234'567;
    features.command_line = {"flightd", "--config", "verifier.json"};
    features.cpu_topology = {{"0-1"}, {"0", "1"}, {"0-1"}, {{0, 0, 0}, {1, 0, 0}, {0, 900, 0}, {0, 0, 0}}};
    features.numa = {{.node = 0, .total_kb = 1'000, .free_kb = 500, .cpu_list = "0-1"}, {1, 2'000, 600, ""}};
    features.pmus = {{1, "software"}, {2, "tracepoint"}, {8, "judge_pmu"}};
    features.sample_time = {kBeginNs, kBeginNs + (kClockSamples - 1) * 10'000};
    if (GetParam().compressed)
      features.compressed = CompressedFeature{.level = 1, .ratio = 17, .mmap_bytes = kMmapBytes};
    features.clock_data = {.clockid = CLOCK_MONOTONIC, .wall_ns = 1'700'000'000'000'000'000, .clockid_ns = kBeginNs};
    return features;
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("verified.perf.data");
  const Self self_ = Self::find();
  const Kernel kernel_ = Kernel::find();
  const SchedSwitch switch_ = SchedSwitch::find();
  int round_ = 0;
};

TEST_P(Verified, ScriptShowsEverySample) {
  const Said said = perf(folder_, "script -i " + path_ + " -F time");
  EXPECT_EQ(said.lines(), samples());
  EXPECT_EQ(said.err, "");
}

TEST_P(Verified, TimesAreSortedAndWallTimeIsShown) {
  const Said said = perf(folder_, "script -i " + path_ + " --ns -F time,tod");
  EXPECT_TRUE(said.has("2023-11-14 ")) << said.out.substr(0, 200);
  EXPECT_TRUE(said.has("1000.199990000")) << "the last sample";
  EXPECT_EQ(said.err, "");
  const Said first = perf(folder_, "script -i " + path_ + " -F time --time 10%/1");
  EXPECT_NEAR(static_cast<double>(first.lines()), static_cast<double>(samples()) / 10, 3);
  EXPECT_EQ(first.err, "");
}

TEST_P(Verified, ReportNamesProcessObjectAndSymbol) {
  const Said said =
      perf(folder_, "report -i " + path_ + " --stdio --no-children -g none -F overhead,sample,comm,dso,sym");
  EXPECT_TRUE(said.has("18000  verifier-hot")) << said.out;
  EXPECT_TRUE(said.has("unit-perfdata")) << said.out;
  EXPECT_TRUE(said.has("[.] flight_verifier_hot_function")) << said.out;
  EXPECT_TRUE(said.has("[k] schedule")) << said.out;
  EXPECT_TRUE(said.has("of event 'cpu-clock'")) << said.out;
  EXPECT_EQ(said.err, "");
}

TEST_P(Verified, EveryFeatureIsUnderstood) {
  const Said said = perf(folder_, "report -i " + path_ + " --header-only -I");
  std::vector<std::string> expected{"# hostname : verifier-host",
                                    "# os release : 6.1.0-verifier",
                                    "# perf version : 0.1.0",
                                    "# arch : x86_64",
                                    "# nrcpus online : 2",
                                    "# nrcpus avail : 4",
                                    "# cpudesc : Verifier CPU @ 1 GHz",
                                    "# cpuid : AuthenticVerifier,1,2,3",
                                    "# total memory : 1234567 kB",
                                    "# cmdline : flightd --config verifier.json",
                                    "# event : name = flightd:sideband",
                                    "# event : name = cpu-clock",
                                    "id = { 21, 22 }",
                                    "# sibling sockets : 0-1",
                                    "# sibling dies    : 0-1",
                                    "# sibling threads : 1",
                                    "# CPU 1: Core ID 1, Die ID 0, Socket ID 0",
                                    "# CPU 2: Core ID 0, Die ID 0, Socket ID -1",
                                    "# node0 meminfo  : total = 1000 kB, free = 500 kB",
                                    "# node0 cpu list : 0-1",
                                    "# node1 meminfo  : total = 2000 kB",
                                    "# pmu mappings: software = 1, tracepoint = 2, judge_pmu = 8",
                                    "# time of first sample : 1000.000000",
                                    "# time of last sample : 1000.199990",
                                    "# sample duration :    199.990 ms",
                                    "# clockid frequency: 1000 MHz",
                                    "# clockid: monotonic (1)",
                                    "# reference time: 2023-11-14"};
  if (GetParam().compressed) expected.emplace_back("# compressed : Zstd, level = 1, ratio = 17");
  if (GetParam().tracepoint) expected.emplace_back("# event : name = sched:sched_switch");
  for (const std::string& line : expected) EXPECT_TRUE(said.has(line)) << line << "\nis missing in\n" << said.out;
  EXPECT_EQ(said.err, "");
}

TEST_P(Verified, BuildIdsAreListed) {
  const Said said = perf(folder_, "buildid-list -i " + path_);
  EXPECT_TRUE(said.has(hex(kernel_.build_id) + " [kernel.kallsyms]\n")) << said.out;
  EXPECT_TRUE(said.has(hex(self_.build_id) + " " + self_.path + "\n")) << said.out;
  EXPECT_TRUE(said.has("0102030405060708 ") && said.has(" /short/id\n")) << said.out;
  EXPECT_EQ(said.lines(), 3U) << said.out;
  EXPECT_EQ(said.err, "");
}

TEST_P(Verified, DumpAndInjectSeeEverySample) {
  const Said dump = perf(folder_, "report -i " + path_ + " -D");
  EXPECT_EQ(dump.count("PERF_RECORD_SAMPLE("), samples());
  EXPECT_EQ(dump.err, "");
  const Said inject = perf(folder_, "inject -i " + path_ + " -b -o " + folder_.path("injected"));
  EXPECT_EQ(inject.err, "");
  const Said said = perf(folder_, "script -i " + folder_.path("injected") + " -F time");
  EXPECT_EQ(said.lines(), samples());
  // inject copies COMPRESSED records at once but delays plain ones for sorting. So if a file has both, its output is no
  // longer in order, and it warns about this.
  if (!GetParam().fallback) {
    EXPECT_EQ(said.err, "");
  }
}

TEST_P(Verified, TracepointFieldsAreDecoded) {
  const Said said = perf(folder_, "script -i " + path_);
  const std::size_t found = said.count(fmt::format("prev_comm=verifier-hot prev_pid={}", kPid));
  EXPECT_EQ(found, GetParam().tracepoint ? kSwitchSamples : 0);
  EXPECT_EQ(said.has("next_comm=verifier-next next_pid=77"), GetParam().tracepoint) << said.out.substr(0, 400);
  EXPECT_EQ(said.err, "");
}

TEST_P(Verified, OurReaderAgrees) {
  const auto reader = FileReader::open(path_);
  ASSERT_TRUE(reader) << reader.error().what;
  std::size_t found = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        if (test::get<std::uint32_t>(record, 0) == PERF_RECORD_SAMPLE) ++found;
        return {};
      },
      expand);
  EXPECT_TRUE(read) << read.error().what;
  EXPECT_EQ(found, samples());
}

INSTANTIATE_TEST_SUITE_P(Files, Verified,
                         testing::Values(Kind{}, Kind{.compressed = true}, Kind{.compressed = true, .fallback = true},
                                         Kind{.tracepoint = true}, Kind{.tracepoint = true, .compressed = true}),
                         [](const auto& kind) {
                           return std::string(kind.param.compressed ? "Compressed" : "Plain") +
                                  (kind.param.fallback ? "Fallback" : "") + (kind.param.tracepoint ? "Tracepoint" : "");
                         });

}  // namespace
}  // namespace flight
