// SPDX-License-Identifier: Apache-2.0
// The recorder thread: its first scan, the scans after a loss, pauses, and what it leaves for the next flightd. The
// clock of its scans stands until a test advances it; records have the kernel's times.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>

#include "libcore/perf/attr.hpp"
#include "libcore/perf/record_cut.hpp"
#include "libcore/recorder/forward_ring.hpp"
#include "tests/unit/bpf_program.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"

namespace flight::daemon {
namespace {

using namespace std::chrono_literals;
using namespace test;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr EventTime kSecondNs = 1'000'000'000;                     // an export waits this long for a scan
constexpr std::chrono::nanoseconds kScanAgain(ScanPace::kSoonNs);  // the next scan is due at the first loss

// A child with this name.
class NamedChild {
 public:
  explicit NamedChild(const char* name) {
    std::array<int, 2> pipe{-1, -1};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return;
    const UniqueFd in(pipe[0]);
    UniqueFd out(pipe[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_NAME, name);
      static_cast<void>(!::write(out.get(), "x", 1));
      ::pause();
      ::_exit(0);
    }
    out = UniqueFd();
    char byte = 0;
    named_ = ::read(in.get(), &byte, 1) == 1;
  }
  NamedChild(const NamedChild&) = delete;
  NamedChild& operator=(const NamedChild&) = delete;
  ~NamedChild() { end(); }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
    pid_ = -1;
  }
  [[nodiscard]] bool is_named() const { return named_; }
  [[nodiscard]] std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }

 private:
  pid_t pid_ = -1;
  bool named_ = false;
};

class RecorderThreadTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_open_events()) GTEST_SKIP() << kNoEvents;
    bench_.clock.emplace();
  }
  void start(BrokerSetup setup, bool followed = false) { ASSERT_NO_FATAL_FAILURE(bench_.start(setup, followed)); }
  void start_with_rings(bool followed = false) {
    rings_ = small_recording();
    ASSERT_TRUE(rings_);
    start({.rings = rings_, .processes = scan_with(kUnknownPid, "first")}, followed);
    ASSERT_EQ(name_now(), "first") << "the first scan is known";
  }
  std::string name_now() { return recorder().comms_of({{kUnknownPid, monotonic_now()}}).front(); }
  RecorderThread& recorder() { return *bench_.recorder; }
  std::ptrdiff_t scans() { return bench_.broker->asked(Request::processes); }
  std::vector<std::string> gaps() { return recorder().gaps().warnings(0, UINT64_MAX, 0); }
  void advance(std::chrono::nanoseconds time) { bench_.clock->advance(time); }
  // A scan that was needed and due until now is requested when this returns: the thread looks behind its tasks.
  void let_it_look() {
    static_cast<void>(name_now());
    static_cast<void>(name_now());
    EXPECT_TRUE(recorder().counts(30s));  // behind that request
  }
  Result<void> set_recording(bool on) {
    auto promise = std::make_shared<std::promise<Result<void>>>();
    auto answer = promise->get_future();
    recorder().set_recording(on, "a test", [promise](Result<void> done) { promise->set_value(std::move(done)); });
    return answer_of(answer);
  }
  Result<bool> reconnect() {
    auto promise = std::make_shared<std::promise<Result<bool>>>();
    auto answer = promise->get_future();
    recorder().reconnect(BrokerThread::kReconnectFor,
                         [promise](Result<bool> same) { promise->set_value(std::move(same)); });
    return answer_of(answer);
  }

  RecorderBench bench_;
  std::shared_ptr<const Recording> rings_;
};

