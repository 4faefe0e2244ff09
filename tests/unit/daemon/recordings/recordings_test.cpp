// SPDX-License-Identifier: Apache-2.0
// Recordings of real rings into a real directory, with a fake broker: parts, ends, refusals.
#include "daemon/recordings/recordings.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/store/names.hpp"
#include "libcore/stream/journal.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace fs = std::filesystem;

constexpr EventTime kSecondNs = 1'000'000'000;

// A client of Record.
struct RecordCall {
  std::shared_ptr<int> client = std::make_shared<int>(0);
  std::vector<RecordStep> steps;
  std::optional<CallResult<std::string>> answer;

  [[nodiscard]] std::string error() const {
    if (!answer) return "not answered";
    return *answer ? "no error" : answer->error().name + " " + answer->error().parameters;
  }
  [[nodiscard]] RecordResult result() const {
    if (!answer || !*answer) return {};
    auto parsed = parse_record_result(**answer);
    EXPECT_TRUE(parsed) << **answer;
    return parsed ? std::move(*parsed) : RecordResult();
  }
};

// A trigger whose action is a recording.
struct TriggersCall {
  std::vector<std::string> begun;
  std::optional<CallResult<std::string>> answer;
};

class RecordingsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    rings_ = rings();
    ASSERT_TRUE(rings_);
    ASSERT_NO_FATAL_FAILURE(bench_.start(
        {.rings = rings_, .folder = bench_.snapshots(), .processes = scan_with(kUnknownPid, "first")}, followed_));
    StoreConfig store;
    store.keep_free = SizeOrShare{.bytes = 0};
    store_ = std::make_unique<StoreService>(
        loop_.io, TaskThread::start("store").value(),
        StoreService::Setup{
            .folder = bench_.snapshots(), .state_dir = bench_.folder, .boot_id = "boot", .config = store},
        [] {});
    config_.record.workers = "1";
    const WaitingClock& used = clock_ ? static_cast<const WaitingClock&>(*clock_) : WaitingClock::monotonic();
    recordings_ = std::make_unique<Recordings>(loop_.io, TaskThread::start("recordings").value(), *bench_.recorder,
                                               *store_, host_, config_, used);
  }
  void TearDown() override {
    hold_.open();
    recordings_.reset();
    store_.reset();
  }
  [[nodiscard]] std::shared_ptr<const Recording> rings() const { return small_recording(kBusy, {}, {}, ring_bytes_); }

  void record(RecordCall& call, RecordParameters parameters = {}) {
    recordings_->record(caller_, std::move(parameters),
                        {.client = call.client,
                         .step =
                             [&call](const std::string& id, const std::optional<RecordProgress>& progress) {
                               call.steps.push_back({.id = id, .progress = progress});
                             }},
                        [&call](CallResult<std::string> got) {
                          EXPECT_FALSE(call.answer) << "answered twice";
                          call.answer = std::move(got);
                        });
  }
  // For an hour.
  void record_for(const std::string& trigger, TriggersCall& call, EventTime since_ns = monotonic_now()) {
    recordings_->record(
        {.trigger = trigger, .reason = "cpu.busy 99 %", .since_ns = since_ns, .for_ns = 3600 * kSecondNs},
        [&call](const std::string& id) { call.begun.push_back(id); },
        [&call](CallResult<std::string> got) {
          EXPECT_FALSE(call.answer) << "answered twice";
          call.answer = std::move(got);
        });
  }
  void begin(RecordCall& call, RecordParameters parameters = {}) {
    record(call, std::move(parameters));
    ASSERT_TRUE(loop_.until([&] { return !call.steps.empty() || call.answer; }));
    ASSERT_FALSE(call.answer) << call.error();
    EXPECT_FALSE(call.steps.front().progress) << "first the id";
  }
  RecordResult stop(RecordCall& call) {
    std::optional<CallResult<std::string>> stopped;
    recordings_->stop(call.steps.front().id, [&](CallResult<std::string> got) { stopped = std::move(got); });
    EXPECT_TRUE(loop_.until([&] { return call.answer && stopped; }));
    EXPECT_TRUE(stopped && *stopped && call.answer && *call.answer && **stopped == **call.answer)
        << "both get the same result";
    return call.result();
  }
  [[nodiscard]] std::vector<std::string> files(std::string_view suffix) const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(bench_.snapshots()))
      if (const std::string name = entry.path().filename(); name.ends_with(suffix)) out.push_back(name);
    return out;
  }
  // The size of the data that is not in the store yet.
  [[nodiscard]] std::uint64_t open_bytes() const {
    std::uint64_t bytes = 0;
    for (const std::string& name : files("")) {
      const auto part = parse_part_file(name);
      if (!part || part->kind != PartFileKind::data) continue;
      std::error_code gone;
      if (const auto size = fs::file_size(bench_.snapshots() + "/" + name, gone); !gone) bytes += size;
    }
    return bytes;
  }
  // Causes page faults until so much more of them is written.
  void fill(const RecordCall& call, std::uint64_t bytes) {
    const std::uint64_t before = open_bytes();
    ASSERT_TRUE(loop_.until([&] {
      fault(400);
      return call.answer || open_bytes() >= before + bytes;
    }));
    ASSERT_FALSE(call.answer) << call.error();
  }
  static Sidecar sidecar_of(const std::string& data_path) {
    const std::string path = data_path.substr(0, data_path.size() - kDataSuffix.size()) + std::string(kSidecarSuffix);
    const auto text = read_file(path);
    auto sidecar = text ? parse_sidecar(*text) : Result<Sidecar>(propagate(text.error()));
    EXPECT_TRUE(sidecar) << sidecar.error().what;
    return sidecar ? std::move(*sidecar) : Sidecar();
  }
  static std::uint64_t samples_in(const std::string& path) {
    std::uint64_t samples = 0;
    const auto reader = FileReader::open(path);
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return 0;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          samples += load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE ? 1 : 0;
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return samples;
  }

  // Those of this process.
  static std::uint64_t own_samples_in(const std::string& path) {
    const auto reader = FileReader::open(path);
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return 0;
    const auto is_faults = [](const auto& event) { return event.name.find(kBusy) != std::string::npos; };
    const auto faults = std::find_if(reader->events().begin(), reader->events().end(), is_faults);
    EXPECT_NE(faults, reader->events().end());
    if (faults == reader->events().end()) return 0;
    // header, then what perf_event_open(2) says: id, ip, pid.
    const std::uint64_t type = faults->attr.sample_type;
    EXPECT_NE(type & PERF_SAMPLE_TID, 0U);
    const std::size_t at = sizeof(perf_event_header) + ((type & PERF_SAMPLE_IDENTIFIER) != 0 ? 8U : 0U) +
                           ((type & PERF_SAMPLE_IP) != 0 ? 8U : 0U);
    std::uint64_t samples = 0;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          const bool is_sample = load<perf_event_header>(record.data()).type == PERF_RECORD_SAMPLE;
          if (is_sample && load<std::uint32_t>(record.data() + at) == static_cast<std::uint32_t>(::getpid())) ++samples;
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return samples;
  }

  std::uint64_t ring_bytes_ = 64U << 10U;
  bool followed_ = false;  // as RecorderBench::start
  Loop loop_;
  Gate hold_;  // for the threads of bench_
  RecorderBench bench_;
  std::shared_ptr<const Recording> rings_;
  HostFacts host_ = HostFacts::read({"test"});
  Config config_;
  const Caller caller_{.uid = 0, .gid = 0, .pid = ::getpid(), .comm = "unit-daemon", .groups = {}};
  std::unique_ptr<StoreService> store_;
  std::optional<VirtualClock> clock_;  // of the one recording, if the test makes it before SetUp()
  std::unique_ptr<Recordings> recordings_;
};

