// SPDX-License-Identifier: Apache-2.0
// Parts that are data directories, of a flightd that was killed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "daemon/recordings/recovery.hpp"
#include "libcore/base/data_folder.hpp"
#include "libcore/compress/zstd.hpp"
#include "libcore/perf/attr.hpp"
#include "libcore/perfdata/reader.hpp"
#include "libcore/stream/part_file.hpp"
#include "tests/unit/daemon/recorder/recorder_bench.hpp"

namespace flight::daemon {
namespace {

using namespace test;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr std::uint64_t kFolderSeq = 8;
const std::string kFolderStem = "flight-box-20261120T031204.123Z-record-8";
constexpr std::size_t kFolderWorkers = 2;
constexpr std::uint64_t kFolderId = 5;

class FolderRecoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(bench_.start({.folder = bench_.snapshots()}));
    store_ = std::make_unique<PartStore>(*bench_.recorder, bench_.snapshots());
  }
  void TearDown() override { store_.reset(); }
  [[nodiscard]] std::string at(const std::string& name) const { return bench_.snapshots() + "/" + name; }
  [[nodiscard]] std::string part(const std::string& file = {}) const {
    return at(part_file(PartFileKind::data, kFolderSeq)) + (file.empty() ? "" : "/" + file);
  }
  static UniqueFd create(const std::string& path) {
    return std::move(*open_file(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640));
  }
  static RecordBuffer name_at(EventTime time_ns) {
    RecordBuffer out;
    append_comm(out, {.pid = 1, .tid = 1, .name = "made", .exec = false},
                {.pid = 1, .tid = 1, .time_ns = time_ns, .cpu = 0, .id = kFolderId});
    return out;
  }

  static Features features() {
    Features out;
    out.hostname = "box";
    out.cpus_available = out.cpus_online = 1;
    return out;
  }
  // Each round has a record of each worker. `whole`: all files are, as a commit finds them.
  void kill_part(int rounds, bool whole = false) {
    auto pool = BlockPool::create(1U << 20U);
    ASSERT_TRUE(pool);
    auto chunks = Chunks::create(0);
    ASSERT_TRUE(chunks);
    chunks->begin();
    fs::create_directory(part());
    FileEvent event;
    event.attr.type = PERF_TYPE_SOFTWARE;
    event.attr.size = kStoredAttrBytes;
    event.attr.config = PERF_COUNT_SW_CPU_CLOCK;
    event.attr.sample_type = kSidebandSampleType;
    event.attr.sample_id_all = 1;
    event.name = "cpu-clock";
    event.ids = {kFolderId};
    PartStart start;
    start.data = create(part("data"));
    for (std::size_t i = 0; i < kFolderWorkers; ++i) start.more.push_back(create(part(bare_data_file(i))));
    start.journal = create(at(part_file(PartFileKind::journal, kFolderSeq)));
    start.events = {event};
    start.features = features();
    start.prologue = name_at(0);
    auto made = PartFile::create(std::move(start), *chunks);
    ASSERT_TRUE(made) << made.error().what;
    for (int i = 1; i <= rounds; ++i) {
      const EventTime time_ns = static_cast<EventTime>(i) * 1'000'000'000;
      const RecordBuffer records = name_at(time_ns);
      Round round;
      for (std::size_t worker = 0; worker < kFolderWorkers; ++worker) {
        RingRound& ring = round.rings.emplace_back();
        ring.ring = ring.worker = worker;
        ring.blocks.push_back({.bytes = std::move(*(*pool)->keep({}, records)),
                               .expanded_bytes = records.size(),
                               .events = 0,
                               .oldest_ns = time_ns,
                               .newest_ns = time_ns});
      }
      round.newest_ns = time_ns;
      ASSERT_TRUE(made->write(round, {}));
    }
    if (whole) {
      ASSERT_TRUE(made->finish(features()));
    }
    Sidecar begun;
    begun.id = fmt::format("{}", kFolderSeq);
    begun.trigger = kRecordTrigger;
    begun.record = SidecarRecord{.first = begun.id, .part = 1, .ended = {}};
    begun.path = at(kFolderStem + ".perf.data");
    std::ofstream(at(part_file(PartFileKind::sidecar, kFolderSeq))) << to_json(begun);
  }
  [[nodiscard]] Result<std::string> recover(std::function<bool()> stop = {}) {
    return recover_part(*store_, {.seq = kFolderSeq, .host = "box", .make_room = {}, .stop = std::move(stop)});
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(bench_.snapshots())) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  void expect_whole(std::size_t rounds) const {
    EXPECT_THAT(names(), testing::ElementsAre(kFolderStem + ".json", kFolderStem + ".perf.data"));
    const std::string path = at(kFolderStem + ".perf.data");
    const auto reader = FileReader::open(path);
    ASSERT_TRUE(reader) << reader.error().what;
    std::size_t records = 0;
    const auto read = reader->for_each_record(
        [&](std::span<const std::byte>) -> Result<void> {
          ++records;
          return {};
        },
        expand);
    EXPECT_TRUE(read) << read.error().what;
    EXPECT_EQ(records, 1 + rounds * kFolderWorkers) << "the prologue, and of each round one of each worker";
    const auto sidecar = parse_sidecar(read_file(at(kFolderStem + ".json")).value());
    ASSERT_TRUE(sidecar && sidecar->record);
    EXPECT_EQ(sidecar->record->ended, "killed");
    EXPECT_EQ(sidecar->size_bytes, reader->file_bytes());
    const auto folder = DataFolder::open_at(AT_FDCWD, path, path);
    ASSERT_TRUE(folder) << folder.error().what;
    EXPECT_EQ(folder->files().size(), 1 + kFolderWorkers);
    EXPECT_EQ(folder->other(), "");
  }