TEST_F(RecorderThreadTest, NothingIsAnsweredBeforeTheFirstScan) {
  start({.unanswered = {Request::processes}, .processes = scan_with(kUnknownPid, "first")});
  auto name = std::async(std::launch::async, [this] { return name_now(); });
  ASSERT_TRUE(soon([this] { return scans() == 1; }));
  EXPECT_FALSE(is_there(name));
  bench_.broker->obey(Request::processes);
  bench_.broker->say(Request::processes);
  ASSERT_EQ(name.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(name.get(), "first");
}

TEST_F(RecorderThreadTest, ARefusedFirstScanDoesNotStopIt) {
  start({.refused = {{Request::processes, {std::make_error_code(std::errc::io_error), "no"}}}});
  EXPECT_EQ(name_now(), "");
  EXPECT_EQ(bench_.status().recording, RecordingState::unproven) << "as the broker says";
}

TEST_F(RecorderThreadTest, AChannelThatNothingProvesIsNoted) {
  start({.unseen = {"pmu", "stacks: r01c2"}});
  EXPECT_THAT(bench_.status().notes, Contains(HasSubstr("channel 'pmu': no sample has come yet")));
  EXPECT_THAT(bench_.status().notes, Contains(HasSubstr("channel 'stacks': no sample of r01c2 has come yet")));
  EXPECT_THAT(bench_.status().warnings, Not(Contains(HasSubstr("'pmu'")))) << "nobody need act";
  bench_.broker->change([](BrokerSetup& setup) { setup.unseen.clear(); });
  EXPECT_THAT(bench_.status().notes, Not(Contains(HasSubstr("'pmu'"))));
}

// As the sidecar (worker_test.cpp) and doctor say it.
TEST_F(RecorderThreadTest, WhetherSamplesComeIsInTheStatus) {
  start({.delivery = Delivery::silent});
  Status now;
  // The broker may be late once.
  const auto becomes = [&](RecordingState state) {
    return soon([&] {
      now = bench_.status();
      return now.recording == state;
    });
  };
  const auto silence = Contains(HasSubstr("no sampling event delivers samples although CPUs are busy"));
  EXPECT_TRUE(becomes(RecordingState::silent));
  EXPECT_THAT(now.errors, silence);
  for (const auto& [delivery, state] :
       {std::pair(Delivery::on, RecordingState::on), {Delivery::unproven, RecordingState::unproven}}) {
    bench_.broker->change([delivery = delivery](BrokerSetup& setup) { setup.delivery = delivery; });
    EXPECT_TRUE(becomes(state));
    EXPECT_THAT(now.errors, Not(silence));
  }
}

// As a PMU's counters in a virtual machine: in an earlier version such an event had a rate beside "no sample yet".
TEST_F(RecorderThreadTest, AnEventThatIsCountedAndWritesNothingHasNoRate) {
  constexpr std::uint64_t kNeverReached = 1'000'000'000'000;
  rings_ = small_recording(kBusy, {}, {}, 64U << 10U, kNeverReached);
  ASSERT_TRUE(rings_);
  start({.rings = rings_});
  static_cast<void>(bench_.status());  // its rates begin with the counts before it
  fault(1000);
  std::uint64_t counted = 0;
  for (const EventCount& count : rings_->counts().events) counted += count.value;
  EXPECT_GE(counted, 1000U);
  const Status status = bench_.status();
  ASSERT_THAT(status.channels, SizeIs(1));
  ASSERT_THAT(status.channels[0].events, SizeIs(1));
  EXPECT_EQ(status.channels[0].events[0].per_second, 0);
  EXPECT_EQ(status.channels[0].events[0].bytes_per_second, 0);
}

TEST_F(RecorderThreadTest, FilesThatWaitForTheBrokersShareAreCountedAndNoted) {
  start({.build_ids_waiting = 12});
  const Status status = bench_.status();
  EXPECT_EQ(status.build_ids_waiting, 12U);
  EXPECT_THAT(status.notes, Contains(HasSubstr("the build-ids of 12 mapped files are read later")));
  bench_.broker->change([](BrokerSetup& setup) { setup.build_ids_waiting = 0; });
  EXPECT_THAT(bench_.status().notes, Not(Contains(HasSubstr("build-ids"))));
}

TEST_F(RecorderThreadTest, ALostRecordIsFollowedByAScan) {
  start_with_rings();
  const auto before = scans();
  bench_.broker->change([](BrokerSetup& setup) { setup.processes = scan_with(kUnknownPid, "second"); });
  lose_a_sideband_record(*recorder().attached());
  advance(kScanAgain - std::chrono::nanoseconds(1));
  let_it_look();
  EXPECT_EQ(scans(), before) << "the last one was less than a second ago";
  advance(std::chrono::nanoseconds(1));
  ASSERT_TRUE(soon([&] { return scans() > before; }));
  EXPECT_TRUE(soon([&] { return name_now() == "second"; }));
  EXPECT_THAT(bench_.status().warnings,
              Contains(testing::ContainsRegex("sideband records? (was|were) lost [0-9]+ s ago")));
}

// Beside listeners that began later, the kernel writes some records with a wrong size. The first of them has the same
// ones as flightd.
TEST_F(RecorderThreadTest, ARecordOfAWrongSizeIsRepairedAndNoted) {
  start_with_rings();
  const OnCpu there(recorder().attached()->sideband.front()->info().cpu);
  const auto listen = [&there]() -> Result<ForwardRing> {
    auto event = open_event(sideband_attr(KernelFeatures::probe(there.cpu())), there.cpu(), "a listener");
    if (!event) return propagate(event.error());
    ManifestRing ring;
    ring.cpu = there.cpu();
    ring.ring_bytes = 512U << 10U;
    auto opened = ForwardRing::open(std::move(*event), ring);
    if (opened && ::ioctl(opened->fd(), PERF_EVENT_IOC_ENABLE, 0) != 0) return sys_error(errno, "enable a listener");
    return opened;
  };
  auto first = listen(), second = listen();
  ASSERT_TRUE(first) << first.error().what;
  ASSERT_TRUE(second) << second.error().what;
  const UniqueFd program = load_bpf_program();
  RecordBuffer records;
  ASSERT_TRUE(first->copy(records));
  const std::size_t wrong = repair_records(records);
  RecordProperty("wrong", static_cast<int>(wrong));
  if (wrong == 0) return;  // a kernel may be mended
  EXPECT_TRUE(soon([this] { return testing::Value(bench_.status().notes, Contains(HasSubstr("had a wrong size"))); }));
}

TEST_F(RecorderThreadTest, AnExportWaitsForTheScan) {
  start_with_rings();
  TrackerExport window;
  EventTime took_ns = 0;
  // If the machine stalls for the whole second, the test proves nothing.
  for (int attempt = 0; attempt < 10; ++attempt) {
    advance(kScanAgain);
    lose_a_sideband_record(*recorder().attached());
    const EventTime begin_ns = monotonic_now();
    window = recorder().export_window(0, UINT64_MAX, {kUnknownPid});
    took_ns = monotonic_now() - begin_ns;
    if (took_ns < kSecondNs) break;
  }
  ASSERT_LT(took_ns, kSecondNs);
  EXPECT_FALSE(window.stats.stale);
  EXPECT_GT(window.stats.lost, 0U);
  EXPECT_THAT(window.gaps, Not(IsEmpty())) << "the loss is reported";
}

// More processes live than the tracker may keep.
TEST_F(RecorderThreadTest, AnExportLooksUpALivingProcessThatWasForgotten) {
  constexpr std::uint32_t kFirst = 3'000'000, kAll = 40'000;
  rings_ = small_recording();
  ASSERT_TRUE(rings_);
  bench_.beside = BesideRings{.bytes = kLeastBesideRingsBytes};
  start({.rings = rings_, .processes = scan_of(kFirst, kAll)});
  std::vector<ProcessAt> asked;
  for (std::uint32_t pid = kFirst; pid < kFirst + kAll; ++pid) asked.push_back({pid, monotonic_now()});
  const std::vector<std::string> names = recorder().comms_of(asked);
  const auto without = std::find(names.begin(), names.end(), "");
  ASSERT_NE(without, names.end()) << "memory was not short";
  const std::uint32_t forgotten = kFirst + static_cast<std::uint32_t>(without - names.begin());
  EXPECT_THAT(bench_.status().warnings, Contains(HasSubstr("forgotten while alive")));
  advance(kScanAgain);
  const auto before = scans();
  for (int i = 0; i < 2; ++i) {
    (void)recorder().export_window(0, UINT64_MAX, {forgotten});
    EXPECT_EQ(recorder().comms_of({{forgotten, monotonic_now()}}).front(), "p" + std::to_string(forgotten));
    EXPECT_EQ(scans(), before + 1) << "it is kept, because a snapshot has samples of it";
  }
}

// One snapshot after the other, and losses without end: the broker does not read all of /proc for each.
TEST_F(RecorderThreadTest, SnapshotsThatWaitDoNotHurryEveryScan) {
  start_with_rings();
  const auto before = scans();
  // A loss and a snapshot, a second after the last one. Returns the number of scans until then.
  const auto next = [&] {
    advance(kScanAgain);
    lose_a_sideband_record(*recorder().attached());
    (void)recorder().export_window(0, UINT64_MAX, {kUnknownPid});
    return scans() - before;
  };
  const auto becomes = [&](std::ptrdiff_t number) { return soon([&] { return scans() - before == number; }); };
  static_cast<void>(next());
  EXPECT_TRUE(becomes(1)) << "at once";
  static_cast<void>(next());
  EXPECT_TRUE(becomes(2)) << "this snapshot hurried it";
  for (int second = 3; second <= 5; ++second) EXPECT_EQ(next(), 2) << "it was one a second";
  static_cast<void>(next());
  EXPECT_TRUE(becomes(3)) << "4 s after the last one";
}

TEST_F(RecorderThreadTest, AnExportDoesNotWaitForEverForTheScan) {
  start_with_rings();
  advance(kScanAgain);
  const auto before = scans();
  bench_.broker->leave(Request::processes);
  lose_a_sideband_record(*recorder().attached());
  EXPECT_TRUE(recorder().export_window(0, UINT64_MAX, {kUnknownPid}).stats.stale);
  EXPECT_EQ(scans(), before + 1);
  bench_.broker->obey(Request::processes);
  bench_.broker->say(Request::processes);
  EXPECT_TRUE(soon([&] { return !recorder().export_window(0, UINT64_MAX, {kUnknownPid}).stats.stale; }));
}

// For a recording.
TEST_F(RecorderThreadTest, AStreamIsTickedUntilItIsRemoved) {
  start_with_rings();
  std::atomic<int> ticks = 0;
  const Rings rings = recorder().attached()->rings;
  const std::uint64_t id = recorder().add_stream({.rings = rings, .tick = [&ticks](EventTime) {
                                                    ++ticks;
                                                    return true;
                                                  }});
  ASSERT_TRUE(soon([&] { return ticks >= 2; })) << "also while nothing is recorded";
  recorder().remove_stream(id);
  const int last = ticks;
  EXPECT_EQ(name_now(), "first") << "the thread has done something else since then";
  EXPECT_EQ(ticks, last);
}

// When a stream was ticked.
class TickTimes {
 public:
  void note(EventTime now_ns) {
    const std::lock_guard lock(mutex_);
    times_.push_back(now_ns);
  }
  [[nodiscard]] std::size_t between(EventTime from_ns, EventTime until_ns) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        times_.begin(), times_.end(), [&](EventTime time_ns) { return time_ns > from_ns && time_ns <= until_ns; }));
  }

 private:
  mutable std::mutex mutex_;
  std::vector<EventTime> times_;
};