// Its clock stands until the test advances it: what a recording does once a second, or after its time.
class RecordingTimesTest : public RecordingsTest {
 protected:
  RecordingTimesTest() { clock_.emplace(); }
};

// In rings of this size nothing is overwritten, however many page faults flightd and a sanitizer cause.
class LargeRingsTest : public RecordingsTest {
 protected:
  LargeRingsTest() { ring_bytes_ = 4U << 20U; }
};

// The same, with a clock that stands. A recording looks for other rings once a second.
class OtherRingsTest : public LargeRingsTest {
 protected:
  OtherRingsTest() { clock_.emplace(); }

  // As at a reload that changes a channel: the broker has other rings.
  void change_rings(const std::shared_ptr<const Recording>& others) {
    bench_.broker->change([&](BrokerSetup& setup) { setup.rings = others; });
    bench_.broker->say(Request::changed);
    ASSERT_TRUE(soon([&] { return bench_.changed >= 1; }));
    clock_->advance(std::chrono::seconds(1));
  }
};

TEST_F(LargeRingsTest, ARecordingHasThePastAndWhatFollows) {
  fault(100);
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.past_ns = 3'600'000'000'000, .for_ns = {}, .reason = "slow"}));
  const std::string id = call.steps.front().id;
  EXPECT_EQ(recordings_->running_id(), id);
  fault(200);
  const RecordResult result = stop(call);
  EXPECT_EQ(result.id, id);
  EXPECT_EQ(result.ended, "asked");
  EXPECT_THAT(result.progress.finished, ElementsAre(id));
  EXPECT_THAT(result.warnings, Contains(HasSubstr("that were asked for"))) << "the rings are younger than an hour";
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  EXPECT_EQ(sidecar.id, id);
  EXPECT_EQ(sidecar.trigger, "record");
  EXPECT_EQ(sidecar.capture, "live");
  EXPECT_EQ(sidecar.reason, "slow");
  ASSERT_EQ(sidecar.requests.size(), 1U);
  ASSERT_TRUE(sidecar.record);
  EXPECT_EQ(sidecar.record->first, id);
  EXPECT_EQ(sidecar.record->part, 1U);
  EXPECT_EQ(sidecar.record->ended, "asked");
  EXPECT_EQ(sidecar.record->holes_known, true);
  EXPECT_GE(own_samples_in(result.paths[0]), 300U) << "those of other processes do not count";
  EXPECT_EQ(sidecar.samples, samples_in(result.paths[0]));
  EXPECT_EQ(sidecar.samples, result.progress.events);
  EXPECT_GT(sidecar.window.seconds, 0);
  EXPECT_THAT(files(kPartialSuffix), IsEmpty()) << "neither a journal nor a file that is not whole";
  EXPECT_EQ(recordings_->running_id(), "");
}

// The recording has the events that happen while its files are made.
TEST_F(LargeRingsTest, WithoutAPastItBeginsWhenItIsAskedFor) {
  fault(100);
  const EventTime before_ns = monotonic_now();
  bench_.broker->leave(Request::file);
  RecordCall call;
  record(call);
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) == 1; }));
  fault(200);
  bench_.broker->obey(Request::file);
  bench_.broker->say(Request::file);
  ASSERT_TRUE(loop_.until([&] { return !call.steps.empty() || call.answer; }));
  ASSERT_FALSE(call.answer) << call.error();
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  EXPECT_GE(own_samples_in(result.paths[0]), 200U);
  EXPECT_GE(sidecar.window.begin_ns, before_ns) << "and nothing that was before";
  EXPECT_TRUE(sidecar.holes.empty());
}

