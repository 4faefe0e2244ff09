// SPDX-License-Identifier: Apache-2.0
// Parts of a recording that are data directories: written, killed and recovered, and read again by this reader and by
// stock perf.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <random>

#include "libcore/base/data_folder.hpp"
#include "libcore/base/file_calls.hpp"
#include "libcore/stream/journal.hpp"
#include "libcore/stream/part_file.hpp"
#include "libcore/stream/recover.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::counted_from;
using test::made_features;
using test::made_folder_start;
using test::MadeRounds;
using test::read_back;
using test::ReadBack;
using test::StreamFolder;
namespace fs = std::filesystem;

constexpr std::size_t kWorkers = 3;  // the last one has no ring

Chunks folder_chunks() {
  Chunks chunks = Chunks::create(1).value();
  chunks.begin();
  return chunks;
}

RecordBuffer folder_sideband(EventTime from_ns, EventTime until_ns) {
  EXPECT_LT(from_ns, until_ns);
  return test::comm_of(1, until_ns);
}

std::vector<std::uint64_t> of_second_ring(std::uint64_t count) {
  return counted_from(MadeRounds::kSecondRing + 1, MadeRounds::kSecondRing + count);
}

std::uint64_t folder_bytes(const std::string& folder) {
  std::uint64_t sum = 0;
  for (const auto& entry : fs::directory_iterator(folder)) sum += entry.file_size();
  return sum;
}