// A ring's own wakeup, at half of its size, comes before the next note of the heads. While the last round is too young
// for another one, the thread tries again each 10 ms, for half a second: without that it ticks five times meanwhile.
// Only one poll sees the wakeup, also if two recordings have the ring; here the first one begins a round at once.
TEST_F(RecorderThreadTest, ARingThatIsHalfWrittenTicksEachStreamUntilItsRoundBegins) {
  constexpr std::size_t kTickedAgain = 12;
  constexpr std::size_t kPages = 2000;  // with their records, more than the half of 64 KiB
  start_with_rings();
  const auto times = std::make_shared<TickTimes>();
  const Rings rings = recorder().attached()->rings;
  const std::uint64_t first = recorder().add_stream({.rings = rings, .tick = [](EventTime) { return true; }});
  const std::uint64_t second = recorder().add_stream({.rings = rings, .tick = [times](EventTime now_ns) {
                                                        times->note(now_ns);
                                                        return false;
                                                      }});
  std::size_t ticked = 0;
  // If the machine stalls for the half second, the test proves nothing.
  for (int attempt = 0; attempt < 20 && ticked < kTickedAgain; ++attempt) {
    const EventTime written_ns = monotonic_now();
    fault(kPages);
    ASSERT_TRUE(soon([&] { return times->between(written_ns + kSecondNs / 2, UINT64_MAX) > 0; }));
    ticked = times->between(written_ns, written_ns + kSecondNs / 2);
  }
  EXPECT_GE(ticked, kTickedAgain);
  recorder().remove_stream(first);
  recorder().remove_stream(second);
}