TEST_F(RecordingTimesTest, PartsFollowEachOtherOnceASecond) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  const auto fill_until = [&](std::size_t parts) {
    return loop_.until([&] {
      fault(400);
      return files(kDataSuffix).size() >= parts || call.answer;
    });
  };
  ASSERT_TRUE(fill_until(1));
  const auto asked = bench_.broker->asked(Request::file);
  ASSERT_NO_FATAL_FAILURE(fill(call, 16384));
  EXPECT_EQ(bench_.broker->asked(Request::file), asked) << "the second one is full, and no second has passed";
  EXPECT_EQ(files(kDataSuffix).size(), 1U);
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(fill_until(2));
  fault(400);
  const RecordResult result = stop(call);
  ASSERT_GE(result.paths.size(), 3U);
  ASSERT_EQ(result.paths.size(), result.progress.finished.size());
  std::uint64_t samples = 0;
  for (std::size_t i = 0; i < result.paths.size(); ++i) {
    const Sidecar sidecar = sidecar_of(result.paths[i]);
    ASSERT_TRUE(sidecar.record);
    EXPECT_EQ(sidecar.id, result.progress.finished[i]);
    EXPECT_EQ(sidecar.record->first, result.id);
    EXPECT_EQ(sidecar.record->part, i + 1);
    EXPECT_EQ(sidecar.record->ended, i + 1 == result.paths.size() ? std::optional<std::string>("asked") : std::nullopt);
    EXPECT_GT(sidecar.samples, 0U) << "its prologue alone does not fill a part";
    EXPECT_EQ(sidecar.samples, samples_in(result.paths[i]));
    samples += sidecar.samples;
  }
  EXPECT_EQ(samples, result.progress.events);
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

// The next part cannot be begun, and nothing of it is left.
TEST_F(RecordingsTest, TheLastPartInTheStoreSaysWhyItEnded) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  bench_.broker->change([](BrokerSetup& setup) { setup.dirty_files = true; });
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer.has_value();
  }));
  const RecordResult result = call.result();
  EXPECT_EQ(result.ended, "disk");
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  EXPECT_EQ(sidecar.record->ended, "disk");
  EXPECT_THAT(sidecar.warnings, Contains(HasSubstr("not empty")));
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

// It is finished by this flightd, not only by the next one.
TEST_F(RecordingsTest, APartThatIsNotInTheStoreIsTriedAgain) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  const std::string id = call.steps.front().id;
  const auto begun = parse_sidecar(
      read_file(bench_.snapshots() + "/" + part_file(PartFileKind::sidecar, *parse_seq(id))).value_or(""));
  ASSERT_TRUE(begun) << begun.error().what;
  std::ofstream(begun->path) << "in the way";
  const auto asked = bench_.broker->asked(Request::file);
  recordings_->stop(id, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_THAT(call.error(), HasSubstr("rename"));
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) >= asked + 3; }))
      << "one for its sidecar, and two to recover it";
  EXPECT_THAT(files(kPartialSuffix), Contains(part_file(PartFileKind::journal, *parse_seq(id))));
  EXPECT_EQ(read_file(begun->path).value_or(""), "in the way");
}

TEST(PartContextTest, EachWarningIsSaidOnceAndNotWithoutALimit) {
  PartContext context(RecordedRings(), std::make_shared<const KernelSymbols>(), KernelWindow(),
                      HostFacts::read({"test"}));
  context.warn({"one", "two"});
  context.warn({"two"});
  EXPECT_THAT(context.warnings(), ElementsAre("one", "two"));
  for (int i = 0; i < 100; ++i) context.warn({fmt::format("number {}", i)});
  EXPECT_EQ(context.warnings().size(), PartContext::kMaxWarnings);
}

TEST(PartContextTest, EachBuildIdIsForTheJournalOnce) {
  PartContext context(RecordedRings(), std::make_shared<const KernelSymbols>(), KernelWindow(),
                      HostFacts::read({"test"}));
  const TrackerExport::UserBuildId one{.id = {.bytes = {1, 2}, .size = 20}, .name = "/one"};
  const TrackerExport::UserBuildId two{.id = {.bytes = {3}, .size = 8}, .name = "/two"};
  context.add_build_ids({one});
  ASSERT_EQ(context.more_build_ids().size(), 1U);
  context.add_build_ids({one, two});
  const std::vector<FileBuildId> more = context.more_build_ids();
  ASSERT_EQ(more.size(), 1U);
  EXPECT_EQ(more[0].name, "/two");
  EXPECT_THAT(more[0].id, ElementsAre(3, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(more[0].kernel);
  EXPECT_TRUE(context.more_build_ids().empty());
}

TEST_F(RecordingsTest, ABrokerThatWasGoneIsInTheSidecar) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  const EventTime lost_ns = monotonic_now();
  fault(100);
  const EventTime back_ns = monotonic_now();
  bench_.recorder->gaps().without_broker(lost_ns, back_ns);
  // A part may be longer than what the rings hold, and snapshots are taken meanwhile.
  const auto cpus = online_cpus();
  ASSERT_TRUE(cpus);
  ASSERT_TRUE(soon([&] {
    for (const int cpu : *cpus) {
      const OnCpu there(cpu);
      fault(400);
    }
    return bench_.recorder->oldest_held_ns() > back_ns;
  }));
  EXPECT_THAT(bench_.recorder->gaps().warnings(0, UINT64_MAX, bench_.recorder->oldest_held_ns()), IsEmpty());
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  EXPECT_THAT(sidecar_of(result.paths[0]).warnings, Contains(HasSubstr("flightd-broker was gone from")));
}

// Its destructor runs on the event loop, which must not free hundreds of MiB.
TEST_F(RecordingsTest, ItsMemoryIsFreeWhenItHasEnded) {
  const auto attached = bench_.recorder->attached();
  const auto uses = attached.use_count();
  std::promise<bool> freed;
  RecordingOrder order;
  order.for_ns = 1;
  order.max_bytes = order.part_bytes = 64U << 20U;
  order.workers = "1";
  auto running =
      RunningRecording::start({.recorder = *bench_.recorder, .store = *store_, .host = host_}, std::move(order),
                              {.begun = [](const std::string&) {},
                               .progress = [](const std::string&, const RecordProgress&) {},
                               .ended =
                                   [&](const RecordingOutcome& outcome) {
                                     EXPECT_TRUE(outcome.result);
                                     // The recorder's thread has another one for a moment.
                                     freed.set_value(soon([&] { return attached.use_count() <= uses; }));
                                   },
                               .warn = [](const Error&) {}});
  ASSERT_TRUE(running) << running.error().what;
  EXPECT_TRUE(freed.get_future().get());
}

// A data directory has a file for each worker, also for one that has no ring.
TEST_F(LargeRingsTest, APartCanBeADirectory) {
  RecordingOrder order;
  order.for_ns = 300'000'000;
  order.asked_ns = monotonic_now();
  order.since_ns = 1;
  order.max_bytes = order.part_bytes = 64U << 20U;
  order.workers = "3";
  order.directory = true;
  fault(100);
  std::promise<Result<RecordResult>> ended;
  auto running =
      RunningRecording::start({.recorder = *bench_.recorder, .store = *store_, .host = host_}, std::move(order),
                              {.begun = [](const std::string&) {},
                               .progress = [](const std::string&, const RecordProgress&) {},
                               .ended = [&](const RecordingOutcome& outcome) { ended.set_value(outcome.result); },
                               .warn = [](const Error&) {}});
  ASSERT_TRUE(running) << running.error().what;
  const auto result = ended.get_future().get();
  ASSERT_TRUE(result) << result.error().what;
  ASSERT_EQ(result->paths.size(), 1U);
  const std::string& path = result->paths[0];
  std::vector<std::string> names;
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(path)) {
    names.push_back(entry.path().filename());
    bytes += entry.file_size();
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("data", "data.0", "data.1", "data.2"));
  const Sidecar sidecar = sidecar_of(path);
  EXPECT_EQ(sidecar.size_bytes, bytes);
  EXPECT_EQ(sidecar.samples, samples_in(path));
  EXPECT_GE(own_samples_in(path), 100U);
  EXPECT_EQ(samples_in(path + "/data"), 0U) << "these are in the other files";
  EXPECT_THAT(files(kPartialSuffix), IsEmpty());
}