TEST(PartFolderTest, ThePartIsAWholeDirectoryOfItsRounds) {
  const StreamFolder folder;
  const std::string path = folder.path("part.perf.data");
  MadeRounds rounds;
  Chunks chunks = folder_chunks();
  auto part = PartFile::create(made_folder_start(path, folder.path("journal"), kWorkers), chunks);
  ASSERT_TRUE(part) << part.error().what;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(part->write(rounds.next(500), folder_sideband));
  EXPECT_EQ(part->facts().file_bytes, folder_bytes(path));
  ASSERT_TRUE(part->sync());
  const Result<void> finished = part->finish(made_features());
  ASSERT_TRUE(finished) << finished.error().what;

  const PartFacts& facts = part->facts();
  EXPECT_EQ(facts.events, 10'000U);
  EXPECT_EQ(facts.rounds, 10U);
  EXPECT_EQ(facts.lost_events, 0U);
  EXPECT_EQ(facts.file_bytes, folder_bytes(path));
  EXPECT_GT(fs::file_size(path + "/data.0"), 0U);
  EXPECT_GT(fs::file_size(path + "/data.1"), 0U);
  EXPECT_EQ(fs::file_size(path + "/data.2"), 0U);
  const ReadBack read = read_back(path);
  EXPECT_EQ(read.first, counted_from(1, 5'000));
  EXPECT_EQ(read.second, of_second_ring(5'000));
  EXPECT_EQ(read.rounds, 0U) << "perf would deliver what it has of one file, and not of the others";
  EXPECT_EQ(read.comms, 11U) << "of the prologue, and of each round";
  const ReadBack main = read_back(path + "/data");
  EXPECT_EQ(main.samples, 0U);
  EXPECT_EQ(main.comms, 11U);

  const auto said = test::run_perf(folder, "script -i " + path + " -F time");
  EXPECT_EQ(said.lines(), 10'000U);
  EXPECT_EQ(said.err, "");
  const auto header = test::run_perf(folder, "report -i " + path + " --header-only");
  EXPECT_NE(header.out.find("# time of first sample : 1001.000000"), std::string::npos) << header.out;
  EXPECT_NE(header.out.find("# compressed : Zstd, level = 1"), std::string::npos) << header.out;
  EXPECT_EQ(header.err, "");
}

TEST(PartFolderTest, ManyWorkersFillTheirJournalEarlier) {
  const StreamFolder folder;
  MadeRounds rounds;
  Chunks chunks = folder_chunks();
  auto part = PartFile::create(made_folder_start(folder.path("part"), folder.path("journal"), 6), chunks);
  ASSERT_TRUE(part) << part.error().what;
  const PartLimits few_rounds{.rounds = 4};  // of a file; these entries are twice as long
  ASSERT_TRUE(part->write(rounds.next(1), {}));
  EXPECT_FALSE(part->is_full(few_rounds));
  ASSERT_TRUE(part->write(rounds.next(1), {}));
  EXPECT_TRUE(part->is_full(few_rounds));
}

// The sync of one of the data.N fails: what is in any of them since the last one is uncertain.
TEST(PartFolderTest, AFailedSyncOfOneFileCutsAll) {
  const StreamFolder folder;
  const std::string path = folder.path("part");
  MadeRounds rounds;
  Chunks chunks = folder_chunks();
  PartStart start = made_folder_start(path, folder.path("journal"), kWorkers);
  std::size_t calls = 0;
  start.sync = [&calls](int file) -> Result<bool> {
    if (++calls == kWorkers + 1 + 2) return sys_error(EIO, "sync to the disk");  // data.1, the second time
    return sync_data_now(file);
  };
  auto part = PartFile::create(std::move(start), chunks);
  ASSERT_TRUE(part) << part.error().what;
  ASSERT_TRUE(part->write(rounds.next(100), folder_sideband));
  ASSERT_TRUE(part->sync());
  ASSERT_TRUE(part->write(rounds.next(100), folder_sideband));
  const auto refused = part->sync();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), EIO) << refused.error().what;
  EXPECT_FALSE(part->write(rounds.next(100), folder_sideband));
  EXPECT_EQ(part->facts().events, 200U);
  EXPECT_EQ(part->facts().lost_events, 400U);
  ASSERT_TRUE(part->finish(made_features()));
  EXPECT_EQ(part->facts().file_bytes, folder_bytes(path));
  const ReadBack read = read_back(path);
  EXPECT_EQ(read.first, counted_from(1, 100));
  EXPECT_EQ(read.second, of_second_ring(100));
}

TEST(PartFolderTest, AFullDiskEndsItWithAWholeDirectory) {
  if (!test::is_root()) GTEST_SKIP() << "needs root";
  const StreamFolder folder;
  const std::string mount = folder.path("small");
  fs::create_directory(mount);
  ASSERT_EQ(::mount("flight-test", mount.c_str(), "tmpfs", 0, "size=1m"), 0);
  {
    MadeRounds rounds;
    Chunks chunks = folder_chunks();
    auto part = PartFile::create(made_folder_start(mount + "/part", mount + "/journal", kWorkers), chunks);
    EXPECT_TRUE(part) << part.error().what;
    std::uint64_t lost = 0, kept = 0;
    for (int i = 0; i < 20 && part; ++i) {
      const auto written = part->write(rounds.next(50, 2'000), folder_sideband);  // 200 KB that cannot be compressed
      (written ? kept : lost) += 100;
    }
    EXPECT_GT(kept, 0U);
    EXPECT_GT(lost, 0U);
    if (part) {
      EXPECT_EQ(part->facts().events, kept);
      EXPECT_EQ(part->facts().lost_events, lost);
      const auto finished = part->finish(made_features());
      EXPECT_TRUE(finished) << finished.error().what;
      EXPECT_EQ(part->facts().file_bytes, folder_bytes(mount + "/part"));
    }
    EXPECT_EQ(read_back(mount + "/part").first, counted_from(1, kept / 2));
  }
  EXPECT_EQ(::umount(mount.c_str()), 0);
}

constexpr std::size_t kFolderRounds = 12;

// A directory whose writer was killed after some rounds.
struct KilledFolder {
  std::vector<std::string> files;  // the bytes of data, data.0, data.1 …
  std::string journal;
  std::vector<std::vector<std::uint64_t>> ends;  // the files' lengths after each round
  std::vector<std::uint64_t> events;             // in them then
};

std::vector<std::string> names_of_files() {
  std::vector<std::string> out{std::string(kMainDataFile)};
  for (std::size_t i = 0; i < kWorkers; ++i) out.push_back(bare_data_file(i));
  return out;
}

KilledFolder kill_folder(const StreamFolder& folder) {
  KilledFolder out;
  const std::string path = folder.path("killed");
  MadeRounds rounds;
  Chunks chunks = folder_chunks();
  auto part = PartFile::create(made_folder_start(path, folder.path("killed-journal"), kWorkers), chunks);
  EXPECT_TRUE(part) << part.error().what;
  for (std::size_t i = 0; i < kFolderRounds; ++i) {
    EXPECT_TRUE(part->write(rounds.next(50 + 40 * i), folder_sideband));
    std::vector<std::uint64_t>& ends = out.ends.emplace_back();
    for (const std::string& name : names_of_files()) ends.push_back(fs::file_size(path + "/" + name));
    out.events.push_back(part->facts().events);
  }
  for (const std::string& name : names_of_files()) out.files.push_back(read_file(path + "/" + name).value());
  out.journal = read_file(folder.path("killed-journal")).value();
  return out;
}

// A copy of the files, opened.
struct OpenedFolder {
  std::string path;
  UniqueFd data;
  std::vector<UniqueFd> more;

  OpenedFolder(const StreamFolder& folder, const std::string& name, const std::vector<std::string>& files)
      : path(folder.path(name)) {
    fs::create_directory(path);
    for (std::size_t i = 0; i < files.size(); ++i) {
      UniqueFd file = test::create_file(path + "/" + names_of_files()[i]);
      EXPECT_TRUE(write_all(file.get(), files[i]));
      if (i == 0) {
        data = std::move(file);
      } else {
        more.push_back(std::move(file));
      }
    }
  }
  [[nodiscard]] Result<Recovered> recover_with(const std::string& journal) const {
    std::vector<int> numbers;
    for (const UniqueFd& file : more) numbers.push_back(file.get());
    return recover(data.get(), std::as_bytes(std::span(journal)), numbers);
  }
};

TEST(RecoverFolderTest, TheDirectoryIsThatOfTheRoundsThatAllItsFilesHave) {
  const StreamFolder folder;
  const KilledFolder killed = kill_folder(folder);
  std::mt19937 random(30);
  for (int i = 0; i < 15; ++i) {
    const std::size_t which = static_cast<std::size_t>(i) % 3;  // data, data.0, data.1
    std::vector<std::string> files = killed.files;
    const std::size_t from = killed.ends.front()[which];
    const std::size_t length = from + random() % (files[which].size() + 1 - from);
    SCOPED_TRACE(testing::Message() << names_of_files()[which] << " cut at " << length);
    files[which].resize(length);
    files[0] += "behind it";
    const OpenedFolder opened(folder, "cut-" + std::to_string(i), files);
    const auto whole =
        static_cast<std::size_t>(std::count_if(killed.ends.begin(), killed.ends.end(), [&](const auto& ends) {
          return ends[which] <= length + (which == 0 ? std::string_view("behind it").size() : 0);
        }));
    const auto recovered = opened.recover_with(killed.journal);
    ASSERT_TRUE(recovered) << recovered.error().what;
    EXPECT_LE(recovered->rounds, whole);
    EXPECT_GE(recovered->rounds + (which == 0 ? 1 : 0), whole) << "torn bytes may seem to be a round's";
    ASSERT_GT(recovered->rounds, 0U);
    EXPECT_EQ(recovered->events, killed.events[recovered->rounds - 1]);
    EXPECT_EQ(recovered->file_bytes, folder_bytes(opened.path));
    const ReadBack read = read_back(opened.path);
    EXPECT_EQ(read.samples, recovered->events);
    EXPECT_EQ(read.first, counted_from(1, recovered->events / 2));
    EXPECT_EQ(read.comms, 1 + recovered->rounds);
    const auto said = test::run_perf(folder, "script -i " + opened.path + " -F time");
    EXPECT_EQ(said.lines(), recovered->events);
    EXPECT_EQ(said.err, "");
  }
}

TEST(RecoverFolderTest, ItCanBeRecoveredAgain) {
  const StreamFolder folder;
  const KilledFolder killed = kill_folder(folder);
  const OpenedFolder opened(folder, "again", killed.files);
  EXPECT_EQ(more_files_of(std::as_bytes(std::span(killed.journal))), kWorkers);
  for (int again = 0; again < 2; ++again) {
    const auto recovered = opened.recover_with(killed.journal);
    ASSERT_TRUE(recovered) << recovered.error().what;
    EXPECT_EQ(recovered->rounds, kFolderRounds);
    EXPECT_EQ(recovered->left_out, 0U);
    EXPECT_EQ(read_back(opened.path).samples, recovered->events);
  }
}

// Nearly all bytes of the rounds are in the other files, and the entries of the journal are longer than those of a
// file.
TEST(RecoverFolderTest, WhereTheDiskIsFullAFewRoundsMakeSpace) {
  if (!test::is_root()) GTEST_SKIP() << "needs root: mount(2)";
  constexpr std::size_t kRounds = 64;  // with about 84 KB each
  const StreamFolder folder;
  const std::string disk = folder.path("disk"), path = disk + "/part", journal_path = folder.path("journal");
  fs::create_directory(disk);
  ASSERT_EQ(::mount("none", disk.c_str(), "tmpfs", 0, "size=8M"), 0);
  struct Mounted {
    const std::string& where;
    ~Mounted() { ::umount2(where.c_str(), MNT_DETACH); }
  } mounted{disk};
  {
    MadeRounds rounds;
    Chunks chunks = folder_chunks();
    PartStart start = made_folder_start(path, journal_path, kWorkers);
    start.features.command_line = {std::string(250'000, 'x'), std::string(250'000, 'y')};
    auto part = PartFile::create(std::move(start), chunks);
    ASSERT_TRUE(part) << part.error().what;
    for (std::size_t i = 0; i < kRounds; ++i) {
      ASSERT_TRUE(part->write(rounds.next(40, 1'000), folder_sideband));
    }
  }
  const UniqueFd filler = test::create_file(disk + "/filler");
  const std::vector<std::byte> page(4096, std::byte{1});
  while (write_all(filler.get(), page)) {
  }
  std::vector<UniqueFd> files;
  std::vector<int> numbers;
  for (const std::string& name : names_of_files()) {
    auto file = open_file(path + "/" + name, O_RDWR | O_CLOEXEC);
    ASSERT_TRUE(file) << file.error().what;
    numbers.push_back(file->get());
    files.push_back(std::move(*file));
  }
  const std::string journal = read_file(journal_path).value();
  const auto recovered =
      recover_what_fits(numbers.front(), std::as_bytes(std::span(journal)), std::span(numbers).subspan(1));
  ASSERT_TRUE(recovered) << recovered.error().what;
  EXPECT_EQ(recovered->rounds, kRounds - 8) << "the newest 1, 2, 4 and then 8";
  EXPECT_EQ(recovered->file_bytes, folder_bytes(path));
  EXPECT_EQ(read_back(path).samples, recovered->events);
}

TEST(RecoverFolderTest, WithAnotherNumberOfFilesNothingIsRecovered) {
  const StreamFolder folder;
  const KilledFolder killed = kill_folder(folder);
  std::vector<std::string> files = killed.files;
  files.pop_back();
  const OpenedFolder fewer(folder, "fewer", files);
  const auto recovered = fewer.recover_with(killed.journal);
  ASSERT_FALSE(recovered);
  EXPECT_EQ(recovered.error().errno_value(), EBADMSG) << recovered.error().what;
  const auto as_file = recover(fewer.data.get(), std::as_bytes(std::span(killed.journal)));
  ASSERT_FALSE(as_file);
  EXPECT_EQ(as_file.error().errno_value(), EBADMSG) << as_file.error().what;
  for (std::size_t i = 0; i < files.size(); ++i)
    EXPECT_EQ(read_file(fewer.path + "/" + names_of_files()[i]).value(), files[i]) << "an error changes nothing";
}

TEST(RecoverFolderTest, NoChangedByteOfTheJournalIsBelieved) {
  const StreamFolder folder;
  const KilledFolder killed = kill_folder(folder);
  const std::size_t entry_bytes = kJournalEntryBytes + kWorkers * 8;
  const std::size_t facts = killed.journal.size() - kFolderRounds * entry_bytes;
  for (std::size_t at = 0; at < killed.journal.size(); ++at) {
    std::string changed = killed.journal;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    const auto contents = parse_journal(std::as_bytes(std::span(changed)));
    if (at < facts) {
      EXPECT_FALSE(contents) << at;
    } else {
      ASSERT_TRUE(contents) << contents.error().what;
      EXPECT_EQ(contents->more_files, kWorkers);
      EXPECT_EQ(contents->entries.size(), (at - facts) / entry_bytes);
    }
  }
}

// Its checksums are right, and the lengths go back, or are those of other files.
TEST(RecoverFolderTest, LengthsThatLieAreNotBelieved) {
  const StreamFolder folder;
  const KilledFolder killed = kill_folder(folder);
  const auto entries = parse_journal(std::as_bytes(std::span(killed.journal))).value().entries;
  const auto features = [] {
    Features out = made_features();
    out.directory = true;
    return encode_features(out, test::made_events());
  }();
  for (const bool shorter : {true, false}) {
    SCOPED_TRACE(shorter);
    const std::string path = folder.path(shorter ? "shorter" : "longer");
    auto journal = Journal::create(test::create_file(path), test::made_events(), features, kWorkers);
    ASSERT_TRUE(journal) << journal.error().what;
    ASSERT_TRUE(journal->append(entries[1]));
    JournaledRound wrong = entries[2];
    wrong.more_bytes[1] = shorter ? entries[0].more_bytes[1] : killed.files[2].size() + 1;
    ASSERT_TRUE(journal->append(wrong));
    const OpenedFolder opened(folder, shorter ? "of-shorter" : "of-longer", killed.files);
    const auto recovered = opened.recover_with(read_file(path).value());
    ASSERT_TRUE(recovered) << recovered.error().what;
    EXPECT_EQ(recovered->rounds, 1U);
    EXPECT_EQ(recovered->events, killed.events[1]);
    EXPECT_EQ(recovered->reason.empty(), shorter) << recovered->reason;
  }
}

}  // namespace
}  // namespace flight
