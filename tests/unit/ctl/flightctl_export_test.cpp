// SPDX-License-Identifier: Apache-2.0
// flightctl export --format folded: the stacks of a snapshot, by the store's file or through the socket.
#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "libcore/compress/zstd.hpp"
#include "libcore/perf/record.hpp"
#include "tests/unit/ctl/flightctl_bench.hpp"
#include "tests/unit/profile/made_file.hpp"
#include "tests/unit/profile/made_sched.hpp"

namespace flight {
namespace {

using namespace test;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

constexpr std::uint64_t kOwnKernel = 0xffffffff81000000;

class ExportTest : public FlightctlTest {
 protected:
  ExportTest() {
    fs::create_directory(folder_);
    fs::current_path(folder_);  // flightctl's directory, too
    fs::remove(data_);
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    EXPECT_TRUE(file);
    if (file) write_made_file(file->get(), records());
  }
  ~ExportTest() override { fs::current_path("/"); }

  static RecordBuffer records() {
    RecordBuffer out;
    append_kernel_mmap(out, kOwnKernel, 0x10000, kOwnKernel, "[kernel.kallsyms]_text", {});
    append_comm(out, {.pid = 10, .tid = 10, .name = "server"}, {});
    append_mmap2(out, {.pid = 10, .tid = 10, .address = 0x400000, .bytes = 0x1000, .name = "/no/where/a"}, {});
    for (const EventTime time_ns : {1000U, 1001U, 1002U})
      append_sample(out, {.time_ns = time_ns,
                          .ip = 0x400010,
                          .chain = {static_cast<std::uint64_t>(PERF_CONTEXT_USER), 0x400010, 0x400020}});
    append_sample(out, {.time_ns = 1003,
                        .ip = kOwnKernel + 0x1010,
                        .kernel = true,
                        .chain = {static_cast<std::uint64_t>(PERF_CONTEXT_KERNEL), kOwnKernel + 0x1010,
                                  static_cast<std::uint64_t>(PERF_CONTEXT_USER), 0x400010}});
    append_switch(out, {.time_ns = 1004, .ip = 0x400030});
    return out;
  }
  void run_with_a_snapshot() {
    run();
    ASSERT_EQ(ctl({"snapshot"}).code, 0);
  }
  void keep_kernel_symbols() {
    const std::string text = "ffffffff81000000 T _text\nffffffff81001000 T do_work\n";
    const auto frame = compress_all(std::as_bytes(std::span(text)), 1);
    ASSERT_TRUE(frame);
    bench.backend.kallsyms_to_read = bench.folder() + "/kallsyms.zst";
    std::ofstream(bench.backend.kallsyms_to_read, std::ios::binary)
        .write(reinterpret_cast<const char*>(frame->data()), static_cast<std::streamsize>(frame->size()));
  }
  static std::vector<std::string> sorted_lines(const std::string& text) {
    std::vector<std::string> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(line);
    std::sort(out.begin(), out.end());
    return out;
  }