std::vector<std::string> comms_in_records(std::span<const std::byte> records) {
  std::vector<std::string> out;
  for (auto record = next_record(records); !record.empty(); record = next_record(records)) {
    if (const auto comm = parse_comm(record)) out.emplace_back(comm->name);
    records = records.subspan(record.size());
  }
  return out;
}

TEST_F(RecorderThreadTest, ARecordingGetsTheWholeStateAndThenEachRecord) {
  start_with_rings();
  const EventTime since_ns = monotonic_now();
  const auto whole = recorder().whole_state(since_ns);
  EXPECT_EQ(whole.at_ns, since_ns);
  EXPECT_THAT(comms_in_records(whole.state.prologue), Contains("first")) << "also a process that nobody has asked for";
  std::array<char, 16> name{};
  ::prctl(PR_GET_NAME, name.data());
  ::prctl(PR_SET_NAME, "in-the-stream");
  const EventTime until_ns = monotonic_now();
  ::prctl(PR_SET_NAME, name.data());
  std::vector<std::string> found;
  FileNames names = whole.names;
  ASSERT_TRUE(soon([&] {
    found = comms_in_records(recorder().sideband_between(whole.at_ns, until_ns, names).state.log);
    return !found.empty();
  }));
  EXPECT_THAT(found, Contains("in-the-stream"));
  EXPECT_THAT(recorder().sideband_between(until_ns, until_ns, names).state.log, IsEmpty());
}

