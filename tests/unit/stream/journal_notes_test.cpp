// SPDX-License-Identifier: Apache-2.0
// What the journal of a part says between its rounds: the holes that a sidecar must state if the part is finished from
// it.
#include "libcore/stream/journal_notes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/file_calls.hpp"
#include "libcore/stream/journal.hpp"
#include "libcore/stream/journal_code.hpp"
#include "libcore/stream/part_file.hpp"
#include "libcore/stream/recover.hpp"
#include "tests/unit/stream/stream_bench.hpp"

namespace flight {
namespace {

using test::made_start;
using test::MadeRounds;
using test::StreamFolder;

constexpr std::uint64_t kEventBytes = 48;

std::span<const std::byte> journal_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// The next round, in which the second ring lacks so many events. Without records it is a round of this hole only.
Round round_with_hole(MadeRounds& rounds, std::size_t count, std::uint64_t lost) {
  Round round = rounds.next(count);
  auto ring = std::find_if(round.rings.begin(), round.rings.end(), [](const RingRound& one) { return one.ring == 1; });
  if (ring == round.rings.end()) {
    round.rings.emplace_back();
    ring = round.rings.end() - 1;
    ring->ring = ring->worker = 1;
    ring->cpu = 1;
  }
  ring->add_hole({.cause = HoleCause::late,
                  .bytes = lost * kEventBytes,
                  .events = lost,
                  .estimated = lost % 2 == 0,
                  .from_ns = 10 * lost,
                  .until_ns = 10 * lost + 5});
  return round;
}

// A part of two channels that is being written.
struct NotedPart {
  explicit NotedPart(const std::function<void(PartStart& start)>& change = [](PartStart& /*start*/) {}) {
    chunks.begin();
    PartStart start = made_start(folder.path("data"), folder.path("journal"));
    start.channels = {"calls", "faults"};
    change(start);
    auto made = PartFile::create(std::move(start), chunks);
    EXPECT_TRUE(made) << made.error().what;
    if (made) part.emplace(std::move(*made));
  }
  [[nodiscard]] std::string journal() const { return read_file(folder.path("journal")).value(); }
  [[nodiscard]] std::string copy(std::size_t bytes) const { return folder.path("copy-" + std::to_string(bytes)); }
  // From the first so many bytes of this journal, in a copy.
  [[nodiscard]] Recovered recovered(const std::string& text, std::size_t bytes) const {
    const std::string path = copy(bytes);
    std::filesystem::copy_file(folder.path("data"), path);
    const auto file = open_file(path, O_RDWR | O_CLOEXEC);
    EXPECT_TRUE(file) << file.error().what;
    auto done = recover(file.value().get(), journal_bytes(text).first(bytes));
    EXPECT_TRUE(done) << done.error().what;
    return done ? std::move(*done) : Recovered();
  }

  StreamFolder folder;
  MadeRounds rounds;
  Chunks chunks = Chunks::create(1).value();
  std::optional<PartFile> part;
};

std::vector<std::uint64_t> lost_in(const Recovered& recovered) {
  std::vector<std::uint64_t> out;
  for (const JournaledHole& one : recovered.holes) out.push_back(one.hole.events);
  return out;
}

TEST(JournalNotesTest, APartKnowsTheHolesOfTheRoundsThatAreKept) {
  NotedPart noted;
  ASSERT_TRUE(noted.part);
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 10, 1), {}));
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 0, 2), {})) << "which comes with the next round";
  ASSERT_TRUE(noted.part->write(noted.rounds.next(10), {}));
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 10, 3), {}));
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 0, 4), {}));
  const std::string journal = noted.journal();
  const std::vector<std::size_t> ends = parse_journal(journal_bytes(journal)).value().ends;
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_EQ(ends.back(), journal.size()) << "nothing is behind the last hole";
  const std::vector<std::vector<std::uint64_t>> expected{{1}, {1, 2}, {1, 2, 3}};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const Recovered recovered = noted.recovered(journal, ends[i]);
    EXPECT_EQ(recovered.rounds, i + 1);
    EXPECT_EQ(lost_in(recovered), expected[i]);
    EXPECT_EQ(recovered.lost_events, (i + 1) * (i + 2) / 2);
    EXPECT_EQ(recovered.lost_bytes, recovered.lost_events * kEventBytes);
    EXPECT_EQ(recovered.holes_left_out, 0U);
    const JournaledHole& last = recovered.holes.back();
    EXPECT_EQ(last.channel, "faults");
    EXPECT_EQ(last.cpu, 1);
    EXPECT_EQ(last.hole.cause, HoleCause::late);
    EXPECT_EQ(last.hole.bytes, (i + 1) * kEventBytes);
    EXPECT_EQ(last.hole.estimated, i == 1);
    EXPECT_EQ(last.hole.from_ns, 10 * (i + 1));
    EXPECT_EQ(last.hole.until_ns, 10 * (i + 1) + 5);
  }
}