// The broker's thread has others to serve, and a machine may map files all the time.
TEST_F(RecordingTimesTest, TheBrokerIsAskedForBuildIdsOnceASecond) {
  const auto map_code = [] {
    const UniqueFd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    constexpr std::size_t kPage = 4096;
    void* code = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
    ASSERT_NE(code, MAP_FAILED);
    ::munmap(code, kPage);
  };
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  const auto map_until_asked = [&](std::ptrdiff_t times) {
    return loop_.until([&] {
      map_code();
      fault(400);
      return call.answer || bench_.broker->asked(Request::build_ids) >= times;
    });
  };
  const auto map_for_rounds = [&] {
    for (int i = 0; i < 4; ++i) {
      ASSERT_NO_FATAL_FAILURE(map_code());
      ASSERT_NO_FATAL_FAILURE(fill(call, 8192));
    }
  };
  const auto begun = bench_.broker->asked(Request::build_ids);
  ASSERT_TRUE(map_until_asked(begun + 1));
  ASSERT_NO_FATAL_FAILURE(map_for_rounds());
  EXPECT_EQ(bench_.broker->asked(Request::build_ids), begun + 1);
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(map_until_asked(begun + 2));
  ASSERT_NO_FATAL_FAILURE(map_for_rounds());
  EXPECT_EQ(bench_.broker->asked(Request::build_ids), begun + 2);
  static_cast<void>(stop(call));
}

// Maps a memfd: nothing else maps its inode, and no file system gives it another number.
class MappedLastTest : public RecordingsTest {
 protected:
  static constexpr const char* kMappedName = "/memfd:mapped-last (deleted)";
  static constexpr std::size_t kPage = 4096;

  void make_file() {
    file_ = UniqueFd(::memfd_create("mapped-last", MFD_CLOEXEC));
    ASSERT_TRUE(file_);
    ASSERT_EQ(::ftruncate(file_.get(), kPage), 0);
  }
  // This process maps it as code, for a moment.
  void map_file() {
    if (!file_) {
      ASSERT_NO_FATAL_FAILURE(make_file());
    }
    void* code = ::mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_PRIVATE, file_.get(), 0);
    ASSERT_NE(code, MAP_FAILED);
    ::munmap(code, kPage);
  }
  // As its mapping's record has it, but for the generation.
  [[nodiscard]] FileIdentity identity() const {
    struct stat status {};
    EXPECT_EQ(::fstat(file_.get(), &status), 0);
    return {.major = major(status.st_dev), .minor = minor(status.st_dev), .inode = status.st_ino, .generation = 0};
  }

  UniqueFd file_;
};

// Its record was written with the broker's last reply, which did not have it yet.
TEST_F(MappedLastTest, AFileHasItsBuildIdInTheList) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(map_file());
  const std::size_t steps = call.steps.size();
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.steps.size() >= steps + 2 || call.answer;
  }));
  ASSERT_FALSE(call.answer) << call.error();
  bench_.broker->change([&](BrokerSetup& setup) {
    setup.known_files.files.push_back({.file = identity(), .build_id = std::vector<std::uint8_t>(20, 0x42)});
  });
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const auto reader = FileReader::open(result.paths[0]);
  ASSERT_TRUE(reader) << reader.error().what;
  const auto found = reader->features().find(kFeatureBuildId);
  ASSERT_NE(found, reader->features().end());
  const std::string list(reinterpret_cast<const char*>(found->second.data()), found->second.size());
  EXPECT_THAT(list, HasSubstr(kMappedName));
  EXPECT_THAT(list, HasSubstr(std::string(20, '\x42')));
}