// No name is given while a scan is missing, and all of them when it has come.
TEST_F(RecorderThreadTest, ARecordingGetsTheWholeStateAgainIfRecordsAreMissing) {
  start_with_rings();
  advance(kScanAgain);
  bench_.broker->refuse(Request::processes, std::errc::io_error, "no");
  FileNames names = recorder().whole_state(monotonic_now()).names;
  lose_a_sideband_record(*recorder().attached());
  EventTime at_ns = monotonic_now();  // the file has more than the beginning of the gap
  RecorderThread::SidebandPart found;
  ASSERT_TRUE(soon([&] {
    found = recorder().sideband_between(at_ns, monotonic_now(), names, /*may_wait=*/true);
    return found.whole;
  }));
  EXPECT_THAT(comms_in_records(found.state.prologue), AllOf(Contains(std::string(kLostName)), Not(Contains("first"))))
      << "no scan has confirmed its name";
  EXPECT_THAT(found.state.warnings, Not(IsEmpty()));
  EXPECT_TRUE(names.all_lost);
  at_ns = monotonic_now();
  found = recorder().sideband_between(at_ns, at_ns + 1, names);
  EXPECT_FALSE(found.whole) << "once";
  EXPECT_THAT(found.state.prologue, IsEmpty());
  bench_.broker->obey(Request::processes);
  ASSERT_TRUE(soon([&] {
    advance(2 * kScanAgain);
    at_ns = monotonic_now();
    found = recorder().sideband_between(at_ns, at_ns + 1, names);
    return !names.all_lost;
  }));
  EXPECT_TRUE(found.whole);
  EXPECT_THAT(comms_in_records(found.state.prologue), Contains("first")) << "confirmed";
}