TEST(JournalNotesTest, HolesThatAreNotListedAreCounted) {
  NotedPart noted;
  ASSERT_TRUE(noted.part);
  constexpr std::size_t kBeyond = 5;
  for (std::size_t i = 0; i < kMaxListedHoles + kBeyond; ++i)
    ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 0, 1), {}));
  ASSERT_TRUE(noted.part->write(noted.rounds.next(10), {}));
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 10, 2), {}));
  const std::string journal = noted.journal();
  const std::vector<std::size_t> ends = parse_journal(journal_bytes(journal)).value().ends;
  ASSERT_EQ(ends.size(), 2U);
  const Recovered first = noted.recovered(journal, ends[0]), both = noted.recovered(journal, ends[1]);
  EXPECT_EQ(first.holes.size(), kMaxListedHoles);
  EXPECT_EQ(first.holes_left_out, kBeyond);
  EXPECT_EQ(first.lost_events, kMaxListedHoles + kBeyond);
  EXPECT_EQ(both.holes.size(), kMaxListedHoles);
  EXPECT_EQ(both.holes_left_out, kBeyond + 1);
  EXPECT_EQ(both.lost_events, noted.part->facts().lost_events);
  EXPECT_EQ(both.lost_bytes, noted.part->facts().lost_bytes);
  EXPECT_LT(ends[1] - ends[0], 256U) << "each round adds one note at most";
}

// The journal is at its limit when it has as many bytes as with so many rounds.
TEST(JournalNotesTest, NotesFillAPartToo) {
  NotedPart noted;
  ASSERT_TRUE(noted.part);
  const PartLimits two_rounds{.rounds = 2};
  ASSERT_TRUE(noted.part->write(noted.rounds.next(10), {}));
  EXPECT_FALSE(noted.part->is_full(two_rounds));
  NotedPart with_hole;
  ASSERT_TRUE(with_hole.part);
  ASSERT_TRUE(with_hole.part->write(round_with_hole(with_hole.rounds, 10, 1), {}));
  EXPECT_TRUE(with_hole.part->is_full(two_rounds));
}

TEST(JournalNotesTest, AFailedSyncCutsTheNotesOfTheRoundsToo) {
  std::size_t calls = 0;
  NotedPart noted([&calls](PartStart& start) {
    start.sync = [&calls](int file) -> Result<bool> {
      if (++calls == 2) return sys_error(EIO, "sync to the disk");
      return sync_data_now(file);
    };
  });
  ASSERT_TRUE(noted.part);
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 10, 1), {}));
  ASSERT_TRUE(noted.part->sync());
  const std::string synced = noted.journal();
  ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 10, 2), {}));
  EXPECT_GT(noted.journal().size(), synced.size());
  EXPECT_FALSE(noted.part->sync());
  EXPECT_EQ(noted.journal(), synced);
  EXPECT_EQ(lost_in(noted.recovered(synced, synced.size())), std::vector<std::uint64_t>{1});
}

FileBuildId build_id_of(const std::string& name) {
  return {.kernel = false, .id = std::vector<std::uint8_t>(20, 0x42), .name = name};
}