  std::string folder_ = bench.folder() + "/here";
  const std::string name_ = "flight-web3-20261120T031204.123Z-manual-1.folded";
};

TEST_F(ExportTest, WritesALineForEachStack) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "1", "--format", "folded"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, name_ + "\n");
  EXPECT_THAT(sorted_lines(text_of(name_)),
              ElementsAre("server;a+0x10;[kernel.kallsyms]+0x1010 1", "server;a+0x20;a+0x10 3"));
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("flightctl: only the samples of cpu-clock are written; --event selects one "
                                           "of the others, which have samples, too: context-switches\n"),
                                 HasSubstr("kernel functions have no names"), HasSubstr("no build-id")));
  const Outcome again = ctl({"export", "--format", "folded"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
  EXPECT_EQ(ctl({"export", "--format", "folded", "-f"}).code, 0);
}

TEST_F(ExportTest, NamesTheKernelsFunctions) {
  ASSERT_NO_FATAL_FAILURE(keep_kernel_symbols());
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "latest", "--format", "folded", "-o", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(sorted_lines(outcome.out), ElementsAre("server;a+0x10;do_work 1", "server;a+0x20;a+0x10 3"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("kernel")));
  EXPECT_EQ(ctl_into_pipe({"export", "1", "--format", "folded", "-o", "-"}).out, outcome.out);
}

TEST_F(ExportTest, WritesAProfileForPprof) {
  run_with_a_snapshot();
  const std::string name = name_.substr(0, name_.rfind('.')) + ".pb.gz";
  const Outcome outcome = ctl({"export", "1", "--format", "pprof"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, name + "\n");
  EXPECT_THAT(outcome.err, HasSubstr("flightctl: only the samples of cpu-clock are written"));
  const std::string bytes = text_of(name);
  EXPECT_EQ(bytes.substr(0, 2), "\x1f\x8b") << "gzip";
  const Outcome piped = ctl({"export", "1", "--format", "pprof", "-o", "-"});
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(piped.out, bytes) << "the same bytes each time";
  const Outcome labelled = ctl({"export", "1", "--format", "pprof", "-o", "-", "--labels", "thread,tid,cpu"});
  EXPECT_EQ(labelled.code, 0) << labelled.err;
  EXPECT_GT(labelled.out.size(), bytes.size());
  const auto said =
      nlohmann::json::parse(ctl({"--json", "export", "--format", "pprof", "-o", "x"}).out, nullptr, false);
  ASSERT_TRUE(said.is_object());
  EXPECT_EQ(said["samples"], 4);
  EXPECT_EQ(text_of("x"), bytes);
}

// Two threads take a CPU from each other, each millisecond.
TEST_F(ExportTest, SaysHowManyStretchesOffTheCpusAreLeftOut) {
  fs::remove(data_);
  {
    const auto file = open_file(data_, O_RDWR | O_CREAT | O_EXCL, 0600);
    ASSERT_TRUE(file);
    RecordBuffer switches;
    for (std::uint32_t i = 0; i < 8300; ++i)
      append_to_another(switches, {.time_ns = 2'000'000'000 + i * EventTime{1'000'000},
                                   .cpu = 0,
                                   .prev = 10 + i % 2,
                                   .state = kPreempted,
                                   .next = 11 - i % 2});
    write_sched_file(file->get(), switches);
  }
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "1", "--format", "firefox", "-o", "x"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("flightctl: 108 stretches off the CPUs: there are too many, and the longest are kept\n"));
}

TEST_F(ExportTest, WritesAProfileForFirefox) {
  run_with_a_snapshot();
  const std::string name = name_.substr(0, name_.rfind('.')) + ".firefox.json.gz";
  const Outcome outcome = ctl({"export", "1", "--format", "firefox"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, name + "\n");
  const std::string bytes = text_of(name);
  EXPECT_EQ(bytes.substr(0, 2), "\x1f\x8b") << "gzip";
  EXPECT_EQ(ctl({"export", "1", "--format", "firefox", "-o", "-"}).out, bytes);
  const Outcome again = ctl({"export", "1", "--format", "firefox"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("--force"));
}

TEST_F(ExportTest, CountsTheEventThatIsAskedFor) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "1", "--format", "folded", "-o", "-", "--event", "context-*"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "server;a+0x30 1\n");
  const Outcome none = ctl({"export", "1", "--format", "folded", "--event", "cycles"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no event 'cycles'"));
  EXPECT_FALSE(fs::exists(name_));
}

TEST_F(ExportTest, JsonSaysWhatWasWritten) {
  run_with_a_snapshot();
  const Outcome outcome = ctl({"--json", "export", "1", "--format", "folded", "-o", "x"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const auto said = nlohmann::json::parse(outcome.out, nullptr, false);
  ASSERT_TRUE(said.is_object()) << outcome.out;
  EXPECT_EQ(said["path"], "x");
  EXPECT_EQ(said["event"], "cpu-clock");
  EXPECT_EQ(said["samples"], 4);
  EXPECT_FALSE(said["notes"].empty());
}

// By its path, if this process may read it: the socket gives none here.
TEST_F(ExportTest, ReadsTheStoresFileInPlace) {
  bench.backend.file_to_read = "/nowhere/at/all";
  bench.backend.sidecar_of = [this](const std::string& id, const SnapshotParameters&) {
    Sidecar sidecar = full_sidecar(id, data_);
    sidecar.size_bytes = fs::file_size(data_);
    return to_json(sidecar);
  };
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "1", "--format", "folded", "-o", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(sorted_lines(outcome.out).size(), 2U);
}

TEST_F(ExportTest, OfADirectoryThroughTheSocket) {
  const std::string stored = bench.folder() + "/stored.perf.data";
  fs::create_directory(stored);
  const auto file = open_file(stored + "/data", O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_TRUE(file);
  RecordBuffer samples, sideband;
  const RecordBuffer all = records();
  std::span<const std::byte> rest(all);
  for (auto record = next_record(rest); !record.empty(); record = next_record(rest)) {
    RecordBuffer& to = load<std::uint32_t>(record.data()) == PERF_RECORD_SAMPLE ? samples : sideband;
    to.insert(to.end(), record.begin(), record.end());
    rest = rest.subspan(record.size());
  }
  write_made_file(file->get(), sideband, {.compressed = true, .bare = {samples}});
  const auto bare = open_file(stored + "/data.0", O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_TRUE(bare && write_all(bare->get(), packed_records(samples)));
  bench.backend.file_to_read = stored;
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "1", "--format", "folded", "-o", "-"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(sorted_lines(outcome.out).size(), 2U);
}

TEST_F(ExportTest, SaysWhatIsWrong) {
  run_with_a_snapshot();
  const Outcome without = ctl({"export", "1"});
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("--format"));
  const Outcome other = ctl({"export", "1", "--format", "perf"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("it must be folded, pprof or firefox, not 'perf'"));
  const Outcome labels = ctl({"export", "1", "--format", "folded", "--labels", "tid"});
  EXPECT_EQ(labels.code, 2);
  EXPECT_THAT(labels.err, HasSubstr("only --format pprof has labels"));
  for (const char* wrong : {"comm", "tid,", ",tid", "tid cpu", "tid,\x1b[2J"}) {
    const Outcome unknown = ctl({"export", "1", "--format", "pprof", "--labels", wrong});
    EXPECT_EQ(unknown.code, 2) << wrong;
    EXPECT_THAT(unknown.err, AllOf(HasSubstr("it must be thread, tid or cpu"), Not(HasSubstr("\x1b"))));
  }
  EXPECT_EQ(error_of(ctl({"--json", "export", "98", "--format", "folded"})), "io.flightd.Recorder.NoSuchSnapshot");
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(ExportTest, ABrokenSnapshotLeavesNoFile) {
  fs::resize_file(data_, fs::file_size(data_) / 2);
  run_with_a_snapshot();
  const Outcome outcome = ctl({"export", "1", "--format", "folded"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, Not(IsEmpty()));
  EXPECT_EQ(error_of(ctl({"--json", "export", "1", "--format", "folded"})), "io.flightd.Client.OutputFailed");
  EXPECT_FALSE(fs::exists(name_));
}

}  // namespace
}  // namespace flight
