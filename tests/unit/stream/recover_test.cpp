// SPDX-License-Identifier: Apache-2.0
// What is left of a part when its writer is killed, and journals that are cut or lie.
#include "libcore/stream/recover.hpp"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <random>
#include <thread>

#include "libcore/stream/journal.hpp"
#include "tests/unit/root_test.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::counted_from;
using test::create_file;
using test::made_events;
using test::made_features;
using test::made_start;
using test::MadeRounds;
using test::read_back;
using test::StreamFolder;

constexpr std::size_t kKilledRounds = 12;

// A part whose writer was killed after some rounds.
struct KilledPart {
  std::string data, journal;          // the files' bytes
  std::vector<std::uint64_t> ends;    // the data file's length after each round
  std::vector<std::uint64_t> events;  // in the file then
};

KilledPart kill_part(const StreamFolder& folder) {
  KilledPart out;
  MadeRounds rounds;
  Chunks chunks = Chunks::create(1).value();
  chunks.begin();
  auto part = PartFile::create(made_start(folder.path("killed"), folder.path("killed-journal")), chunks);
  EXPECT_TRUE(part) << part.error().what;
  for (std::size_t i = 0; i < kKilledRounds; ++i) {
    EXPECT_TRUE(part->write(rounds.next(50 + 40 * i), {}));
    out.ends.push_back(part->facts().file_bytes);
    out.events.push_back(part->facts().events);
  }
  out.data = read_file(folder.path("killed")).value();
  out.journal = read_file(folder.path("killed-journal")).value();
  return out;
}

UniqueFd file_with(const std::string& path, std::string_view bytes) {
  UniqueFd file = create_file(path);
  EXPECT_TRUE(write_all(file.get(), bytes));
  return file;
}

std::span<const std::byte> as_journal(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

TEST(RecoverTest, TheFileIsThatOfTheRoundsBeforeTheCut) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  std::mt19937 random(29);
  for (int i = 0; i < 25; ++i) {
    // The first ones anywhere, the others where a round is whole.
    const std::size_t from = i < 5 ? 1 : killed.ends.front();
    const std::size_t length = from + random() % (killed.data.size() + 1 - from);
    SCOPED_TRACE(testing::Message() << "cut at " << length << " of " << killed.data.size());
    const std::string path = folder.path("cut-" + std::to_string(i));
    const UniqueFd file = file_with(path, std::string_view(killed.data).substr(0, length));
    const auto whole = static_cast<std::size_t>(
        std::count_if(killed.ends.begin(), killed.ends.end(), [&](std::uint64_t end) { return end <= length; }));
    const auto recovered = recover(file.get(), as_journal(killed.journal));
    if (whole == 0) {
      ASSERT_FALSE(recovered);
      EXPECT_EQ(recovered.error().errno_value(), EBADMSG) << recovered.error().what;
      continue;
    }
    ASSERT_TRUE(recovered) << recovered.error().what;
    EXPECT_EQ(recovered->rounds, whole);
    EXPECT_EQ(recovered->left_out, kKilledRounds - whole);
    EXPECT_EQ(recovered->reason.empty(), whole == kKilledRounds);
    EXPECT_EQ(recovered->events, killed.events[whole - 1]);
    EXPECT_EQ(recovered->file_bytes, std::filesystem::file_size(path));
    const auto read = read_back(path);
    EXPECT_EQ(read.rounds, whole);
    EXPECT_EQ(read.samples, recovered->events);
    EXPECT_EQ(read.first, counted_from(1, recovered->events / 2));
    EXPECT_TRUE(read.in_order);
    const auto said = test::run_perf(folder, "script -i " + path + " -F time");
    EXPECT_EQ(said.lines(), recovered->events);
    EXPECT_EQ(said.err, "");
  }
}

