// SPDX-License-Identifier: Apache-2.0
// Parts of a recording, written from rounds of rings in memory, and read again by this reader and by stock perf.
#include "libcore/stream/part_file.hpp"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>

#include "libcore/stream/journal.hpp"
#include "libcore/stream/part_writer.hpp"
#include "libcore/stream/recover.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::comm_of;
using test::counted_from;
using test::made_features;
using test::made_start;
using test::MadeRounds;
using test::read_back;
using test::ReadBack;
using test::StreamFolder;

// Names the process of the samples again, as it is at the end of the round.
RecordBuffer some_sideband(EventTime from_ns, EventTime until_ns) {
  EXPECT_LT(from_ns, until_ns);
  return comm_of(1, until_ns);
}

Chunks begun_chunks() {
  Chunks chunks = Chunks::create(1).value();
  chunks.begin();
  return chunks;
}

std::vector<std::uint64_t> second_ring(std::uint64_t first, std::uint64_t last) {
  return counted_from(MadeRounds::kSecondRing + first, MadeRounds::kSecondRing + last);
}

TEST(PartFileTest, ThePartIsAWholeFileOfItsRounds) {
  const StreamFolder folder;
  MadeRounds rounds;
  Chunks chunks = begun_chunks();
  auto part = PartFile::create(made_start(folder.path("data"), folder.path("journal")), chunks);
  ASSERT_TRUE(part) << part.error().what;
  EXPECT_FALSE(part->is_unsynced());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(part->write(rounds.next(500), some_sideband));
  EXPECT_TRUE(part->is_unsynced());
  ASSERT_TRUE(part->sync());
  EXPECT_FALSE(part->is_unsynced());
  const Result<void> finished = part->finish(made_features());
  ASSERT_TRUE(finished) << finished.error().what;

  const PartFacts& facts = part->facts();
  EXPECT_EQ(facts.events, 10'000U);
  EXPECT_EQ(facts.rounds, 10U);
  EXPECT_EQ(facts.lost_events, 0U);
  EXPECT_EQ(facts.file_bytes, std::filesystem::file_size(folder.path("data")));
  EXPECT_LT(facts.file_bytes * 2, facts.expanded_bytes);
  EXPECT_GE(facts.expanded_bytes, 10'000U * 48);
  const ReadBack read = read_back(folder.path("data"));
  EXPECT_EQ(read.first, counted_from(1, 5'000));
  EXPECT_EQ(read.second, second_ring(1, 5'000));
  EXPECT_EQ(read.rounds, 10U);
  EXPECT_EQ(read.comms, 11U) << "of the prologue, and of each round";
  EXPECT_TRUE(read.in_order);
  EXPECT_GT(read.compressed, 10U);

  const auto said = test::run_perf(folder, "script -i " + folder.path("data") + " -F time");
  EXPECT_EQ(said.lines(), 10'000U);
  EXPECT_EQ(said.err, "");
  const auto header = test::run_perf(folder, "report -i " + folder.path("data") + " --header-only");
  EXPECT_NE(header.out.find("# time of first sample : 1001.000000"), std::string::npos) << header.out;
  EXPECT_NE(header.out.find("# compressed : Zstd, level = 1"), std::string::npos) << header.out;
  EXPECT_EQ(header.err, "");
}

TEST(PartFileTest, ItKnowsWhenItIsFull) {
  const StreamFolder folder;
  MadeRounds rounds;
  Chunks chunks = begun_chunks();
  auto part = PartFile::create(made_start(folder.path("data"), folder.path("journal")), chunks);
  ASSERT_TRUE(part) << part.error().what;
  EXPECT_FALSE(part->is_full({}));
  ASSERT_TRUE(part->write(rounds.next(5'000), {}));
  EXPECT_FALSE(part->is_full({}));
  EXPECT_TRUE(part->is_full({.file_bytes = 1U << 30U, .expanded_bytes = 400'000}));
  EXPECT_TRUE(part->is_full({.file_bytes = 10'000, .expanded_bytes = 1U << 30U}));
}

// On a machine with many processes each part would be full before its first round.
TEST(PartFileTest, APrologueAloneDoesNotFillIt) {
  const StreamFolder folder;
  MadeRounds rounds;
  Chunks chunks = begun_chunks();
  PartStart start = made_start(folder.path("data"), folder.path("journal"));
  for (std::uint32_t pid = 2; pid < 2'000; ++pid) {
    const RecordBuffer more = comm_of(pid, 0);
    start.prologue.insert(start.prologue.end(), more.begin(), more.end());
  }
  auto part = PartFile::create(std::move(start), chunks);
  ASSERT_TRUE(part) << part.error().what;
  const std::uint64_t begun_bytes = part->facts().file_bytes, begun_expanded = part->facts().expanded_bytes;
  const PartLimits small_file{.file_bytes = 1}, small_memory{.expanded_bytes = 1}, few_rounds{.rounds = 2};
  EXPECT_FALSE(part->is_full(small_file));
  EXPECT_FALSE(part->is_full(small_memory));
  ASSERT_TRUE(part->write(rounds.next(1), {}));
  EXPECT_FALSE(part->is_full(small_file));
  EXPECT_FALSE(part->is_full(small_memory));
  EXPECT_FALSE(part->is_full(few_rounds));
  ASSERT_TRUE(part->write(rounds.next(1), {}));
  EXPECT_TRUE(part->is_full(few_rounds));
  while (part->facts().file_bytes < 2 * begun_bytes || part->facts().expanded_bytes < 2 * begun_expanded)
    ASSERT_TRUE(part->write(rounds.next(1'000), {}));
  EXPECT_TRUE(part->is_full(small_file));
  EXPECT_TRUE(part->is_full(small_memory));
  EXPECT_FALSE(part->is_full({}));
}

TEST(PartFileTest, ARoundOfHolesIsNotInTheFileAndCounted) {
  const StreamFolder folder;
  MadeRounds rounds;
  Chunks chunks = begun_chunks();
  auto part = PartFile::create(made_start(folder.path("data"), folder.path("journal")), chunks);
  ASSERT_TRUE(part) << part.error().what;
  const std::uint64_t before = part->facts().file_bytes;
  Round round;
  round.rings.resize(1);
  round.rings[0].cpu = 3;
  round.newest_ns = 1'000'000'000'000;  // of earlier rounds, of the part before
  round.rings[0].add_hole({.cause = HoleCause::overwritten, .bytes = 960, .events = 20, .estimated = true});
  ASSERT_TRUE(part->write(round, some_sideband));
  EXPECT_EQ(part->facts().file_bytes, before);
  EXPECT_EQ(part->facts().lost_events, 20U);
  EXPECT_EQ(part->facts().lost_bytes, 960U);
  ASSERT_EQ(part->facts().holes.size(), 1U);
  EXPECT_EQ(part->facts().holes[0].cpu, 3);
  for (std::size_t i = 0; i < PartFacts::kMaxHoles; ++i) ASSERT_TRUE(part->write(round, some_sideband));
  EXPECT_EQ(part->facts().holes.size(), PartFacts::kMaxHoles);
  EXPECT_EQ(part->facts().holes_left_out, 1U);
  EXPECT_EQ(part->facts().lost_events, 20U * (PartFacts::kMaxHoles + 1));
}

TEST(PartFileTest, FeaturesThatAReaderWouldRefuseAreRefusedAtTheBeginning) {
  const StreamFolder folder;
  Chunks chunks = begun_chunks();
  PartStart start = made_start(folder.path("data"), folder.path("journal"));
  start.events[0].attr.type = PERF_TYPE_TRACEPOINT;
  const auto part = PartFile::create(std::move(start), chunks);
  ASSERT_FALSE(part);
  EXPECT_NE(part.error().what.find("the format text of tracepoint"), std::string::npos) << part.error().what;
}

// A disk of 1 MiB. What is in the file before it is full stays readable, and the rest is stated.
TEST(PartFileTest, AFullDiskEndsThePartWithAWholeFile) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const StreamFolder folder;
  const std::string mount = folder.path("small");
  ASSERT_EQ(::mkdir(mount.c_str(), 0700), 0);
  ASSERT_EQ(::mount("flight-test", mount.c_str(), "tmpfs", 0, "size=1m"), 0);
  {
    MadeRounds rounds;
    Chunks chunks = begun_chunks();
    auto part = PartFile::create(made_start(mount + "/data", mount + "/journal"), chunks);
    EXPECT_TRUE(part) << part.error().what;
    std::uint64_t lost = 0, kept = 0;
    for (int i = 0; i < 20 && part; ++i) {
      const auto written = part->write(rounds.next(50, 2'000), some_sideband);  // 200 KB that cannot be compressed
      (written ? kept : lost) += 100;
      if (!written) {
        EXPECT_EQ(written.error().errno_value(), ENOSPC) << written.error().what;
      }
    }
    EXPECT_GT(kept, 0U);
    EXPECT_GT(lost, 0U);
    if (part) {
      EXPECT_EQ(part->facts().events, kept);
      EXPECT_EQ(part->facts().lost_events, lost);
      for (const PartFacts::RingHole& hole : part->facts().holes) EXPECT_EQ(hole.hole.cause, HoleCause::disk);
      const auto finished = part->finish(made_features());
      EXPECT_TRUE(finished) << finished.error().what;
      EXPECT_EQ(part->facts().file_bytes, std::filesystem::file_size(mount + "/data"));
    }
    const ReadBack read = read_back(mount + "/data");
    EXPECT_EQ(read.samples, kept);
    EXPECT_EQ(read.first, counted_from(1, kept / 2));
  }
  EXPECT_EQ(::umount(mount.c_str()), 0);
}

// Append-only: it can be written, and ftruncate(2) fails. linux/fs.h cannot be included beside sys/mount.h.
bool set_append_only(const std::string& path, bool on) {
  constexpr int kAppendOnly = 0x20;  // FS_APPEND_FL
  const auto file = open_file(path, O_RDONLY | O_CLOEXEC);
  int flags = 0;
  if (!file || ::ioctl(file->get(), _IOR('f', 1, long), &flags) != 0) return false;  // FS_IOC_GETFLAGS
  flags = on ? flags | kAppendOnly : flags & ~kAppendOnly;
  return ::ioctl(file->get(), _IOW('f', 2, long), &flags) == 0;  // FS_IOC_SETFLAGS
}

// The features must not be followed by remains of the round that did not fit.
TEST(PartFileTest, AFileThatCannotBeCutIsNotFinished) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const StreamFolder folder;
  const std::string mount = folder.path("small");
  ASSERT_EQ(::mkdir(mount.c_str(), 0700), 0);
  ASSERT_EQ(::mount("flight-test", mount.c_str(), "tmpfs", 0, "size=1m"), 0);
  bool can_set = false;
  {
    MadeRounds rounds;
    Chunks chunks = begun_chunks();
    auto part = PartFile::create(made_start(mount + "/data", mount + "/journal"), chunks);
    EXPECT_TRUE(part) << part.error().what;
    can_set = part && set_append_only(mount + "/data", true);
    if (can_set) {
      std::uint64_t kept = 0;
      while (part->write(rounds.next(50, 2'000), some_sideband)) kept += 100;
      const auto refused = part->finish(made_features());
      EXPECT_FALSE(refused);
      if (!refused) {
        EXPECT_EQ(refused.error().errno_value(), EPERM) << refused.error().what;
      }
      EXPECT_TRUE(set_append_only(mount + "/data", false));
      const auto finished = part->finish(made_features());
      EXPECT_TRUE(finished) << finished.error().what;
      EXPECT_EQ(part->facts().file_bytes, std::filesystem::file_size(mount + "/data"));
      EXPECT_EQ(read_back(mount + "/data").samples, kept);
    }
  }
  EXPECT_EQ(::umount(mount.c_str()), 0);
  if (!can_set) GTEST_SKIP() << "files cannot be made append-only here";
}

// fdatasync(2) of a disk that fails: the kernel reports each error once.
struct FailingSync {
  std::size_t calls = 0;
  std::size_t fails_at = 0;  // of them, from 1

  std::function<Result<bool>(int)> make() {
    return [this](int file) -> Result<bool> {
      if (++calls == fails_at) return sys_error(EIO, "sync to the disk");
      return sync_data_now(file);
    };
  }
};

TEST(PartFileTest, WhatAFailedSyncLeavesUncertainIsNotInTheFile) {
  for (const bool at_the_end : {false, true}) {
    const StreamFolder folder;
    MadeRounds rounds;
    Chunks chunks = begun_chunks();
    FailingSync sync{.fails_at = 2};
    PartStart start = made_start(folder.path("data"), folder.path("journal"));
    start.sync = sync.make();
    auto part = PartFile::create(std::move(start), chunks);
    ASSERT_TRUE(part) << part.error().what;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(part->write(rounds.next(100), some_sideband));
    ASSERT_TRUE(part->sync());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(part->write(rounds.next(100), some_sideband));
    EXPECT_EQ(part->facts().events, 1'000U);
    if (!at_the_end) {
      EXPECT_EQ(part->sync().error().errno_value(), EIO);
      EXPECT_FALSE(part->is_unsynced());
      EXPECT_FALSE(part->write(rounds.next(100), some_sideband));
      const std::string bytes = read_file(folder.path("journal")).value();
      const auto journal = parse_journal(std::as_bytes(std::span(bytes)));
      ASSERT_TRUE(journal) << journal.error().what;
      EXPECT_EQ(journal->entries.size(), 3U) << "recover() would find the pages in the memory";
    }
    const auto finished = part->finish(made_features());
    ASSERT_TRUE(finished) << finished.error().what;
    const PartFacts& facts = part->facts();
    EXPECT_EQ(facts.events, 600U);
    EXPECT_EQ(facts.rounds, 3U);
    EXPECT_EQ(facts.lost_events, at_the_end ? 400U : 600U);
    EXPECT_EQ(facts.lost_bytes, facts.lost_events * 48);
    ASSERT_GE(facts.holes.size(), 2U);
    for (const PartFacts::RingHole& hole : facts.holes) EXPECT_EQ(hole.hole.cause, HoleCause::disk);
    EXPECT_EQ(facts.holes[0].hole.events, 200U);
    EXPECT_EQ(facts.holes[0].hole.from_ns, 1'004'000'000'000U);
    EXPECT_EQ(facts.holes[1].cpu, 1);
    EXPECT_EQ(facts.file_bytes, std::filesystem::file_size(folder.path("data")));
    const ReadBack read = read_back(folder.path("data"));
    EXPECT_EQ(read.first, counted_from(1, 300));
    EXPECT_EQ(read.second, second_ring(1, 300));
    EXPECT_EQ(read.rounds, 3U);
  }
}

TEST(PartFileTest, AFailedSyncBeforeTheFirstGoodOneAndAtTheLastStepIsThatOfThePart) {
  for (const std::size_t fails_at : {1U, 2U}) {
    const StreamFolder folder;
    MadeRounds rounds;
    Chunks chunks = begun_chunks();
    FailingSync sync{.fails_at = fails_at};
    PartStart start = made_start(folder.path("data"), folder.path("journal"));
    start.sync = sync.make();
    auto part = PartFile::create(std::move(start), chunks);
    ASSERT_TRUE(part) << part.error().what;
    ASSERT_TRUE(part->write(rounds.next(100), some_sideband));
    for (int i = 0; i < 2; ++i) {
      const auto finished = part->finish(made_features());
      ASSERT_FALSE(finished) << "the next fdatasync(2) would succeed";
      EXPECT_EQ(finished.error().errno_value(), EIO) << finished.error().what;
    }
    EXPECT_EQ(part->facts().lost_events, fails_at == 1 ? 200U : 0U);
  }
}

// The outcome of a part, of the writer's thread.
struct Outcome {
  std::promise<std::pair<Result<void>, PartFacts>> promise;
  std::future<std::pair<Result<void>, PartFacts>> future = promise.get_future();

  PartWriter::PartEnd end() {
    return {.features = made_features, .ended = [this](Result<void> outcome, PartFacts facts) {
              promise.set_value(std::pair(std::move(outcome), std::move(facts)));
            }};
  }
  std::pair<Result<void>, PartFacts> wait() {
    EXPECT_EQ(future.wait_for(test::kPatience), std::future_status::ready);
    return future.get();
  }
};

// Long after all rounds.
EventTime much_later() { return EventTime{1} << 62U; }

std::unique_ptr<PartWriter> start_writer(SidebandSource sideband = some_sideband, PartLimits limits = {},
                                         std::function<EventTime()> clock = much_later) {
  PartWriter::Settings settings;
  settings.clock = std::move(clock);
  settings.sideband = std::move(sideband);
  settings.limits = limits;
  auto writer = PartWriter::start(std::move(settings));
  EXPECT_TRUE(writer) << writer.error().what;
  return std::move(writer.value());
}

TEST(PartWriterTest, NoRoundIsMissingAtTheSeamOfTwoParts) {
  const StreamFolder folder;
  MadeRounds rounds;
  Outcome first, second;
  const auto writer = start_writer(some_sideband, {.file_bytes = 20'000, .expanded_bytes = 1U << 30U});
  writer->begin(made_start(folder.path("1"), folder.path("journal-1")));
  std::uint64_t in_first = 0;
  while (!writer->progress().full && rounds.number() < 100'000) {
    writer->write(rounds.next(200));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(writer->progress().full);
  writer->write(rounds.next(200));
  in_first = rounds.number();
  // Rounds come while the next part is made ready; they are of the first one.
  PartStart start = made_start(folder.path("2"), folder.path("journal-2"));
  start.sideband_from_ns = 1'000'000'000'000;
  writer->begin(std::move(start), first.end());
  for (int i = 0; i < 5; ++i) writer->write(rounds.next(200));
  writer->end(second.end());
  const auto [first_outcome, first_facts] = first.wait();
  const auto [second_outcome, second_facts] = second.wait();
  ASSERT_TRUE(first_outcome) << first_outcome.error().what;
  ASSERT_TRUE(second_outcome) << second_outcome.error().what;
  EXPECT_EQ(first_facts.events, in_first * 2);
  EXPECT_EQ(second_facts.events, 2'000U);
  EXPECT_EQ(read_back(folder.path("1")).first, counted_from(1, in_first));
  EXPECT_EQ(read_back(folder.path("2")).first, counted_from(in_first + 1, in_first + 1'000));
  EXPECT_EQ(read_back(folder.path("2")).second, second_ring(in_first + 1, in_first + 1'000));
  const auto said = test::run_perf(folder, "script -i " + folder.path("2") + " -F comm,time");
  EXPECT_EQ(said.lines(), 2'000U);
  EXPECT_EQ(said.err, "");
  EXPECT_EQ(said.out.find(":1 "), std::string::npos) << "the second part names its processes itself";
}

// For example, the disk has less space for this part than usual.
TEST(PartWriterTest, APartMayHaveASmallerLimit) {
  const StreamFolder folder;
  MadeRounds rounds;
  Outcome first, second;
  const auto writer = start_writer();
  PartStart start = made_start(folder.path("1"), folder.path("journal-1"));
  start.most_bytes = 10'000;
  writer->begin(std::move(start));
  const auto until = std::chrono::steady_clock::now() + test::kPatience;
  while (!writer->progress().full && std::chrono::steady_clock::now() < until) {
    writer->write(rounds.next(1'000));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(writer->progress().full);
  EXPECT_LT(writer->progress().bytes, 1U << 20U);
  // The next one has that of the settings.
  writer->begin(made_start(folder.path("2"), folder.path("journal-2")), first.end());
  const auto [outcome, facts] = first.wait();
  ASSERT_TRUE(outcome) << outcome.error().what;
  writer->write(rounds.next(5'000));
  while (writer->progress().events < facts.events + 10'000 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(writer->progress().events, facts.events + 10'000);
  EXPECT_FALSE(writer->progress().full);
  writer->end(second.end());
  EXPECT_TRUE(second.wait().first);
}

// While the sideband is waited for, rounds are joined: the queue stays short, and nothing is lost.
TEST(PartWriterTest, RoundsAreJoinedWhileTheWriterWaits) {
  const StreamFolder folder;
  MadeRounds rounds;
  std::promise<void> go_on;
  const std::shared_future<void> may_go_on = go_on.get_future().share();
  Outcome outcome;
  const auto writer = start_writer([&](EventTime from_ns, EventTime until_ns) {
    may_go_on.wait();
    return some_sideband(from_ns, until_ns);
  });
  writer->begin(made_start(folder.path("data"), folder.path("journal")));
  for (int i = 0; i < 100; ++i) writer->write(rounds.next(20));
  go_on.set_value();
  writer->end(outcome.end());
  const auto [ended, facts] = outcome.wait();
  ASSERT_TRUE(ended) << ended.error().what;
  EXPECT_EQ(facts.events, 4'000U);
  EXPECT_LE(facts.rounds, PartWriter::kMaxQueuedRounds + 2) << "and one that it had begun";
  const ReadBack read = read_back(folder.path("data"));
  EXPECT_EQ(read.first, counted_from(1, 2'000));
  EXPECT_EQ(read.second, second_ring(1, 2'000));
  EXPECT_TRUE(read.in_order);
  EXPECT_EQ(rounds.pool().free_bytes(), rounds.pool().size_bytes()) << "every block is free again";
}

// Records can be late in their rings, also those of the sideband.
TEST(PartWriterTest, TheSidebandIsTakenWhenItHasSettled) {
  const StreamFolder folder;
  MadeRounds rounds;
  Outcome outcome;
  std::vector<std::pair<EventTime, EventTime>> asked;  // until then, and when; of the writer's thread
  const auto writer = start_writer(
      [&](EventTime from_ns, EventTime until_ns) {
        asked.emplace_back(until_ns, monotonic_now());
        return some_sideband(from_ns, until_ns);
      },
      {}, monotonic_now);
  writer->begin(made_start(folder.path("data"), folder.path("journal")));
  for (int i = 0; i < 3; ++i) {
    Round round = rounds.next(20);
    round.newest_ns = monotonic_now();
    writer->write(std::move(round));
  }
  Round wrong = rounds.next(20);
  wrong.newest_ns = monotonic_now() + 3'600'000'000'000;
  writer->write(std::move(wrong));
  writer->end(outcome.end());
  const auto [ended, facts] = outcome.wait();
  ASSERT_TRUE(ended) << ended.error().what;
  ASSERT_EQ(asked.size(), 4U) << "a wrong time does not stop the writer";
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GE(asked[i].second, asked[i].first + 50'000'000);
  EXPECT_EQ(facts.events, 160U);
}

// Only then is it known which files were mapped.
TEST(PartWriterTest, TheFeaturesAreAskedForWhenAllRoundsAreWritten) {
  const StreamFolder folder;
  MadeRounds rounds;
  Outcome outcome;
  int written = 0, written_before = 0;  // of the writer's thread
  const auto writer = start_writer([&](EventTime from_ns, EventTime until_ns) {
    ++written;
    return some_sideband(from_ns, until_ns);
  });
  writer->begin(made_start(folder.path("data"), folder.path("journal")));
  for (int i = 0; i < 3; ++i) writer->write(rounds.next(20));
  PartWriter::PartEnd end = outcome.end();
  end.features = [&] {
    written_before = written;
    Features features = made_features();
    features.hostname = "at-the-end";
    return features;
  };
  writer->end(std::move(end));
  const auto [ended, facts] = outcome.wait();
  ASSERT_TRUE(ended) << ended.error().what;
  EXPECT_EQ(written_before, 3);
  const auto reader = FileReader::open(folder.path("data"));
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->string_feature(kFeatureHostname), "at-the-end");
}

// A power cut costs what came since then. If no other round comes, the writer wakes up for it.
TEST(PartWriterTest, RoundsAreSyncedInTime) {
  using std::chrono_literals::operator""h;
  using std::chrono_literals::operator""ms;
  for (const std::chrono::nanoseconds every :
       {std::chrono::nanoseconds(0), std::chrono::nanoseconds(10ms), std::chrono::nanoseconds(1h)}) {
    SCOPED_TRACE(every.count());
    const StreamFolder folder;
    MadeRounds rounds;
    Outcome outcome;
    std::atomic<std::size_t> syncs = 0;
    PartWriter::Settings settings;
    settings.clock = much_later;
    settings.sync_every = every;
    auto writer = PartWriter::start(std::move(settings));
    ASSERT_TRUE(writer) << writer.error().what;
    PartStart start = made_start(folder.path("data"), folder.path("journal"));
    start.sync = [&syncs](int file) {
      ++syncs;
      return sync_data_now(file);
    };
    (*writer)->begin(std::move(start));
    (*writer)->write(rounds.next(20));
    const auto until = std::chrono::steady_clock::now() + test::kPatience;
    const auto is_done = [&] { return every == 1h ? (*writer)->progress().events == 40 : syncs.load() > 0; };
    while (!is_done() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(syncs.load(), every == 1h ? 0U : 1U) << "while the part is open";
    (*writer)->end(outcome.end());
    EXPECT_TRUE(outcome.wait().first);
    EXPECT_EQ(syncs.load(), 2U) << "and at its end";
  }
}

TEST(PartWriterTest, WithoutAPartRoundsAreCountedAsLost) {
  const StreamFolder folder;
  MadeRounds rounds;
  Outcome outcome, again, none;
  const auto writer = start_writer();
  writer->write(rounds.next(30));
  PartStart start = made_start(folder.path("data"), folder.path("journal"));
  ASSERT_TRUE(write_all(start.data.get(), "not empty"));
  writer->begin(std::move(start));
  writer->write(rounds.next(20));
  writer->end(outcome.end());
  const auto [ended, facts] = outcome.wait();
  ASSERT_FALSE(ended);
  EXPECT_NE(ended.error().what.find("not empty"), std::string::npos) << ended.error().what;
  EXPECT_EQ(facts.lost_events, 100U);
  EXPECT_EQ(facts.lost_bytes, 100U * 48);
  writer->begin(made_start(folder.path("data-2"), folder.path("journal-2")));
  writer->write(rounds.next(10));
  writer->end(again.end());
  const auto [next_ended, next_facts] = again.wait();
  EXPECT_TRUE(next_ended);
  EXPECT_EQ(next_facts.events, 20U);
  EXPECT_EQ(next_facts.lost_events, 0U);
  writer->end(none.end());
  EXPECT_FALSE(none.wait().first) << "no part is open";
}

// As after a crash, except that the queue was written.
TEST(PartWriterTest, APartThatIsLeftOpenCanBeRecovered) {
  const StreamFolder folder;
  MadeRounds rounds;
  {
    const auto writer = start_writer();
    writer->begin(made_start(folder.path("data"), folder.path("journal")));
    for (int i = 0; i < 5; ++i) writer->write(rounds.next(100));
  }
  const auto file = open_file(folder.path("data"), O_RDWR);
  ASSERT_TRUE(file);
  const auto journal = read_file(folder.path("journal"));
  ASSERT_TRUE(journal);
  const auto recovered = recover(file->get(), std::as_bytes(std::span(*journal)));
  ASSERT_TRUE(recovered) << recovered.error().what;
  EXPECT_EQ(recovered->events, 1'000U);
  EXPECT_EQ(recovered->left_out, 0U);
  EXPECT_EQ(read_back(folder.path("data")).first, counted_from(1, 500));
}

}  // namespace
}  // namespace flight