// For the next flightd, if this one is killed.
TEST_F(MappedLastTest, AKnownFileIsInTheJournalOfTheOpenPart) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(make_file());
  bench_.broker->change([&](BrokerSetup& setup) {
    setup.known_files.files.push_back({.file = identity(), .build_id = std::vector<std::uint8_t>(20, 0x42)});
  });
  const std::string path =
      bench_.snapshots() + "/" + part_file(PartFileKind::journal, parse_seq(call.steps.front().id).value());
  const auto is_in_journal = [&path] {
    const auto text = read_file(path);
    if (!text) return false;
    const auto journal = parse_journal(std::as_bytes(std::span(*text)));
    if (!journal) return false;
    return std::any_of(journal->notes.begin(), journal->notes.end(), [](const auto& one) {
      const std::vector<std::byte>& ids = one.second.build_ids;
      return std::string(reinterpret_cast<const char*>(ids.data()), ids.size()).find(kMappedName) != std::string::npos;
    });
  };
  // Again and again: the broker is asked once a second.
  ASSERT_TRUE(loop_.until([&] {
    map_file();
    fault(400);
    return call.answer || is_in_journal();
  }));
  ASSERT_FALSE(call.answer) << call.error();
  static_cast<void>(stop(call));
}

TEST_F(MappedLastTest, WithoutABuildIdItHasAReason) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  ASSERT_NO_FATAL_FAILURE(map_file());
  bench_.broker->change([&](BrokerSetup& setup) { setup.known_files.waiting.push_back({.file = identity()}); });
  fault(400);
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  EXPECT_THAT(sidecar_of(result.paths[0]).notes,
              Contains(HasSubstr("build-id unread, later: not read yet with flightd-broker's share of a CPU (1 of ")));
}

TEST_F(RecordingsTest, ItEndsAtItsSize) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.max_bytes = 8192}));
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer.has_value();
  }));
  EXPECT_EQ(call.result().ended, "max_size");
  EXPECT_GE(call.result().progress.bytes, 8192U);
  for (const std::string& path : call.result().paths) EXPECT_GT(sidecar_of(path).samples, 0U) << path;
}

// Other programs write to this disk, too.
TEST_F(RecordingsTest, ItLeavesHalfOfADiskWithLessThanKeepFree) {
  ASSERT_EQ(::mount("none", bench_.snapshots().c_str(), "tmpfs", 0, "size=6M"), 0);
  const std::string disk = bench_.snapshots();
  const std::unique_ptr<const std::string, void (*)(const std::string*)> mounted(
      &disk, [](const std::string* path) { ::umount2(path->c_str(), MNT_DETACH); });
  StoreConfig store;
  store.keep_free = SizeOrShare{.bytes = 1ULL << 40U};
  store.max_use = SizeOrShare{.bytes = 1ULL << 40U};
  store_->configure(store);
  const std::uint64_t free_bytes = fs::space(disk).available;
  config_.snapshot.compression = "none";
  recordings_->configure(config_);
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.part_bytes = 4096}));
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    return call.answer.has_value();
  }));
  EXPECT_EQ(call.result().ended, "budget");
  EXPECT_GE(call.result().paths.size(), 1U);
  EXPECT_GE(fs::space(disk).available, free_bytes / 2 - (512U << 10U));
}

// They, and not each of them, have max_use.
TEST_F(RecordingsTest, TwoShareTheBudget) {
  constexpr std::uint64_t kMaxUse = 3U << 20U;
  StoreConfig store;
  store.keep_free = SizeOrShare{.bytes = 0};
  store.max_use = SizeOrShare{.bytes = kMaxUse};
  store_->configure(store);
  config_.snapshot.compression = "none";
  recordings_->configure(config_);
  RecordCall first, second;
  ASSERT_NO_FATAL_FAILURE(begin(first, {.part_bytes = 4096}));
  ASSERT_NO_FATAL_FAILURE(begin(second, {.part_bytes = 4096}));
  std::uint64_t most_bytes = 0;
  ASSERT_TRUE(loop_.until([&] {
    fault(400);
    std::uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(bench_.snapshots())) {
      std::error_code gone;
      if (const auto size = entry.file_size(gone); !gone) bytes += size;
    }
    most_bytes = std::max(most_bytes, bytes);
    return first.answer && second.answer;
  }));
  EXPECT_EQ(first.result().ended, "budget");
  EXPECT_EQ(second.result().ended, "budget");
  EXPECT_LT(most_bytes, kMaxUse + kMaxUse / 2);
}

TEST_F(RecordingsTest, ItEndsAfterItsTime) {
  RecordCall call;
  record(call, {.for_ns = 1});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  EXPECT_EQ(call.result().paths.size(), 1U);
}

TEST_F(RecordingTimesTest, ItDoesNotEndBeforeItsTime) {
  const EventTime begun_ns = clock_->now();
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call, {.for_ns = 3600 * kSecondNs}));
  clock_->advance(std::chrono::hours(1) - std::chrono::nanoseconds(1));
  ASSERT_TRUE(clock_->is_waited_for(begun_ns + 3600 * kSecondNs)) << "its next progress would be later";
  loop_.poll();
  ASSERT_FALSE(call.answer) << call.error();
  clock_->advance(std::chrono::nanoseconds(1));
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  EXPECT_DOUBLE_EQ(call.result().progress.seconds, 3600);
}

TEST_F(RecordingTimesTest, ItReportsItsProgressOnceASecond) {
  const EventTime begun_ns = clock_->now();
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  // The last one: for a while the recording's thread did not run.
  const std::vector<EventTime> seconds{1, 2, 12};
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const EventTime now_ns = clock_->now();
    ASSERT_TRUE(clock_->is_waited_for(now_ns + kSecondNs));
    loop_.poll();
    EXPECT_EQ(call.steps.size(), 1 + i);
    clock_->advance(std::chrono::nanoseconds(begun_ns + seconds[i] * kSecondNs - now_ns));
    ASSERT_TRUE(loop_.until([&] { return call.steps.size() >= 2 + i || call.answer; }));
    ASSERT_FALSE(call.answer) << call.error();
    ASSERT_TRUE(call.steps.back().progress);
    EXPECT_DOUBLE_EQ(call.steps.back().progress->seconds, static_cast<double>(seconds[i]));
  }
  static_cast<void>(stop(call));
}