TEST(RecoverTest, AWholePartHasAllFeaturesAndCanBeRecoveredAgain) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  const UniqueFd file = file_with(folder.path("again"), killed.data);
  const auto recovered = recover(file.get(), as_journal(killed.journal));
  ASSERT_TRUE(recovered) << recovered.error().what;
  EXPECT_EQ(recovered->left_out, 0U);
  EXPECT_EQ(recovered->first_ns, 1'001'000'000'000U);
  const std::string once = read_file(folder.path("again")).value();
  const auto reader = FileReader::open(folder.path("again"));
  ASSERT_TRUE(reader) << reader.error().what;
  EXPECT_EQ(reader->string_feature(kFeatureHostname), "stream");
  EXPECT_EQ(reader->events().at(0).name, "cpu-clock");
  const std::vector<std::byte> times = reader->features().at(kFeatureSampleTime);
  ASSERT_EQ(times.size(), 16U);
  EXPECT_EQ(load<std::uint64_t>(times.data()), recovered->first_ns);
  EXPECT_EQ(load<std::uint64_t>(times.data() + 8), recovered->newest_ns);
  // Killed behind the last step: the next start does it again.
  ASSERT_TRUE(recover(file.get(), as_journal(killed.journal)));
  EXPECT_EQ(read_file(folder.path("again")).value(), once);
}