// The rings are enabled one after the other: records come before the broker has answered.
TEST_F(RecorderThreadTest, ARecordingHasNoNamesWhileTheEndOfAPauseIsNotKnown) {
  start_with_rings();
  ASSERT_TRUE(set_recording(false));
  const auto whole = recorder().whole_state(monotonic_now());
  FileNames names = whole.names;
  const EventTime at_ns = monotonic_now();
  const auto found = recorder().sideband_between(at_ns, at_ns + 1, names);
  EXPECT_TRUE(found.whole);
  EXPECT_TRUE(names.all_lost);
  EXPECT_THAT(comms_in_records(found.state.prologue), AllOf(Contains(std::string(kLostName)), Not(Contains("first"))));
}

// The scan that was refused is due again, but not at once.
TEST_F(RecorderThreadTest, ARefusedScanIsAskedForAgain) {
  start_with_rings();
  advance(kScanAgain);
  bench_.broker->refuse(Request::processes, std::errc::io_error, "no");
  lose_a_sideband_record(*recorder().attached());
  EXPECT_TRUE(recorder().export_window(0, UINT64_MAX, {kUnknownPid}).stats.stale);
  const auto refused = scans();
  EXPECT_EQ(refused, 3) << "two at the start";
  bench_.broker->obey(Request::processes);
  advance(2 * kScanAgain - std::chrono::nanoseconds(1));
  let_it_look();
  EXPECT_EQ(scans(), refused) << "twice as long after it as after the one before";
  advance(std::chrono::nanoseconds(1));
  EXPECT_TRUE(soon([&] { return scans() > refused; }));
  EXPECT_TRUE(soon([&] { return !recorder().export_window(0, UINT64_MAX, {kUnknownPid}).stats.stale; }));
}

// While a process hangs, scans for its missing facts are repeated after 1, 2, 4 … s. The scan after a loss must not be
// delayed by that.
TEST_F(RecorderThreadTest, AProcessThatHangsDoesNotDelayTheScanAfterALoss) {
  rings_ = small_recording();
  ASSERT_TRUE(rings_);
  start({.rings = rings_, .processes = scan_with(kUnknownPid, "hung", /*partly=*/true)});
  EXPECT_EQ(name_now(), "hung");
  EXPECT_EQ(scans(), 2) << "at the start";
  for (const int seconds : {1, 2, 4}) {  // for its mappings
    advance(seconds * kScanAgain);
    let_it_look();
  }
  const auto before = scans();
  EXPECT_EQ(before, 5);
  EXPECT_EQ(name_now(), "hung");  // the recorder has read the reply to the last scan
  advance(kScanAgain);
  let_it_look();
  EXPECT_EQ(scans(), before) << "the next one for its mappings is due in 7 s";
  lose_a_sideband_record(*recorder().attached());
  let_it_look();
  EXPECT_GT(scans(), before);
}

// Its history would begin when it was opened, for ever: nothing older would be forgotten.
TEST_F(RecorderThreadTest, ARingIntoWhichNothingIsRecordedHasNoHistory) {
  rings_ = small_recording(kBusy, {}, {"quiet"});
  ASSERT_TRUE(rings_);
  start({.rings = rings_, .left_out = "quiet"});
  const EventTime begun_ns = monotonic_now();
  const auto all_are_overwritten = [&] {
    for (const auto& ring : recorder().attached()->rings) {
      const OnCpu there(ring->info().cpu);
      fault(2000);
    }
    static_cast<void>(bench_.status());  // looks at the heads
    return recorder().oldest_held_ns() > begun_ns;
  };
  EXPECT_TRUE(soon(all_are_overwritten));
}