// The time until the workers run does not count: here the recording waits for the recorder's thread.
TEST_F(RecordingTimesTest, ItsTimeBeginsWithItsWorkers) {
  const EventTime asked_ns = clock_->now();
  hold_.close();
  bench_.recorder->set_recording(true, "a test", [this](const Result<void>&) { hold_.pass(); });
  ASSERT_TRUE(hold_.wait_for_one());
  const auto asked = bench_.broker->asked(Request::kernel);
  RecordCall call;
  record(call, {.for_ns = kSecondNs});
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::kernel) > asked; })) << "for its first part";
  clock_->advance(std::chrono::seconds(1));
  hold_.open();
  ASSERT_TRUE(clock_->is_waited_for(asked_ns + 2 * kSecondNs));
  loop_.poll();
  ASSERT_FALSE(call.answer) << call.error();
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
}

TEST_F(RecordingsTest, AThirdOneIsRefused) {
  RecordCall first, second, third;
  ASSERT_NO_FATAL_FAILURE(begin(first));
  ASSERT_NO_FATAL_FAILURE(begin(second, {.channels = {"faults"}}));
  record(third);
  ASSERT_TRUE(third.answer);
  EXPECT_THAT(third.error(), HasSubstr("RecordingRefused"));
  EXPECT_THAT(third.error(), HasSubstr(first.steps.front().id + ", " + second.steps.front().id));
  static_cast<void>(stop(first));
  RecordCall fourth;
  ASSERT_NO_FATAL_FAILURE(begin(fourth));
  static_cast<void>(stop(second));
  static_cast<void>(stop(fourth));
}

TEST_F(LargeRingsTest, ATriggersHasThePastSinceThen) {
  fault(100);
  const EventTime since_ns = monotonic_now();
  fault(100);
  TriggersCall call;
  record_for("hot", call, since_ns);
  ASSERT_TRUE(loop_.until([&] { return !call.begun.empty() || call.answer; }));
  ASSERT_THAT(call.begun, ElementsAre(recordings_->running_id()));
  const std::string id = call.begun.front();
  EXPECT_THAT(recordings_->notes(), ElementsAre(AllOf(HasSubstr("of trigger hot is running"),
                                                      HasSubstr("`flightctl record --stop " + id + "` ends it"))));
  fault(100);
  recordings_->stop(id, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  ASSERT_TRUE(*call.answer) << call.answer->error().parameters;
  const auto result = parse_record_result(**call.answer);
  ASSERT_TRUE(result) << result.error().what;
  EXPECT_EQ(result->ended, "asked");
  ASSERT_EQ(result->paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result->paths[0]);
  EXPECT_EQ(sidecar.reason, "trigger hot: cpu.busy 99 %");
  ASSERT_EQ(sidecar.requests.size(), 1U);
  EXPECT_EQ(sidecar.requests[0].comm, "flightd");
  EXPECT_GE(sidecar.window.begin_ns, since_ns) << "the snapshot has what was before";
  EXPECT_GE(own_samples_in(result->paths[0]), 200U) << "also those before it began";
}

// The ring turns before the recording begins.
TEST_F(RecordingsTest, ATriggersSaysWhatTheRingsDidNotHoldAnyMore) {
  const EventTime since_ns = monotonic_now();
  fault(4096);
  TriggersCall call;
  record_for("hot", call, since_ns);
  ASSERT_TRUE(loop_.until([&] { return !call.begun.empty() || call.answer; }));
  ASSERT_EQ(call.begun.size(), 1U);
  recordings_->stop(call.begun.front(), [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  ASSERT_TRUE(*call.answer) << call.answer->error().parameters;
  const auto result = parse_record_result(**call.answer);
  ASSERT_TRUE(result && result->paths.size() == 1) << **call.answer;
  const Sidecar sidecar = sidecar_of(result->paths[0]);
  const auto is_said = [&](const SidecarHole& hole) {
    return hole.cause == "overwritten" && hole.begin_ns >= since_ns && hole.end_ns > hole.begin_ns && hole.lost > 0;
  };
  EXPECT_TRUE(std::any_of(sidecar.holes.begin(), sidecar.holes.end(), is_said)) << **call.answer;
  EXPECT_THAT(sidecar.warnings, Contains(HasSubstr("of the rings' events are not in this part")));
}

// Otherwise one trigger would use both slots.
TEST_F(RecordingsTest, ATriggerThatFiresAgainHasOneRecording) {
  TriggersCall first, again, other, third;
  record_for("hot", first);
  ASSERT_TRUE(loop_.until([&] { return !first.begun.empty() || first.answer; }));
  record_for("hot", again);
  record_for("other", other);
  ASSERT_TRUE(loop_.until([&] { return !other.begun.empty() || other.answer; }));
  EXPECT_FALSE(again.answer) << "it waits for the end of the first one";
  EXPECT_THAT(again.begun, IsEmpty());
  EXPECT_EQ(recordings_->notes().size(), 2U);
  record_for("third", third);
  ASSERT_TRUE(third.answer && !*third.answer) << "two run already";
  EXPECT_THAT(error_message(third.answer->error()),
              HasSubstr("2 recordings run already (" + first.begun.front() + ", " + other.begun.front() + ")"));
  EXPECT_THAT(third.begun, IsEmpty());
  for (const std::string& id : {first.begun.front(), other.begun.front()})
    recordings_->stop(id, [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return first.answer && again.answer && other.answer; }));
  ASSERT_TRUE(*first.answer && *again.answer && *other.answer);
  EXPECT_EQ(**first.answer, **again.answer);
  // That one has ended: the next firing begins another one.
  TriggersCall next;
  record_for("hot", next);
  ASSERT_TRUE(loop_.until([&] { return !next.begun.empty() || next.answer; }));
  ASSERT_EQ(next.begun.size(), 1U);
  EXPECT_NE(next.begun.front(), first.begun.front());
  recordings_->stop(next.begun.front(), [](const CallResult<std::string>&) {});
  ASSERT_TRUE(loop_.until([&] { return next.answer.has_value(); }));
}

TEST_F(RecordingTimesTest, ATriggerThatFiresAgainHasItsWholeTimeFromThen) {
  const EventTime begun_ns = clock_->now();
  TriggersCall first, again;
  record_for("hot", first);
  ASSERT_TRUE(loop_.until([&] { return !first.begun.empty() || first.answer; }));
  ASSERT_FALSE(first.answer);
  clock_->advance(std::chrono::minutes(30));
  record_for("hot", again);
  clock_->advance(std::chrono::minutes(45));
  ASSERT_TRUE(clock_->is_waited_for(begun_ns + 75 * 60 * kSecondNs + kSecondNs)) << "for its next progress";
  loop_.poll();
  EXPECT_FALSE(first.answer || again.answer);
  clock_->advance(std::chrono::minutes(15));
  ASSERT_TRUE(loop_.until([&] { return first.answer && again.answer; }));
  ASSERT_TRUE(*first.answer && *again.answer);
  EXPECT_EQ(**first.answer, **again.answer);
}

TEST_F(RecordingTimesTest, ItGoesOnAfterItsTimeIfItIsAskedTo) {
  std::atomic<bool> goes_on = false, ended = false;
  bench_.broker->leave(Request::file);
  RecordingOrder order;
  order.for_ns = 1;
  order.max_bytes = order.part_bytes = 64U << 20U;
  order.workers = "1";
  auto running =
      RunningRecording::start({.recorder = *bench_.recorder, .store = *store_, .host = host_}, std::move(order),
                              {.begun = [](const std::string&) {},
                               .progress = [&](const std::string&, const RecordProgress&) { goes_on = true; },
                               .ended = [&](const RecordingOutcome&) { ended = true; },
                               .warn = [](const Error&) {}},
                              *clock_);
  ASSERT_TRUE(running) << running.error().what;
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) == 1; }));
  const EventTime begun_ns = clock_->now();
  EXPECT_TRUE((*running)->go_on_until(begun_ns + 3600 * kSecondNs));
  EXPECT_TRUE((*running)->go_on_until(1)) << "the later time counts";
  bench_.broker->obey(Request::file);
  bench_.broker->say(Request::file);
  ASSERT_TRUE(clock_->is_waited_for(begun_ns + kSecondNs));
  clock_->advance(std::chrono::seconds(1));
  EXPECT_TRUE(soon([&] { return goes_on || ended; }));
  EXPECT_TRUE(goes_on.load()) << "a second after it began";
  EXPECT_FALSE(ended.load());
  clock_->advance(std::chrono::hours(1));
  EXPECT_TRUE(soon([&] { return ended.load(); }));
  EXPECT_FALSE((*running)->go_on_until(UINT64_MAX));
}