// A tmpfs that is full, and a part on it whose features have not been written.
class FullDisk {
 public:
  // `features`: so many times 100,000 bytes; a text of more than 256 KiB would be cut.
  FullDisk(const StreamFolder& folder, const char* size, int rounds, std::size_t features)
      : path_(folder.path("disk")), journal_path_(folder.path("journal")) {
    std::filesystem::create_directory(path_);
    EXPECT_EQ(::mount("none", path_.c_str(), "tmpfs", 0, size), 0);
    MadeRounds made;
    Chunks chunks = Chunks::create(1).value();
    chunks.begin();
    PartStart start = made_start(data_path(), journal_path_);
    start.features.command_line.assign(features, std::string(100'000, 'x'));
    auto part = PartFile::create(std::move(start), chunks);
    EXPECT_TRUE(part) << part.error().what;
    for (int i = 0; part && i < rounds; ++i) EXPECT_TRUE(part->write(made.next(40, 1000), {}));
    filler_ = create_file(path_ + "/filler");
    fill();
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;
  ~FullDisk() { ::umount2(path_.c_str(), MNT_DETACH); }

  void fill() const {
    const std::vector<std::byte> page(4096, std::byte{1});
    while (write_all(filler_.get(), page)) {
    }
  }
  [[nodiscard]] std::string data_path() const { return path_ + "/data"; }
  [[nodiscard]] std::string journal() const { return read_file(journal_path_).value(); }
  // The rounds that the part still has, where there is space.
  [[nodiscard]] std::size_t rounds_in(const std::string& copy) const {
    std::filesystem::copy_file(data_path(), copy);
    const auto file = open_file(copy, O_RDWR | O_CLOEXEC);
    const std::string entries = journal();
    const auto recovered = recover(file.value().get(), as_journal(entries));
    EXPECT_TRUE(recovered) << recovered.error().what;
    return recovered ? recovered->rounds : 0;
  }

 private:
  std::string path_, journal_path_;
  UniqueFd filler_;
};

// The features need space, too.
TEST(RecoverTest, WhereTheDiskIsFullTheNewestRoundsMakeSpace) {
  if (!test::is_root()) GTEST_SKIP() << "needs root: mount(2)";
  const StreamFolder folder;
  const FullDisk disk(folder, "size=2M", 8, 1);
  const std::string journal = disk.journal();
  const auto file = open_file(disk.data_path(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(file) << file.error().what;
  const auto refused = recover(file->get(), as_journal(journal));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), ENOSPC) << refused.error().what;
  const auto recovered = recover_what_fits(file->get(), as_journal(journal));
  ASSERT_TRUE(recovered) << recovered.error().what;
  EXPECT_GT(recovered->rounds, 0U);
  EXPECT_LT(recovered->rounds, 8U);
  EXPECT_EQ(read_back(disk.data_path()).samples, recovered->events);
}

TEST(RecoverTest, NoRoundIsGivenUpInVain) {
  if (!test::is_root()) GTEST_SKIP() << "needs root: mount(2)";
  const StreamFolder folder;
  const FullDisk disk(folder, "size=2M", 8, 10);
  const std::string journal = disk.journal();
  const auto file = open_file(disk.data_path(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(file) << file.error().what;
  const auto refused = recover_what_fits(file->get(), as_journal(journal));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().errno_value(), ENOSPC) << refused.error().what;
  EXPECT_EQ(disk.rounds_in(folder.path("copy")), 8U);
}

// Other programs may take the space that is cut off. A few of 64 rounds are enough for the features.
TEST(RecoverTest, WhereOthersTakeTheSpaceFewRoundsAreGivenUp) {
  if (!test::is_root()) GTEST_SKIP() << "needs root: mount(2)";
  const StreamFolder folder;
  const FullDisk disk(folder, "size=8M", 64, 1);
  const std::string journal = disk.journal();
  const auto file = open_file(disk.data_path(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(file) << file.error().what;
  std::atomic<bool> ends = false;
  std::thread others([&] {
    while (!ends) disk.fill();
  });
  const auto recovered = recover_what_fits(file->get(), as_journal(journal));
  ends = true;
  others.join();
  if (!recovered) {
    EXPECT_EQ(recovered.error().errno_value(), ENOSPC) << recovered.error().what;
  }
  EXPECT_GE(disk.rounds_in(folder.path("copy")), 60U);
}

// After a power cut the file may have its length, and nothing was written to some of its pages.
TEST(RecoverTest, PagesThatWereNeverWrittenEndTheFileBeforeThem) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  for (const std::size_t round : {1U, 6U, 11U}) {
    std::string data = killed.data;
    const std::size_t begin = killed.ends[round - 1] + 100;  // within the frame of the round after it
    std::fill(data.begin() + static_cast<std::ptrdiff_t>(begin), data.end(), '\0');
    const std::string path = folder.path("zeros-" + std::to_string(round));
    const UniqueFd file = file_with(path, data);
    const auto recovered = recover(file.get(), as_journal(killed.journal));
    ASSERT_TRUE(recovered) << recovered.error().what;
    EXPECT_EQ(recovered->rounds, round);
    EXPECT_NE(recovered->reason, "");
    EXPECT_EQ(read_back(path).samples, killed.events[round - 1]);
  }
}

TEST(JournalTest, EveryCutIsAnErrorOrAShorterJournal) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  const std::size_t facts = killed.journal.size() - kKilledRounds * 48;
  for (std::size_t length = 0; length <= killed.journal.size(); ++length) {
    const auto contents = parse_journal(as_journal(killed.journal).first(length));
    ASSERT_EQ(contents.has_value(), length >= facts) << length;
    if (!contents) {
      EXPECT_EQ(contents.error().errno_value(), EBADMSG);
      EXPECT_NE(contents.error().what, "");
      continue;
    }
    EXPECT_EQ(contents->entries.size(), (length - facts) / 48);
    EXPECT_EQ(contents->torn_bytes, (length - facts) % 48);
    EXPECT_EQ(contents->events.at(0).ids, made_events().at(0).ids);
  }
}

TEST(JournalTest, NoChangedByteIsBelieved) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  const std::size_t facts = killed.journal.size() - kKilledRounds * 48;
  for (std::size_t at = 0; at < killed.journal.size(); ++at) {
    std::string changed = killed.journal;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    const auto contents = parse_journal(as_journal(changed));
    if (at < facts) {
      EXPECT_FALSE(contents) << at;
    } else {
      ASSERT_TRUE(contents) << contents.error().what;
      EXPECT_EQ(contents->entries.size(), (at - facts) / 48);
    }
  }
}

// A journal that is whole and lies about the file beside it.
struct Lie {
  std::string what;
  std::uint64_t data_bytes;
};

TEST(RecoverTest, AJournalThatLiesIsAnErrorWithTheReason) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  const std::uint64_t head =
      killed.data.size() - parse_journal(as_journal(killed.journal)).value().entries.back().data_bytes;
  const std::uint64_t whole = killed.data.size() - head;
  for (const Lie& lie : {Lie{"states " + std::to_string(whole + 1) + " bytes of records", whole + 1},
                         Lie{"bytes of records, the file has", UINT64_MAX}, Lie{"do not end with a record", whole - 3},
                         Lie{"without any record", 0}}) {
    SCOPED_TRACE(lie.what);
    const std::string name = std::to_string(lie.data_bytes);
    const UniqueFd file = file_with(folder.path("lie-" + name), killed.data);
    auto journal = Journal::create(create_file(folder.path("journal-" + name)), made_events(),
                                   encode_features(made_features(), made_events()));
    ASSERT_TRUE(journal) << journal.error().what;
    ASSERT_TRUE(journal->append({.data_bytes = lie.data_bytes, .expanded_bytes = 0, .first_ns = 1, .newest_ns = 2}));
    const auto recovered = recover(file.get(), as_journal(read_file(folder.path("journal-" + name)).value()));
    ASSERT_FALSE(recovered);
    EXPECT_NE(recovered.error().what.find(lie.what), std::string::npos) << recovered.error().what;
  }
}

TEST(RecoverTest, TimesThatEndBeforeTheyBeginAreNotBelieved) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  const UniqueFd file = file_with(folder.path("data"), killed.data);
  const auto entries = parse_journal(as_journal(killed.journal)).value().entries;
  auto journal = Journal::create(create_file(folder.path("journal")), made_events(),
                                 encode_features(made_features(), made_events()));
  ASSERT_TRUE(journal) << journal.error().what;
  ASSERT_TRUE(journal->append(entries[0]));
  JournaledRound wrong = entries[1];
  std::swap(wrong.first_ns, wrong.newest_ns);
  ASSERT_TRUE(journal->append(wrong));
  const auto recovered = recover(file.get(), as_journal(read_file(folder.path("journal")).value()));
  ASSERT_TRUE(recovered) << recovered.error().what;
  EXPECT_EQ(recovered->rounds, 1U);
  EXPECT_NE(recovered->reason.find("the journal states records from"), std::string::npos) << recovered->reason;
  EXPECT_EQ(recovered->events, killed.events[0]);
}

TEST(RecoverTest, WithoutARoundOrWithAnotherFileThereIsNothingToRecover) {
  const StreamFolder folder;
  const KilledPart killed = kill_part(folder);
  const UniqueFd file = file_with(folder.path("data"), killed.data);
  auto others = made_events();
  others[0].ids = {8};
  for (const auto& events : {made_events(), others}) {
    const std::string path = folder.path(events[0].ids[0] == 8 ? "other" : "none");
    auto journal = Journal::create(create_file(path), events, encode_features(made_features(), events));
    ASSERT_TRUE(journal) << journal.error().what;
    const auto recovered = recover(file.get(), as_journal(read_file(path).value()));
    ASSERT_FALSE(recovered);
    const std::string expected = events[0].ids[0] == 8 ? "other events" : "before the first round";
    EXPECT_NE(recovered.error().what.find(expected), std::string::npos) << recovered.error().what;
  }
  EXPECT_EQ(recover(file.get(), {}).error().errno_value(), EBADMSG);
  EXPECT_EQ(recover(-1, as_journal(killed.journal)).error().errno_value(), EBADF);
  EXPECT_EQ(read_file(folder.path("data")).value(), killed.data) << "an error changes nothing";
}

}  // namespace
}  // namespace flight