TEST_F(RecorderThreadTest, ASuccessorWithTheSameRecordingLeavesNoGap) {
  start_with_rings(true);
  const auto before = recorder().attached();
  bench_.replace_broker({.rings = rings_});
  ASSERT_TRUE(soon([this] { return bench_.replaced == 1; }));
  EXPECT_THAT(gaps(), IsEmpty());
  EXPECT_EQ(recorder().recorded_until_ns(), UINT64_MAX);
  EXPECT_EQ(recorder().attached()->rings, before->rings) << "mapped once";
  EXPECT_EQ(recorder().attached()->sideband, before->sideband);
  EXPECT_EQ(name_now(), "first") << "what was known still is";
  EXPECT_EQ(bench_.next->asked(Request::processes), 0) << "nothing was missed";
  EXPECT_EQ(bench_.lost, 0);
}

TEST_F(RecorderThreadTest, AnotherRecordingBeginsAfterAGap) {
  start_with_rings(true);
  const auto before = recorder().attached();
  const auto others = small_recording();
  bench_.replace_broker({.recording = 2, .rings = others});
  ASSERT_TRUE(soon([this] { return bench_.lost == 1; }));
  EXPECT_TRUE(recorder().broker_gone());
  EXPECT_LE(recorder().recorded_until_ns(), monotonic_now());
  bench_.replace_broker({.recording = 2, .rings = others, .processes = scan_with(kUnknownPid, "second")});
  EXPECT_EQ(reconnect().value(), false);
  EXPECT_THAT(gaps(), ElementsAre(HasSubstr("flightd-broker was gone")));
  EXPECT_EQ(recorder().recorded_until_ns(), UINT64_MAX);
  EXPECT_NE(recorder().attached()->rings.front(), before->rings.front());
  EXPECT_TRUE(soon([this] { return name_now() == "second"; })) << "the next broker was asked what runs";
}

// The first answer of the next broker is from before its recording: what it recorded until flightd came is newer.
TEST_F(RecorderThreadTest, AScanFromBeforeTheNextRecordingIsOlderThanItsRecords) {
  start_with_rings(true);
  bench_.replace_broker({.recording = 2});
  ASSERT_TRUE(soon([this] { return bench_.lost == 1; }));
  ASSERT_TRUE(rings_->enable_all(false)) << "as if they had gone with their broker";
  const auto others = small_recording();
  ASSERT_TRUE(others);
  const EventTime scanned_ns = monotonic_now();
  const NamedChild child("fresh");
  ASSERT_TRUE(child.is_named());
  const ProcessAt then{child.pid(), monotonic_now()};
  bench_.replace_broker({.recording = 2,
                         .rings = others,
                         .processes = scan_with(child.pid(), "fresh"),
                         .first_processes = scan_with(child.pid(), "stale", false, scanned_ns)});
  EXPECT_EQ(reconnect().value(), false);
  EXPECT_TRUE(soon([this] { return bench_.next->asked(Request::processes) >= 2; }))
      << "another one is requested at once";
  EXPECT_TRUE(soon([&] { return recorder().comms_of({{child.pid(), monotonic_now()}}).front() == "fresh"; }));
  EXPECT_THAT(recorder().comms_of({then}), ElementsAre("fresh")) << "the gap is over when that recording begins";
}

// The next broker had started a new recording, and the one after it still has the old events.
TEST_F(RecorderThreadTest, ARecordingThatComesBackLateLeavesNoGap) {
  start_with_rings(true);
  const auto before = recorder().attached();
  bench_.replace_broker({.recording = 2});
  ASSERT_TRUE(soon([this] { return bench_.lost == 1; }));
  bench_.replace_broker({.rings = rings_});
  EXPECT_EQ(reconnect().value(), true);
  EXPECT_THAT(gaps(), IsEmpty());
  EXPECT_EQ(recorder().attached()->rings, before->rings);
}