TEST_F(RecordingsTest, AClientThatGoesAwayEndsItsRecording) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  call.client.reset();
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  EXPECT_EQ(call.result().paths.size(), 1U);
}

TEST_F(RecordingsTest, WhatCannotBeginLeavesNothing) {
  RecordCall unknown;
  record(unknown, {.channels = {"no\nsuch"}});
  ASSERT_TRUE(loop_.until([&] { return unknown.answer.has_value(); }));
  EXPECT_THAT(unknown.error(), HasSubstr("RecordingRefused"));
  EXPECT_THAT(unknown.error(), HasSubstr("no channel 'no?such'; there are: faults")) << "it is also in the log";

  bench_.broker->refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  RecordCall full;
  record(full);
  ASSERT_TRUE(loop_.until([&] { return full.answer.has_value(); }));
  EXPECT_THAT(full.error(), HasSubstr("StoreFull"));
  EXPECT_THAT(full.error(), HasSubstr("the disk is full"));
  EXPECT_THAT(files(""), ElementsAre(".seq"));
  std::optional<CallResult<std::string>> stopped;
  recordings_->stop("4711", [&](CallResult<std::string> got) { stopped = std::move(got); });
  ASSERT_TRUE(stopped && !*stopped);
  EXPECT_THAT(stopped->error().name, HasSubstr("NoSuchRecording"));
}

TEST_F(RecordingsTest, APauseIsAHole) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  constexpr EventTime kPausedNs = 30'000'000;
  const EventTime before_ns = monotonic_now();
  for (const bool on : {false, true}) {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    auto answer = promise->get_future();
    bench_.recorder->set_recording(on, "a test", [promise](const Result<void>& done) { promise->set_value(done); });
    ASSERT_TRUE(answer_of(answer));
    if (!on) {
      ASSERT_TRUE(soon([until_ns = monotonic_now() + kPausedNs] { return monotonic_now() >= until_ns; }));
    }
  }
  const EventTime after_ns = monotonic_now();
  fault(100);
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 1U);
  const Sidecar sidecar = sidecar_of(result.paths[0]);
  std::size_t paused = 0;
  for (const SidecarHole& hole : sidecar.holes) {
    if (hole.cause != "paused") continue;
    ++paused;
    EXPECT_GE(hole.begin_ns, before_ns);
    EXPECT_LE(hole.end_ns, after_ns);
    EXPECT_GE(hole.end_ns, hole.begin_ns + kPausedNs);
  }
  EXPECT_EQ(paused, online_cpus().value().size()) << "one in each ring";
}

TEST_F(OtherRingsTest, OthersAreAnotherPart) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  const auto others = rings();
  ASSERT_TRUE(others);
  ASSERT_NO_FATAL_FAILURE(change_rings(others));
  ASSERT_TRUE(loop_.until([&] { return files(kDataSuffix).size() == 1; })) << "the part of the first rings";
  fault(100);
  const RecordResult result = stop(call);
  ASSERT_EQ(result.paths.size(), 2U);
  for (const std::string& path : result.paths) {
    const Sidecar sidecar = sidecar_of(path);
    EXPECT_GE(sidecar.samples, 100U) << path << ": " << sidecar.holes.size() << " holes";
  }
}