// The names in the section BUILD_ID, one after the other; empty: there is none.
std::string build_ids_in(const std::string& path) {
  constexpr std::size_t kNameAt = 36;
  const auto reader = FileReader::open(path);
  EXPECT_TRUE(reader) << reader.error().what;
  if (!reader || !reader->features().contains(kFeatureBuildId)) return {};
  std::string out;
  std::span<const std::byte> rest = reader->features().at(kFeatureBuildId);
  while (rest.size() > kNameAt) {
    const std::size_t size = load<perf_event_header>(rest.data()).size;
    if (size <= kNameAt || size > rest.size()) return "damaged";
    out += reinterpret_cast<const char*>(&rest[kNameAt]);  // padded with zeros
    rest = rest.subspan(size);
  }
  return out;
}

TEST(JournalNotesTest, TheFileHasTheBuildIdsUntilItsLastRound) {
  for (const bool has_some : {true, false}) {
    std::size_t asked = 0;
    NotedPart noted([&asked, has_some](PartStart& start) {
      if (has_some) start.features.build_ids = {build_id_of("/begin")};
      start.more_build_ids = [&asked]() -> std::vector<FileBuildId> {
        if (++asked == 2) return {};
        return {build_id_of("/round-" + std::to_string(asked)), build_id_of("/too")};
      };
    });
    ASSERT_TRUE(noted.part);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(noted.part->write(noted.rounds.next(10), {}));
    const std::string journal = noted.journal();
    const std::vector<std::size_t> ends = parse_journal(journal_bytes(journal)).value().ends;
    ASSERT_EQ(ends.size(), 3U);
    const std::string first = std::string(has_some ? "/begin" : "") + "/round-1/too";
    for (std::size_t i = 0; i < ends.size(); ++i) {
      EXPECT_EQ(noted.recovered(journal, ends[i]).rounds, i + 1);
      EXPECT_EQ(build_ids_in(noted.copy(ends[i])), i < 2 ? first : first + "/round-3/too");
    }
    EXPECT_EQ(asked, 3U);
  }
}

// Neither a note nor the entry behind it.
TEST(JournalNotesTest, NoChangedOrCutNoteIsBelieved) {
  NotedPart noted;
  ASSERT_TRUE(noted.part);
  for (const std::uint64_t lost : {1U, 2U}) ASSERT_TRUE(noted.part->write(round_with_hole(noted.rounds, 10, lost), {}));
  const std::string journal = noted.journal();
  const std::vector<std::size_t> ends = parse_journal(journal_bytes(journal)).value().ends;
  ASSERT_EQ(ends.size(), 2U);
  for (std::size_t at = ends[0]; at < journal.size(); ++at) {
    std::string changed = journal;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    for (const auto& damaged : {changed, journal.substr(0, at)}) {
      const auto contents = parse_journal(journal_bytes(damaged));
      ASSERT_TRUE(contents) << contents.error().what;
      ASSERT_EQ(contents->entries.size(), 1U) << at;
      ASSERT_EQ(contents->notes.at(0).holes.size(), 1U) << at;
    }
  }
}

TEST(JournalNotesTest, AKindThatIsNotKnownIsSkippedAndThoseOfAnotherJournalAreNot) {
  constexpr std::uint64_t kFacts = 7;
  JournalNotes notes;
  notes.holes.push_back({.channel = "calls", .cpu = 1, .hole = {.events = 3}});
  std::vector<std::byte> bytes;
  append_notes(bytes, notes, kFacts);
  EXPECT_TRUE(begins_with_note(bytes));
  JournalNotes read;
  EXPECT_EQ(read_note(bytes, kFacts, read), bytes.size());
  ASSERT_EQ(read.holes.size(), 1U);
  EXPECT_EQ(read.holes[0].hole.events, 3U);
  EXPECT_EQ(read_note(bytes, kFacts + 1, read), 0U);
  bytes[sizeof(std::uint64_t)] = std::byte{200};  // the kind
  const std::size_t fields = bytes.size() - sizeof(std::uint64_t);
  const std::uint64_t checksum = entry_checksum(std::span(bytes).first(fields), kFacts);
  std::memcpy(&bytes[fields], &checksum, sizeof checksum);
  EXPECT_EQ(read_note(bytes, kFacts, read), bytes.size());
  EXPECT_EQ(read.holes.size(), 1U);
}

}  // namespace
}  // namespace flight