  RecorderBench bench_;
  std::unique_ptr<PartStore> store_;
};

TEST_F(FolderRecoveryTest, ADirectoryIsFinishedUnderItsName) {
  ASSERT_NO_FATAL_FAILURE(kill_part(3));
  for (const char* file : {"data", "data.1"}) std::ofstream(part(file), std::ios::app) << "torn";
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("was finished"));
  ASSERT_NO_FATAL_FAILURE(expect_whole(3));
}

// Killed between the names of the sidecar and of the directory.
TEST_F(FolderRecoveryTest, AWholeDirectoryGetsItsName) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2, true));
  Sidecar named = parse_sidecar(read_file(at(part_file(PartFileKind::sidecar, kFolderSeq))).value()).value();
  for (const char* file : {"data", "data.0", "data.1"}) named.size_bytes += fs::file_size(part(file));
  named.record->holes_known = true;
  named.record->ended = "killed";
  named.holes = {{.channel = "faults", .lost = 7, .cause = "late"}};
  std::ofstream(at(kFolderStem + ".json")) << to_json(named);
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("was whole"));
  ASSERT_NO_FATAL_FAILURE(expect_whole(2));
  const auto sidecar = parse_sidecar(read_file(at(kFolderStem + ".json")).value());
  ASSERT_TRUE(sidecar);
  EXPECT_EQ(sidecar->holes.size(), 1U);
}

// After a power cut a file may be shorter than the journal says.
TEST_F(FolderRecoveryTest, TheRoundsThatAllFilesHaveAreKept) {
  ASSERT_NO_FATAL_FAILURE(kill_part(3));
  fs::resize_file(part("data.1"), fs::file_size(part("data.1")) - 1);
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  ASSERT_NO_FATAL_FAILURE(expect_whole(2));
}

TEST_F(FolderRecoveryTest, WithoutAFileItHasTheRoundsBeforeThat) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  fs::remove(part("data.1"));
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("was removed")) << "already the first round had something in it";
  EXPECT_TRUE(names().empty());
}

