// SPDX-License-Identifier: Apache-2.0
// The whole way, from real rings to a file that stock perf reads: on two CPUs a thread counts by close(-n), 30,000
// times a second each, while workers read the rings. Each number is in the file once, or inside of a stated hole.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>

#include "libcore/perf/tracepoint.hpp"
#include "libcore/recorder/rings.hpp"
#include "libcore/stream/part_writer.hpp"
#include "libcore/sysinfo/cpus.hpp"
#include "tests/unit/call_sample.hpp"
#include "tests/unit/on_cpu.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

constexpr long kCallsEachTime = 60;
constexpr std::chrono::milliseconds kCallsEvery{2};
// Real files that the runtime itself closes in a thread that counts.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kClosedByTheRuntime = 2;
#else
constexpr std::uint64_t kClosedByTheRuntime = 0;
#endif

// Counts on one CPU until it is destroyed.
class Counting {
 public:
  explicit Counting(int cpu)
      : thread_([this, cpu] {
          const test::OnCpu there(cpu);
          tid_ = ::gettid();
          while (!begun_) std::this_thread::sleep_for(kCallsEvery);
          for (auto next = std::chrono::steady_clock::now(); !stop_; next += kCallsEvery) {
            for (long i = 0; i < kCallsEachTime; ++i) ::syscall(SYS_close, -(++number_));
            written_ = number_;
            std::this_thread::sleep_until(next);
          }
        }) {}
  ~Counting() { stop(); }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;

  [[nodiscard]] pid_t tid() const {
    while (tid_ == 0) std::this_thread::yield();
    return tid_;
  }
  void begin() { begun_ = true; }
  // Returns the last number.
  long stop() {
    stop_ = true;
    begun_ = true;
    if (thread_.joinable()) thread_.join();
    return written_;
  }

 private:
  std::atomic<pid_t> tid_ = 0;
  std::atomic<bool> begun_ = false, stop_ = false;
  std::atomic<long> written_ = 0;
  long number_ = 0;  // of the thread
  std::thread thread_;
};

// A number in the file, and when it was counted.
struct Counted {
  long number = 0;
  EventTime time_ns = 0;
};

class RealRings : public test::RootTest {
 protected:
  // One ring on each of two CPUs (both on the same one, if there is only one), each with the calls of its thread.
  void open(std::uint64_t ring_bytes) {
    const auto online = online_cpus();
    ASSERT_TRUE(online);
    const auto tracefs = find_or_mount_tracefs();
    ASSERT_TRUE(tracefs) << tracefs.error().what;
    const KernelFeatures features{};
    const auto spec = parse_event("raw_syscalls:sys_enter", {.tracefs = *tracefs, .sysfs = "/sys"});
    ASSERT_TRUE(spec) << spec.error().what;
    const perf_event_attr attr = event_attr(*spec, {}, features);
    part_events_ = {{.attr = attr, .name = spec->name, .ids = {}}};
    const std::size_t index = events_.add_event(attr.sample_type);
    for (const int cpu : {online->front(), online->back()}) {
      auto owner = open_event(owner_attr(features), cpu, "owner");
      ASSERT_TRUE(owner) << owner.error().what;
      const ManifestRing info{.kind = RingKind::channel, .channel = "calls", .cpu = cpu, .ring_bytes = ring_bytes};
      auto ring = Ring::open(std::move(*owner), info);
      ASSERT_TRUE(ring) << ring.error().what;
      rings_.push_back(std::make_shared<const Ring>(std::move(*ring)));
      auto event = open_event(attr, cpu, spec->name);
      ASSERT_TRUE(event) << event.error().what;
      ASSERT_EQ(::ioctl(event->get(), PERF_EVENT_IOC_SET_OUTPUT, rings_.back()->fd()), 0);
      const auto id = event_id(event->get());
      ASSERT_TRUE(id);
      events_.add_id(*id, index);
      part_events_[0].ids.push_back(*id);
      counting_.push_back(std::make_unique<Counting>(cpu));
      const std::string filter = fmt::format("id == {} && common_pid == {}", SYS_close, counting_.back()->tid());
      ASSERT_EQ(::ioctl(event->get(), PERF_EVENT_IOC_SET_FILTER, filter.c_str()), 0);
      ASSERT_EQ(::ioctl(event->get(), PERF_EVENT_IOC_ENABLE, 0), 0);
      opened_.push_back(std::move(*event));
    }
    features_ = test::made_features();
    features_.cpus_available = features_.cpus_online = static_cast<std::uint32_t>(available_cpus());
    TracingData& tracing = features_.tracing_data.emplace();
    tracing.header_page = read_file(*tracefs + "/events/header_page").value_or("");
    tracing.header_event = read_file(*tracefs + "/events/header_event").value_or("");
    tracing.systems = {{"raw_syscalls", {tracepoint_format(*tracefs, spec->system, spec->event).value_or("")}}};
  }