// The broker dies while it makes the files of the part that a reload begins.
class NextBrokerTest : public OtherRingsTest {
 protected:
  NextBrokerTest() { followed_ = true; }

  // Reloads, and lets the broker die; a successor with other rings is not attached yet.
  void lose_broker_in_a_reload() {
    bench_.broker->leave(Request::file);
    const auto asked = bench_.broker->asked(Request::file);
    reloaded_ = rings();
    ASSERT_TRUE(reloaded_);
    ASSERT_NO_FATAL_FAILURE(change_rings(reloaded_));
    ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) > asked; })) << "for the part of the new rings";
    fault(100);
    // Not before: of several software events of a CPU that one page fault is for, the kernel gives each sample the id
    // of the newest.
    next_ = rings();
    ASSERT_TRUE(next_);
    bench_.replace_broker(next_setup());
    ASSERT_TRUE(soon([&] { return bench_.lost == 1; }));
    ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs)) << "then the recording tries again";
  }
  [[nodiscard]] BrokerSetup next_setup() const {
    return {
        .recording = 2, .rings = next_, .folder = bench_.snapshots(), .processes = scan_with(kUnknownPid, "second")};
  }

  std::shared_ptr<const Recording> reloaded_, next_;
};

TEST_F(NextBrokerTest, ARecordingGoesOnWithItAfterAReload) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  ASSERT_NO_FATAL_FAILURE(lose_broker_in_a_reload());
  bench_.replace_broker(next_setup());
  auto promise = std::make_shared<std::promise<Result<bool>>>();
  auto answer = promise->get_future();
  bench_.recorder->reconnect(BrokerThread::kReconnectFor,
                             [promise](Result<bool> same) { promise->set_value(std::move(same)); });
  ASSERT_TRUE(answer_of(answer));
  clock_->advance(std::chrono::seconds(1));
  ASSERT_TRUE(loop_.until([&] { return files(kDataSuffix).size() == 2 || call.answer; }));
  ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  fault(100);
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_EQ(result.paths.size(), 3U) << "before the reload, after it, and of the next broker";
  std::string warnings;
  for (const std::string& path : result.paths) {
    EXPECT_GE(own_samples_in(path), 100U) << path;
    for (const std::string& warning : sidecar_of(path).warnings) warnings += warning + "\n";
  }
  EXPECT_THAT(warnings, HasSubstr("flightd-broker was gone from"));
}

// No broker follows the lost one: the events of the new rings are missing, and the recording says so.
TEST_F(NextBrokerTest, WithoutOneARecordingDoesNotBlameTheDisk) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(100);
  ASSERT_NO_FATAL_FAILURE(lose_broker_in_a_reload());
  for (int seconds = 0; seconds < 3; ++seconds) {
    clock_->advance(std::chrono::seconds(1));
    ASSERT_TRUE(clock_->is_waited_for(clock_->now() + kSecondNs));
    loop_.poll();
    ASSERT_FALSE(call.answer) << "it ended: " << call.result().ended;
  }
  const RecordResult result = stop(call);
  EXPECT_EQ(result.ended, "asked");
  ASSERT_EQ(result.paths.size(), 1U);
  EXPECT_GE(own_samples_in(result.paths[0]), 100U);
  EXPECT_THAT(sidecar_of(result.paths[0]).warnings, Contains(HasSubstr("what they recorded is missing")));
}

TEST_F(RecordingsTest, AllEndInOrderWhenFlightdStops) {
  RecordCall call;
  ASSERT_NO_FATAL_FAILURE(begin(call));
  fault(50);
  auto ended = std::async(std::launch::async, [this] { return recordings_->end_all(kPatience); });
  ASSERT_TRUE(loop_.until([&] { return is_there(ended); }));
  EXPECT_TRUE(ended.get());
  ASSERT_TRUE(loop_.until([&] { return call.answer.has_value(); }));
  EXPECT_EQ(call.result().ended, "asked");
  RecordCall late;
  record(late);
  EXPECT_THAT(late.error(), HasSubstr("Stopping"));
}

// The broker waits for it, and the recording for the broker.
TEST_F(RecordingsTest, ADiskThatDoesNotAnswerDoesNotKeepFlightd) {
  bench_.broker->leave(Request::file);
  RecordCall call;
  record(call);
  ASSERT_TRUE(soon([&] { return bench_.broker->asked(Request::file) == 1; }));
  EXPECT_FALSE(recordings_->end_all(std::chrono::seconds(0)));
  Recordings::Abandoned left = recordings_->abandon();
  EXPECT_EQ(left.size(), 1U);
  ASSERT_TRUE(call.answer);
  EXPECT_THAT(call.error(), HasSubstr("does not answer; the next flightd finishes its parts"));
  EXPECT_EQ(recordings_->running_id(), "");
  RecordCall late;
  record(late);
  EXPECT_THAT(late.error(), HasSubstr("Stopping"));
  // Here it answers in the end.
  bench_.broker->obey(Request::file);
  bench_.broker->say(Request::file);
  left.clear();
  loop_.poll();
}

// As its other work in bulk, at low priority.
TEST_F(RecordingsTest, RecoveryIsNiceToOthers) {
  recordings_->recover({4711});
  const auto nice_of_recovery = [] {
    for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
      const auto name = read_line((entry.path() / "comm").string());
      if (name && *name == "recordings")
        return ::getpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(entry.path().filename().string())));
    }
    return -1;
  };
  EXPECT_TRUE(soon([&] { return nice_of_recovery() == 5; })) << nice_of_recovery();
}

}  // namespace
}  // namespace flight::daemon