TEST_F(RecorderThreadTest, APauseIsAGapAndEndsWithAScan) {
  start_with_rings();
  const auto before = scans();
  ASSERT_TRUE(set_recording(false));
  EXPECT_TRUE(bench_.status().paused);
  EXPECT_EQ(bench_.status().recording, RecordingState::paused);
  EXPECT_LE(recorder().recorded_until_ns(), monotonic_now());
  EXPECT_THAT(gaps(), ElementsAre(HasSubstr("recording is paused")));
  EXPECT_EQ(scans(), before);
  ASSERT_TRUE(set_recording(true));
  EXPECT_TRUE(soon([&] { return scans() == before + 1; }));
  EXPECT_FALSE(bench_.status().paused);
  EXPECT_EQ(recorder().recorded_until_ns(), UINT64_MAX);
  EXPECT_THAT(gaps(), ElementsAre(HasSubstr("recording was paused")));
  ASSERT_TRUE(set_recording(true));
  EXPECT_THAT(gaps(), SizeIs(1)) << "it was on already";
}

TEST_F(RecorderThreadTest, APauseThatTheBrokerRefusesIsNone) {
  start({});
  bench_.broker->refuse(Request::disable, std::errc::io_error, "an event is stuck");
  const auto paused = set_recording(false);
  ASSERT_FALSE(paused);
  EXPECT_THAT(paused.error().what, HasSubstr("an event is stuck"));
  EXPECT_FALSE(recorder().gaps().paused());
  EXPECT_EQ(bench_.broker->asked(Request::enable), 1) << "those that were off are on again";
}

TEST_F(RecorderThreadTest, AStatusDoesNotNeedTheBroker) {
  start({});
  EXPECT_EQ(bench_.status().broker.pid, FakeBroker::kPid);
  const auto before = bench_.broker->asked(Request::counts);
  bench_.broker->leave(Request::counts);
  EXPECT_EQ(bench_.status().broker.pid, FakeBroker::kPid) << "as it was known last";
  const Status second = bench_.status();
  EXPECT_THAT(second.warnings, Contains(HasSubstr("flightd-broker has not answered")));
  EXPECT_EQ(second.recording, RecordingState::unproven);
  bench_.broker->obey(Request::counts);
  bench_.broker->say(Request::counts);
  EXPECT_TRUE(recorder().counts(30s));  // after all earlier requests
  EXPECT_EQ(bench_.broker->asked(Request::counts), before + 2) << "one request for all statuses that wait";
  EXPECT_TRUE(soon([this] { return testing::Value(bench_.status().warnings, Not(Contains(HasSubstr("answered")))); }));
}

TEST_F(RecorderThreadTest, AStatusReportsThatTheBrokerIsGone) {
  start({});
  bench_.broker->die();
  ASSERT_TRUE(soon([this] { return bench_.lost == 1; }));
  const Status status = bench_.status();
  EXPECT_EQ(status.recording, RecordingState::off);
  EXPECT_FALSE(status.paused);
  EXPECT_THAT(status.errors, Contains(HasSubstr("flightd-broker is gone")));
}

TEST_F(RecorderThreadTest, TheNextFlightdKnowsWhoHasExited) {
  rings_ = small_recording();
  ASSERT_TRUE(rings_);
  const auto begin = [this](bool checkpoint) {
    bench_.recorder.reset();
    std::optional<CheckpointFile> file;
    if (checkpoint) file.emplace(bench_.folder, rings_->manifest().boot_id);
    bench_.start({.rings = rings_, .processes = scan_with(kUnknownPid, "first")}, false, std::move(file));
  };
  ASSERT_NO_FATAL_FAILURE(begin(true));
  ASSERT_EQ(name_now(), "first");
  NamedChild child("ephemeral");
  ASSERT_TRUE(child.is_named());
  const ProcessAt alive{child.pid(), monotonic_now()};
  child.end();
  ASSERT_THAT(recorder().comms_of({alive}), ElementsAre("ephemeral"));
  ASSERT_NO_FATAL_FAILURE(begin(true));
  EXPECT_THAT(recorder().comms_of({alive}), ElementsAre("ephemeral"));
  ASSERT_NO_FATAL_FAILURE(begin(false));
  EXPECT_THAT(recorder().comms_of({alive}), ElementsAre("")) << "from nowhere else";
}

}  // namespace
}  // namespace flight::daemon