  // Records for some time, with a tick at each interval; the file is `data`.
  void record(std::vector<PlannedWorker> plan, std::size_t pool_bytes, std::chrono::milliseconds interval) {
    const auto pool = BlockPool::create(pool_bytes).value();
    std::promise<void> promise;
    auto ended = promise.get_future();
    PartWriter::Settings settings;
    settings.sideband = [](EventTime, EventTime until_ns) { return test::comm_of(1, until_ns); };
    const auto writer = PartWriter::start(std::move(settings)).value();
    PartStart start = test::made_start(folder_.path("data"), folder_.path("journal"));
    start.events = part_events_;
    start.features = features_;
    for (const auto& counting : counting_)
      append_comm(start.prologue,
                  {.pid = static_cast<std::uint32_t>(::getpid()),
                   .tid = static_cast<std::uint32_t>(counting->tid()),
                   .name = "counting"},
                  {});
    writer->begin(std::move(start));

    std::vector<StreamRing> rings;
    for (const auto& ring : rings_)
      rings.push_back({.cpu = ring->info().cpu, .data = ring->bytes(), .head = [ring] { return ring->head(); }});
    StreamSettings stream;
    stream.plan = std::move(plan);
    auto workers = StreamWorkers::start(std::move(rings), events_, std::move(stream), *pool,
                                        [&](Round round) { writer->write(std::move(round)); });
    ASSERT_TRUE(workers) << workers.error().what;
    for (const auto& counting : counting_) counting->begin();
    const auto end = std::chrono::steady_clock::now() + time_;
    while (std::chrono::steady_clock::now() < end) {
      if (pauses_) {
        ASSERT_EQ(rings_[0]->pause(), 0);
        std::this_thread::sleep_for(3 * kCallsEvery);
        ASSERT_EQ(rings_[0]->resume(), 0);
      }
      static_cast<void>((*workers)->tick(monotonic_now()));
      std::this_thread::sleep_for(interval);
    }
    for (const auto& counting : counting_) last_.push_back(counting->stop());
    (*workers)->finish();
    totals_ = (*workers)->totals();
    writer->end({.features = [this] { return features_; },
                 .ended =
                     [&](Result<void> outcome, PartFacts facts) {
                       EXPECT_TRUE(outcome) << outcome.error().what;
                       facts_ = std::move(facts);
                       promise.set_value();
                     }});
    ASSERT_EQ(ended.wait_for(test::kPatience), std::future_status::ready);
    workers->reset();
    EXPECT_EQ(pool->free_bytes(), pool->size_bytes()) << "each block was written or given up";
  }

  // What the file has of each ring.
  std::vector<std::vector<Counted>> counted() {
    std::vector<std::vector<Counted>> out(rings_.size());
    const auto reader = FileReader::open(folder_.path("data"));
    EXPECT_TRUE(reader) << reader.error().what;
    if (!reader) return out;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte> record) -> Result<void> {
          if (load<perf_event_header>(record.data()).type != PERF_RECORD_SAMPLE) return {};
          const auto id = load<std::uint64_t>(record.data() + 8);
          const bool first = id == part_events_[0].ids[0];
          const auto argument = load<long>(record.data() + test::kCallArgument);
          if (argument < 0)
            out[first ? 0 : 1].push_back({-argument, load<EventTime>(record.data() + test::kCallTime)});
          else
            ++others_;
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    return out;
  }

  // Each number once; what is missing between two of them lies inside of a hole of this ring. Returns what is missing.
  std::uint64_t expect_each_once_or_in_a_hole(std::size_t ring, const std::vector<Counted>& numbers) const {
    std::uint64_t missing = 0;
    const auto is_stated = [&](EventTime from_ns, EventTime until_ns) {
      for (const PartFacts::RingHole& hole : facts_.holes)
        if (hole.ring == ring && hole.hole.from_ns >= from_ns && hole.hole.until_ns <= until_ns) return true;
      return false;
    };
    Counted before;
    for (const Counted& next : numbers) {
      if (next.number != before.number + 1) {
        EXPECT_GT(next.number, before.number);
        missing += static_cast<std::uint64_t>(next.number - before.number - 1);
        EXPECT_TRUE(is_stated(before.time_ns, next.time_ns))
            << "ring " << ring << ": " << before.number << " to " << next.number;
      }
      before = next;
      if (testing::Test::HasFailure()) break;
    }
    if (before.number != last_.at(ring)) {
      missing += static_cast<std::uint64_t>(last_.at(ring) - before.number);
      EXPECT_TRUE(is_stated(before.time_ns, UINT64_MAX)) << "ring " << ring << ": after " << before.number;
    }
    return missing;
  }

  void expect_that_perf_reads_it(std::size_t samples) const {
    const auto said = test::run_perf(folder_, "script -i " + folder_.path("data") + " -F time");
    EXPECT_EQ(said.lines(), samples);
    EXPECT_EQ(said.err, "");
  }