TEST_F(FolderRecoveryTest, WhatCannotBeUsedGoes) {
  for (const int what : {0, 1, 2}) {
    SCOPED_TRACE(what);
    ASSERT_NO_FATAL_FAILURE(kill_part(what == 0 ? 0 : 2));
    if (what == 1) fs::remove(part("data"));  // killed while it was removed
    if (what == 2) std::ofstream(at(part_file(PartFileKind::journal, kFolderSeq))) << "no journal";
    const auto done = recover();
    ASSERT_TRUE(done) << done.error().what;
    EXPECT_THAT(*done, HasSubstr("was removed"));
    EXPECT_TRUE(names().empty());
  }
}

TEST_F(FolderRecoveryTest, ItStopsWithFlightdAndGoesOnLater) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  const auto before = names();
  int asked = 0;
  const auto stopped = recover([&asked] { return ++asked > 2; });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().errno_value(), ECANCELED);
  EXPECT_EQ(names(), before) << "the copy is gone";
  ASSERT_TRUE(recover());
  ASSERT_NO_FATAL_FAILURE(expect_whole(2));
}

// Killed in the recovery, before the copy had its name.
TEST_F(FolderRecoveryTest, AnotherCopyIsReplaced) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  fs::create_directory(at(".flightd-whole-8.partial"));
  std::ofstream(at(".flightd-whole-8.partial/data.0")) << "half of it";
  ASSERT_TRUE(recover());
  ASSERT_NO_FATAL_FAILURE(expect_whole(2));
}

TEST_F(FolderRecoveryTest, ADirectoryWithItsNameIsNotFinishedAgain) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  fs::copy(part(), at(kFolderStem + ".perf.data"));
  fs::copy_file(at(part_file(PartFileKind::sidecar, kFolderSeq)), at(kFolderStem + ".json"));
  const auto done = recover();
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_THAT(*done, HasSubstr("had its name already"));
  EXPECT_THAT(names(), testing::ElementsAre(kFolderStem + ".json", kFolderStem + ".perf.data"));
}

TEST_F(FolderRecoveryTest, WithoutTheBrokersFilesNothingIsLeft) {
  ASSERT_NO_FATAL_FAILURE(kill_part(2));
  const auto before = names();
  bench_.broker->refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  EXPECT_FALSE(recover());
  EXPECT_EQ(names(), before);
  bench_.broker->obey(Request::file);
  ASSERT_TRUE(recover());
  ASSERT_NO_FATAL_FAILURE(expect_whole(2));
}

// perf is run by the members of the store's group, too.
TEST_F(FolderRecoveryTest, TheGroupReadsADirectoryWhateverTheUmaskIs) {
  const mode_t before = ::umask(077);
  const auto made = store_->make(1);
  ::umask(before);
  ASSERT_TRUE(made) << made.error().what;
  struct stat found {};
  ASSERT_EQ(::stat(at(part_file(PartFileKind::data, made->seq)).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777U, 0750U);
}

TEST_F(FolderRecoveryTest, ThePartsFilesAreMadeTogetherOrNotAtAll) {
  auto made = store_->make(3);
  ASSERT_TRUE(made) << made.error().what;
  EXPECT_EQ(made->more.size(), 3U);
  const std::string name = part_file(PartFileKind::data, made->seq);
  for (const char* file : {"data", "data.0", "data.1", "data.2"}) EXPECT_EQ(fs::file_size(at(name + "/" + file)), 0U);
  EXPECT_TRUE(fs::exists(at(part_file(PartFileKind::journal, made->seq))));
  store_->remove(made->seq);
  EXPECT_THAT(names(), testing::ElementsAre(".seq"));
  bench_.broker->refuse(Request::file, std::errc::no_space_on_device, "the disk is full");
  EXPECT_FALSE(store_->make(3));
  EXPECT_THAT(names(), testing::ElementsAre(".seq"));
}

}  // namespace
}  // namespace flight::daemon
