// SPDX-License-Identifier: Apache-2.0
// The whole pipeline from the images to the file, for a machine of 64 CPUs: each record of every ring appears once, in
// time order, whichever workers walked and compressed it. (tests/bench/pipeline.cpp measures time and memory.)
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "libcore/compress/zstd.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/snapshot/data_stream.hpp"
#include "libcore/snapshot/file_facts.hpp"
#include "libcore/snapshot/merge.hpp"
#include "tests/unit/snapshot/made_recording.hpp"

namespace flight {
namespace {

constexpr std::size_t kRings = 64, kRingBytes = 128U << 10U;

class Pipeline : public testing::Test {
 protected:
  // Writes the whole recording through `workers` into a file.
  void write(WorkerPool& workers, const WindowRequest& window = {}) {
    selection_ = recording_.selection(workers, window);
    auto writer = FileWriter::create(file_.get(), file_events(recording_.manifest));
    ASSERT_TRUE(writer) << writer.error().what;
    auto memory = StreamMemory::create(workers.size(), 1).value();
    DataStream stream(*writer, workers, memory, 1);
    ASSERT_TRUE(merge_records(selection_, {}, [&](auto record) { return stream.append(record); }));
    ASSERT_TRUE(stream.round());
    ASSERT_TRUE(stream.close());
    Features features;
    features.compressed = CompressedFeature{.level = 1, .ratio = 2, .mmap_bytes = kMaxExpandedBytes};
    ASSERT_TRUE(writer->finish(features));
  }
  // Reads it back; returns the number of samples.
  std::size_t read() const {
    const auto reader = FileReader::open(fmt::format("/proc/self/fd/{}", file_.get()));
    EXPECT_TRUE(reader) << reader.error().what;
    std::vector<std::uint64_t> next(kRings, 0);
    std::size_t samples = 0;
    EventTime last_ns = 0;
    const auto visit = [&](std::span<const std::byte> record) -> Result<void> {
      if (load<std::uint32_t>(record.data()) != PERF_RECORD_SAMPLE) return {};
      MadeRecording::Sample sample;
      std::memcpy(&sample, record.data(), record.size());
      if (sample.time_ns < last_ns) return fail(std::errc::bad_message, "sample {} goes back in time", samples);
      last_ns = sample.time_ns;
      std::uint64_t& expected = next.at(sample.cpu);
      if (expected != 0 && sample.period != expected)
        return fail(std::errc::bad_message, "CPU {}: {} where {} was due", sample.cpu, sample.period, expected);
      expected = sample.period + 1;
      ++samples;
      return {};
    };
    const auto visited = reader->for_each_record(visit, expand);
    EXPECT_TRUE(visited) << visited.error().what;
    for (const std::uint64_t end : next) EXPECT_EQ(end, kRingBytes + 1) << "a ring's newest record is missing";
    return samples;
  }

  MadeRecording recording_{kRings, kRingBytes};
  UniqueFd file_{::memfd_create("pipeline", MFD_CLOEXEC)};
  Selection selection_;
};

TEST_F(Pipeline, EveryRecordOf64RingsComesOutOnce) {
  const auto workers_made = WorkerPool::start(2).value();
  WorkerPool& workers = *workers_made;
  write(workers);
  std::size_t records = 0;
  for (const RingSelection& ring : selection_.rings) {
    EXPECT_TRUE(ring.walk.wrapped);
    EXPECT_EQ(ring.covers_from_ns, ring.walk.records.front().time_ns);
    records += ring.walk.records.size();
  }
  EXPECT_GT(records, kRings * kRingBytes / sizeof(MadeRecording::Sample));
  EXPECT_EQ(read(), records);
}

TEST_F(Pipeline, MasksDoNotChangeTheFile) {
  PlannedWorker even;
  PlannedWorker odd;
  for (int cpu = 0; cpu < 60; ++cpu)
    (cpu % 2 == 0 ? even : odd).serves.push_back(cpu);  // no worker serves four of them
  const auto workers_made = WorkerPool::start({even, odd}).value();
  WorkerPool& workers = *workers_made;
  write(workers);
  EXPECT_EQ(read(), selection_.samples);
}

TEST_F(Pipeline, ARingThatWasOverwrittenWholeCoversNothing) {
  recording_.images[5].valid_bytes = 0;
  const auto workers_made = WorkerPool::start(1).value();
  WorkerPool& workers = *workers_made;
  const Selection selection = recording_.selection(workers);
  EXPECT_EQ(selection.rings[5].samples, 0U);
  EXPECT_EQ(selection.rings[5].covers_from_ns, MadeRecording::kEnd);
  EXPECT_EQ(selection.common_begin_ns, selection.end_ns);
  EXPECT_LT(selection.begin_ns, selection.end_ns) << "the other rings still cover a window";
}

// Readers take the first event for what was sampled.
TEST(FileEvents, DummiesComeLast) {
  const auto named = [](const char* name, std::uint32_t type, std::uint64_t config) {
    FileEvent event{.attr = {}, .name = name, .ids = {}};
    event.attr.type = type;
    event.attr.config = config;
    return event;
  };
  std::vector<FileEvent> events{named("sideband", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY),
                                named("omitted", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY),
                                named("cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
                                named("raw", PERF_TYPE_RAW, PERF_COUNT_SW_DUMMY),
                                named("cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK)};
  sort_for_readers(events);
  std::string order;
  for (const FileEvent& event : events) order += event.name + " ";
  EXPECT_EQ(order, "cycles raw cpu-clock omitted sideband ");
  events.clear();
  sort_for_readers(events);
  EXPECT_TRUE(events.empty());
}

}  // namespace
}  // namespace flight