  const test::StreamFolder folder_;
  Rings rings_;
  std::vector<UniqueFd> opened_;
  EventTable events_;
  std::vector<FileEvent> part_events_;
  Features features_;
  std::vector<std::unique_ptr<Counting>> counting_;
  std::vector<long> last_;  // of each ring, what was counted
  StreamTotals totals_;
  PartFacts facts_;
  std::uint64_t others_ = 0;  // calls in the file that were not counted
  bool pauses_ = false;       // the first ring, before each tick
  std::chrono::seconds time_{1};
};

TEST_F(RealRings, EachNumberIsInTheFileOnce) {
  open(4U << 20U);
  if (HasFatalFailure()) return;
  time_ = std::chrono::seconds(2);  // so that the rings turn
  record(std::vector<PlannedWorker>(2), 32U << 20U, std::chrono::milliseconds(20));
  if (HasFatalFailure()) return;
  const auto numbers = counted();
  std::uint64_t missing = 0;
  for (std::size_t ring = 0; ring < numbers.size(); ++ring) {
    EXPECT_GT(last_.at(ring), 1'000);
    missing += expect_each_once_or_in_a_hole(ring, numbers[ring]);
  }
  EXPECT_EQ(missing == 0, facts_.lost_events == 0);
  EXPECT_LE(missing, static_cast<std::uint64_t>(last_[0] + last_[1]) / 100) << "the rings hold about a second";
  EXPECT_EQ(facts_.events, numbers[0].size() + numbers[1].size() + others_);
  EXPECT_LE(others_, kClosedByTheRuntime * counting_.size());
  EXPECT_EQ(totals_.foreign, 0U);
  EXPECT_GT(facts_.rounds, 1U);
  const auto read = test::read_back(folder_.path("data"));
  EXPECT_EQ(read.rounds, facts_.rounds);
  expect_that_perf_reads_it(facts_.events);
}

// As snapshots do: what the kernel did not record is known exactly.
TEST_F(RealRings, APausedRingHasHoles) {
  open(4U << 20U);
  if (HasFatalFailure()) return;
  pauses_ = true;
  record(std::vector<PlannedWorker>(2), 32U << 20U, std::chrono::milliseconds(20));
  if (HasFatalFailure()) return;
  const auto numbers = counted();
  std::uint64_t missing = 0;
  for (std::size_t ring = 0; ring < numbers.size(); ++ring)
    missing += expect_each_once_or_in_a_hole(ring, numbers[ring]);
  EXPECT_GT(missing, 100U);
  EXPECT_EQ(facts_.lost_events, missing);
}

// A ring that turns many times between two looks, and a pool of 64 KiB: most is missing, and every gap is stated.
TEST_F(RealRings, WhatIsMissingIsStated) {
  open(64U << 10U);
  if (HasFatalFailure()) return;
  record(std::vector<PlannedWorker>(1), 64U << 10U, std::chrono::milliseconds(400));
  if (HasFatalFailure()) return;
  const auto numbers = counted();
  std::uint64_t missing = 0;
  for (std::size_t ring = 0; ring < numbers.size(); ++ring)
    missing += expect_each_once_or_in_a_hole(ring, numbers[ring]);
  EXPECT_GT(missing, 0U);
  EXPECT_GT(facts_.lost_events, 0U);
  // An estimate by the mean size of records that all have one size.
  EXPECT_NEAR(static_cast<double>(facts_.lost_events), static_cast<double>(missing),
              static_cast<double>(missing) / 10 + 100);
  expect_that_perf_reads_it(facts_.events);
}

// perf's rule, on records of two CPUs that no one has merged.
TEST_F(RealRings, TheOrderIsThatWhichPerfDemands) {
  open(1U << 20U);
  if (HasFatalFailure()) return;
  record(std::vector<PlannedWorker>(2), 32U << 20U, std::chrono::milliseconds(5));
  if (HasFatalFailure()) return;
  const auto reader = FileReader::open(folder_.path("data"));
  ASSERT_TRUE(reader) << reader.error().what;
  EventTime newest_ns = 0, last_mark_ns = 0, mark_before_ns = 0;
  std::uint64_t late = 0;
  const auto read = reader->for_each_record(
      [&](std::span<const std::byte> record) -> Result<void> {
        const auto type = load<perf_event_header>(record.data()).type;
        if (type == kRecordFinishedRound) {
          mark_before_ns = std::exchange(last_mark_ns, newest_ns);
        } else if (type == PERF_RECORD_SAMPLE) {
          const auto time_ns = load<EventTime>(record.data() + test::kCallTime);
          late += time_ns < mark_before_ns ? 1 : 0;
          newest_ns = std::max(newest_ns, time_ns);
        } else if (const auto trailer = parse_trailer(record); trailer && trailer->time_ns != 0) {
          late += trailer->time_ns < mark_before_ns ? 1 : 0;
          newest_ns = std::max(newest_ns, trailer->time_ns);
        }
        return {};
      },
      expand);
  ASSERT_TRUE(read) << read.error().what;
  EXPECT_EQ(late, 0U);
  EXPECT_GT(facts_.rounds, 2U);
}

}  // namespace
}  // namespace flight
